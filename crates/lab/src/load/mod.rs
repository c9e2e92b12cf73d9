//! An open-loop HTTP client: requests are due at a fixed rate, whether the server keeps up or not.
//!
//! The latency of a request counts from the moment it was due, not from when a connection was free
//! to carry it, so a server that stalls cannot hide the requests it kept from being sent. One
//! thread, which sleeps between requests: its own CPU time is part of what is measured.
//!
//! Requests at a rate are those of many people who know nothing of each other. So each goes over the
//! connection that has been idle for the longest: over the one that was used last a request would
//! come right after the answer to another's, as if somebody had waited for that.

mod answers;
mod connection;
pub mod fetches;
pub mod sessions;
pub mod users;

use anyhow::{Context, Result, bail};
use connection::Connection;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What to ask for, how often, and over how many connections.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub server: SocketAddr,
    /// The path of every request.
    pub path: String,
    /// A connection for each request, instead of connections that stay.
    pub close: bool,
    /// Connections at once, at most.
    pub connections: usize,
    /// Requests a second.
    pub rate: f64,
    /// How long.
    pub duration: Duration,
    /// How long, after that, what is outstanding is waited for.
    pub grace: Duration,
}

/// What is asked for, in detail.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whole requests, each with its blank line. Responses must have a Content-Length.
    pub texts: Vec<Vec<u8>>,
    /// The status that each is to be answered with; nothing: 200.
    pub wanted: Vec<u16>,
    /// Which of them are asked for: these, over and over again.
    pub order: Vec<u16>,
    /// So many in all, at most.
    pub limit: Option<u64>,
    /// When each is due, from the beginning on, ascending, instead of at the rate; nothing: at the
    /// rate.
    pub due: Vec<Duration>,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests that were due.
    pub due: u64,
    /// Responses with the status that was wanted that arrived whole.
    pub answered: u64,
    /// Other responses, and connections that failed.
    pub failed: u64,
    /// Nanoseconds from when a request was due until its response was there.
    pub latency: Histogram<u64>,
    /// Bytes received: heads and bodies of responses.
    pub bytes: u64,
    /// Requests that were due and had no connection to be sent over: now, while more become due, and
    /// then when the last was.
    pub backlog: u64,
    /// Connections that were there and of use: those that stay, or each that a whole response came by.
    pub connections: u64,
    /// Of those answered, the ones that were within the window.
    pub in_time: u64,
    /// The window: how long requests were due. What is a part of a time is a part of this one; the
    /// wait for the last answers is none of it.
    pub window: Duration,
    /// From the first request due to the last response; while it runs, until now.
    pub took: Duration,
}

/// Called when the window is over, for whoever keeps an account of it: before what is still under way
/// is waited for.
pub type Closed<'a> = dyn FnMut() + Send + 'a;

impl Outcome {
    /// Nothing yet.
    fn new() -> Result<Self> {
        Ok(Self {
            due: 0,
            answered: 0,
            failed: 0,
            latency: Histogram::new_with_bounds(1_000, 60_000_000_000, 3)?,
            bytes: 0,
            backlog: 0,
            connections: 0,
            in_time: 0,
            window: Duration::ZERO,
            took: Duration::ZERO,
        })
    }

    /// Requests that were due and had no response when the load ended.
    pub fn unanswered(&self) -> u64 {
        self.due - self.answered - self.failed
    }

    /// Responses a second within the window.
    pub fn rate(&self) -> f64 {
        self.in_time as f64 / self.window.as_secs_f64().max(1e-9)
    }

    /// Of the requests that were due, the part that was begun while more became due, from 0 to 1: the others waited for
    /// a connection.
    pub fn offered(&self) -> f64 {
        1.0 - self.backlog as f64 / self.due.max(1) as f64
    }

    /// A request was answered after this time; `is_right`: with what was to come.
    fn came(&mut self, is_right: bool, after: Duration) {
        if is_right {
            let time = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            self.answered += 1;
            self.latency.saturating_record(time);
        } else {
            self.failed += 1;
        }
    }

    /// Closes the window, now.
    fn close(&mut self, window: Duration, closed: &mut Closed<'_>) {
        self.in_time = self.answered;
        self.window = window;
        closed();
    }
}

/// Waits for events until then at most; what was in `events` is forgotten.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, until: Instant) -> Result<()> {
    events.clear();
    let patience = Timespec::try_from(until.saturating_duration_since(Instant::now()))?;
    match epoll::wait(epoll, spare_capacity(events), Some(&patience)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("epoll_wait"),
    }
}

impl Load {
    /// A grace for measurements: what a server has not answered by then it did not keep up with.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// Runs the load in the calling thread, in its network and on its cores.
    pub fn run(&self) -> Result<Outcome> {
        self.run_watched(Duration::MAX, |_| ())
    }

    /// Runs it, and calls `watch` with what came of it so far, about once every `interval`.
    pub fn run_watched(&self, interval: Duration, watch: impl FnMut(&Outcome)) -> Result<Outcome> {
        self.run_asking(&self.path(), interval, watch)
    }

    /// As [`run_watched`](Self::run_watched), but asks for this instead of the path.
    pub fn run_asking(
        &self,
        asked: &Asked,
        interval: Duration,
        mut watch: impl FnMut(&Outcome),
    ) -> Result<Outcome> {
        self.run_all(asked, interval, &mut watch, &mut || ())
    }

    /// As [`run`](Self::run), but asks for this instead of the path, and calls `closed` at the end of the
    /// window.
    pub fn run_closing(&self, asked: &Asked, closed: &mut Closed<'_>) -> Result<Outcome> {
        self.run_all(asked, Duration::MAX, &mut |_| (), closed)
    }

    /// The path of every request, as what is asked for.
    pub fn path(&self) -> Asked {
        let connection = if self.close { "close" } else { "keep-alive" };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: {connection}\r\n\r\n",
            self.path, self.server
        );
        Asked {
            texts: vec![request.into_bytes()],
            wanted: Vec::new(),
            order: vec![0],
            limit: None,
            due: Vec::new(),
        }
    }

    fn run_all(
        &self,
        asked: &Asked,
        interval: Duration,
        watch: &mut dyn FnMut(&Outcome),
        closed: &mut Closed<'_>,
    ) -> Result<Outcome> {
        if self.rate <= 0.0 || self.connections == 0 {
            bail!("a load needs a rate and a connection");
        }
        let known = |text: &u16| usize::from(*text) < asked.texts.len();
        if asked.order.is_empty() || !asked.order.iter().all(known) {
            bail!("a load needs something to ask for");
        }
        let mut client = Client::new(self, asked)?;
        client.run(interval, watch, closed)?;
        Ok(client.outcome)
    }
}

struct Client<'a> {
    load: &'a Load,
    epoll: OwnedFd,
    asked: &'a Asked,
    /// How many requests were begun.
    begun: usize,
    /// Which text each connection asks for.
    asking: Vec<u16>,
    connections: Vec<Connection>,
    /// Connections without a request, the one that is idle for the longest first.
    idle: VecDeque<usize>,
    /// When the requests were due that wait for a connection.
    waiting: VecDeque<Instant>,
    buffer: Vec<u8>,
    outcome: Outcome,
}

impl<'a> Client<'a> {
    fn new(load: &'a Load, asked: &'a Asked) -> Result<Self> {
        // Without this the kernel may let us sleep 50 µs longer than asked.
        rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for _ in 0..load.connections {
            connections.push(Connection::default());
        }
        let mut client = Self {
            load,
            epoll,
            asked,
            begun: 0,
            asking: vec![0; load.connections],
            idle: (0..load.connections).collect(),
            connections,
            waiting: VecDeque::new(),
            buffer: vec![0; 256 * 1024],
            outcome: Outcome::new()?,
        };
        if !load.close {
            for index in 0..load.connections {
                client.connections[index]
                    .open_now(&client.epoll, index, load.server)
                    .with_context(|| format!("cannot connect to {}", load.server))?;
            }
            client.outcome.connections = load.connections as u64;
        }
        Ok(client)
    }

    fn run(
        &mut self,
        watched: Duration,
        watch: &mut dyn FnMut(&Outcome),
        closed: &mut Closed<'_>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut seen = Duration::ZERO;
        let interval = Duration::from_secs_f64(1.0 / self.load.rate);
        let end = started + self.load.duration;
        let mut limit = self.asked.limit.unwrap_or(u64::MAX);
        if !self.asked.due.is_empty() {
            limit = limit.min(self.asked.due.len() as u64);
        }
        let mut due = started + self.asked.due.first().copied().unwrap_or_default();
        let mut last = started;
        let mut more = true;
        let mut is_open = true;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            let now = Instant::now();
            while due <= now && due < end && self.outcome.due < limit {
                self.waiting.push_back(due);
                self.outcome.due += 1;
                // From the start, not from the previous one: rounding must not add up.
                let next = self.asked.due.get(self.outcome.due as usize);
                let at_the_rate = interval.mul_f64(self.outcome.due as f64);
                due = started + next.copied().unwrap_or(at_the_rate);
            }
            self.send_waiting();
            // What is begun when nothing more is due was not begun in time.
            if more {
                self.outcome.backlog = self.waiting.len() as u64;
            }
            more = due < end && self.outcome.due < limit;
            let elapsed = now.saturating_duration_since(started);
            if elapsed.saturating_sub(seen) >= watched {
                seen = elapsed;
                self.outcome.took = elapsed;
                watch(&self.outcome);
            }
            // With a number of requests the window ends when the last is due.
            if is_open && (now >= end || self.outcome.due >= limit) {
                is_open = false;
                self.outcome.close(elapsed, closed);
            }
            let outstanding = self.outcome.unanswered() > 0;
            let until = match (more, outstanding) {
                (true, _) => due,
                (false, _) if is_open => end,
                (false, true) if now < end + self.load.grace => end + self.load.grace,
                _ => break,
            };
            wait(&self.epoll, &mut events, until)?;
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                if self.go_on(index) {
                    last = Instant::now();
                }
            }
        }
        self.outcome.took = last.saturating_duration_since(started);
        Ok(())
    }

    fn send_waiting(&mut self) {
        while let (Some(&due), Some(&index)) = (self.waiting.front(), self.idle.front()) {
            self.waiting.pop_front();
            self.idle.pop_front();
            let text = self.asked.order[self.begun % self.asked.order.len()];
            self.begun += 1;
            self.asking[index] = text;
            let request = &self.asked.texts[usize::from(text)];
            let connection = &mut self.connections[index];
            let begun = connection.begin(&self.epoll, index, self.load.server, due, request);
            if begun.is_err() {
                self.fail(index);
            }
        }
    }

    /// Goes on with a connection that is ready; whether a response was completed.
    fn go_on(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let request = &self.asked.texts[usize::from(self.asking[index])];
        let Ok(progress) = connection.go_on(request, &mut self.buffer, self.load.close) else {
            self.fail(index);
            return false;
        };
        self.outcome.bytes += progress.bytes;
        if let Some((status, due)) = progress.answered {
            self.outcome.connections += u64::from(self.load.close);
            let wanted = self.asked.wanted.get(usize::from(self.asking[index]));
            let is_right = status == *wanted.unwrap_or(&200);
            self.outcome.came(is_right, due.elapsed());
        }
        let free = if self.load.close {
            progress.closed
        } else {
            progress.answered.is_some()
        };
        if free {
            self.idle.push_back(index);
        }
        progress.answered.is_some()
    }

    /// Gives a connection up, and its request with it.
    fn fail(&mut self, index: usize) {
        if self.connections[index].abandon() {
            self.outcome.failed += 1;
        }
        if !self.idle.contains(&index) {
            self.idle.push_back(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Load;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    /// A server that answers each request after `pause`, on each connection by a thread.
    fn server(status: &'static str, pause: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    let mut close = false;
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                        close |= line.contains("close");
                        if line.trim().is_empty() {
                            std::thread::sleep(pause);
                            let response =
                                format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello");
                            if stream.write_all(response.as_bytes()).is_err() || close {
                                return;
                            }
                        }
                        line.clear();
                    }
                });
            }
        });
        address
    }

    fn load(server: SocketAddr) -> Load {
        Load {
            server,
            path: "/".into(),
            close: false,
            connections: 4,
            rate: 200.0,
            duration: Duration::from_millis(250),
            grace: Duration::from_secs(60),
        }
    }

    #[test]
    fn every_request_that_is_due_is_answered() {
        let server = server("200 OK", Duration::ZERO);
        for close in [false, true] {
            let outcome = Load {
                close,
                ..load(server)
            }
            .run()
            .unwrap();
            assert_eq!((outcome.due, outcome.answered), (50, 50), "close: {close}");
            assert_eq!(outcome.latency.len(), 50);
            assert_eq!(outcome.connections, if close { 50 } else { 4 });
        }
    }

    #[test]
    fn requests_go_over_the_connection_that_is_idle_for_the_longest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counting = std::thread::spawn(move || {
            let each = (0..4).map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let ends = lines.map_while(Result::ok).filter(String::is_empty);
                    ends.map_while(|_| {
                        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        stream.write_all(response).ok()
                    })
                    .count()
                })
            });
            let each: Vec<_> = each.collect();
            let counts = each.into_iter().map(|it| it.join().unwrap());
            counts.collect::<Vec<usize>>()
        });
        // One every 20 ms: an answer that a busy machine makes wait is there before its connection's turn comes.
        let seldom = Load {
            rate: 50.0,
            duration: Duration::from_secs(1),
            ..load(address)
        };
        let outcome = seldom.run().unwrap();
        assert_eq!((outcome.due, outcome.answered), (50, 50));
        let counts = counting.join().unwrap();
        // Over the one used last nearly all would go over one.
        assert!(counts.iter().all(|count| *count > 2), "{counts:?}");
    }

    #[test]
    fn requests_are_due_when_they_are_said_to_be() {
        let server = server("200 OK", Duration::ZERO);
        let request = format!("GET / HTTP/1.1\r\nHost: {server}\r\n\r\n");
        let asked = super::Asked {
            texts: vec![request.into_bytes()],
            wanted: Vec::new(),
            order: vec![0],
            limit: None,
            // At the rate there would be fifty; the last is after the end.
            due: [0, 10, 20, 150, 240, 900]
                .map(Duration::from_millis)
                .to_vec(),
        };
        let began = std::time::Instant::now();
        let outcome = load(server)
            .run_asking(&asked, Duration::MAX, |_| ())
            .unwrap();
        assert_eq!((outcome.due, outcome.answered), (5, 5));
        assert!(began.elapsed() >= Duration::from_millis(240));
    }

    #[test]
    fn what_was_due_and_not_begun_in_time_is_said_at_the_end() {
        let slow = Load {
            connections: 1,
            ..load(server("200 OK", Duration::from_millis(20)))
        };
        let outcome = slow.run().unwrap();
        assert_eq!((outcome.due, outcome.answered), (50, 50));
        // In a quarter of a second twelve can be answered, and one is under way.
        assert!(outcome.backlog >= 36, "{}", outcome.backlog);
        assert!(outcome.offered() <= 0.28, "{}", outcome.offered());
        let outcome = load(server("200 OK", Duration::ZERO)).run().unwrap();
        assert!(outcome.backlog < 10, "{}", outcome.backlog);
        assert!(outcome.offered() > 0.8, "{}", outcome.offered());
    }

    /// One answer comes long after the others: what is counted a second is of the time before.
    #[test]
    fn the_wait_for_the_last_answer_is_not_in_the_window() {
        let slow = Load {
            connections: 1,
            ..load(server("200 OK", Duration::from_millis(20)))
        };
        let mut closed = Vec::new();
        let began = std::time::Instant::now();
        let outcome = slow
            .run_closing(&slow.path(), &mut || {
                closed.push(began.elapsed());
            })
            .unwrap();
        // All fifty are answered, one after the other, which takes a second.
        assert_eq!(outcome.answered, 50);
        assert!(outcome.took >= Duration::from_secs(1));
        let [closed] = closed[..] else {
            panic!("closed {closed:?}");
        };
        assert!(closed < outcome.took, "{closed:?}");
        assert!(outcome.window >= slow.duration && outcome.window <= closed);
        // No faster than one by one.
        let most = outcome.window.as_millis() as u64 / 20;
        assert!((1..=most).contains(&outcome.in_time), "{outcome:?}");
        assert_eq!(
            outcome.rate(),
            outcome.in_time as f64 / outcome.window.as_secs_f64()
        );
    }

    #[test]
    fn latency_counts_from_when_a_request_was_due() {
        // One connection, 20 ms a response, a request due every 5 ms: the last waits for many.
        let server = server("200 OK", Duration::from_millis(20));
        let outcome = Load {
            connections: 1,
            ..load(server)
        }
        .run()
        .unwrap();
        assert_eq!(outcome.due, 50);
        assert!(
            outcome.latency.max() > 200_000_000,
            "{}",
            outcome.latency.max()
        );
    }

    #[test]
    fn other_statuses_are_failures() {
        let server = server("404 Not Found", Duration::ZERO);
        let outcome = load(server).run().unwrap();
        assert_eq!((outcome.answered, outcome.failed), (0, outcome.due));
        // Unless they are what is wanted.
        let request = format!("GET / HTTP/1.1\r\nHost: {server}\r\n\r\n");
        let asked = super::Asked {
            texts: vec![request.clone().into_bytes(), request.into_bytes()],
            wanted: vec![404, 200],
            order: vec![0, 0, 1],
            limit: Some(6),
            due: Vec::new(),
        };
        let outcome = load(server)
            .run_asking(&asked, Duration::MAX, |_| ())
            .unwrap();
        assert_eq!((outcome.answered, outcome.failed), (4, 2));
    }
}
