//! Users, a fixed number of them: each pauses, asks, and has its answer before it pauses and asks again (a closed loop).
//! What a server does not keep up with its users ask for later.

use super::{Closed, Connection, Outcome, wait};
use anyhow::{Result, bail};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What they ask for, and for how long.
#[derive(Clone, Debug)]
pub struct Users<'a> {
    /// The server.
    pub server: SocketAddr,
    /// Whole requests, each with its blank line. With the answer the server ends the connection: each request has one.
    pub texts: &'a [Vec<u8>],
    /// Connections at once, at most. Whoever finds none waits for one; for him the time runs.
    pub connections: usize,
    /// How long they ask.
    pub duration: Duration,
    /// How long, after that, answers are waited for.
    pub grace: Duration,
}

impl Users<'_> {
    /// Runs them in the calling thread, and calls `closed` when nobody asks any more. Of a user there is known how long
    /// it pauses, and for which of the texts it asks then, one after the other; it leaves when there is no more. A
    /// request that fails is one that was answered to it. The time of one counts from when its pause was over.
    ///
    /// # Errors
    /// They ask for what there is not, or the machine gives no sockets.
    pub fn run_closing<U>(&self, users: Vec<U>, closed: &mut Closed<'_>) -> Result<Outcome>
    where
        U: Iterator<Item = (Duration, usize)>,
    {
        self.run_all(users, Duration::MAX, &mut |_| (), closed)
    }

    /// As [`run_closing`](Self::run_closing), but calls `watch` with what came of it so far, about once every `interval`.
    ///
    /// # Errors
    /// As there.
    pub fn run_watched<U>(
        &self,
        users: Vec<U>,
        interval: Duration,
        watch: &mut dyn FnMut(&Outcome),
    ) -> Result<Outcome>
    where
        U: Iterator<Item = (Duration, usize)>,
    {
        self.run_all(users, interval, watch, &mut || ())
    }

    fn run_all<U>(
        &self,
        users: Vec<U>,
        interval: Duration,
        watch: &mut dyn FnMut(&Outcome),
        closed: &mut Closed<'_>,
    ) -> Result<Outcome>
    where
        U: Iterator<Item = (Duration, usize)>,
    {
        if self.connections == 0 {
            bail!("users need a connection");
        }
        // Without this the kernel may let us sleep 50 µs longer than asked.
        rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?;
        let mut client = Client {
            load: self,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            pausing: BinaryHeap::with_capacity(users.len()),
            users,
            waiting: VecDeque::new(),
            connections: (0..self.connections)
                .map(|_| Connection::default())
                .collect(),
            asking: vec![(0, 0); self.connections],
            idle: (0..self.connections).rev().collect(),
            buffer: vec![0; 256 << 10],
            last: Instant::now(),
            outcome: Outcome::new()?,
        };
        client.run(interval, watch, closed)?;
        Ok(client.outcome)
    }
}

struct Client<'a, U> {
    load: &'a Users<'a>,
    epoll: OwnedFd,
    users: Vec<U>,
    /// Until when who pauses, and for what it asks then.
    pausing: BinaryHeap<Reverse<(Instant, usize, usize)>>,
    /// Since when who waits for a connection, and for what.
    waiting: VecDeque<(Instant, usize, usize)>,
    connections: Vec<Connection>,
    /// Who asks over each, and for what.
    asking: Vec<(usize, usize)>,
    idle: Vec<usize>,
    buffer: Vec<u8>,
    /// When the last answer came.
    last: Instant,
    outcome: Outcome,
}

impl<U: Iterator<Item = (Duration, usize)>> Client<'_, U> {
    fn run(
        &mut self,
        interval: Duration,
        watch: &mut dyn FnMut(&Outcome),
        closed: &mut Closed<'_>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut seen = Duration::ZERO;
        self.last = started;
        let end = started + self.load.duration;
        let mut is_open = true;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        for user in 0..self.users.len() {
            self.pauses(user, started)?;
        }
        loop {
            let now = Instant::now();
            self.ask(now, end);
            self.send_waiting()?;
            // What is begun when nobody asks any more was not begun in time.
            if is_open {
                self.outcome.backlog = self.waiting.len() as u64;
            }
            let elapsed = now.saturating_duration_since(started);
            if elapsed.saturating_sub(seen) >= interval {
                seen = elapsed;
                self.outcome.took = elapsed;
                watch(&self.outcome);
            }
            let is_under_way = self.outcome.unanswered() > 0;
            let has_more = is_under_way || !self.pausing.is_empty();
            if is_open && (now >= end || !has_more) {
                is_open = false;
                self.outcome.close(elapsed, closed);
            }
            let until = match self.pausing.peek() {
                Some(Reverse((due, ..))) if is_open => end.min(*due),
                None if is_open => end,
                _ if is_under_way && now < end + self.load.grace => end + self.load.grace,
                _ => break,
            };
            let watched = started.checked_add(seen.saturating_add(interval));
            wait(
                &self.epoll,
                &mut events,
                watched.map_or(until, |at| at.min(until)),
            )?;
            for event in &events {
                self.go_on(usize::try_from(event.data.u64())?)?;
            }
        }
        self.outcome.took = self.last.saturating_duration_since(started);
        Ok(())
    }

    /// Those whose pauses are over ask, until the end.
    fn ask(&mut self, now: Instant, end: Instant) {
        while let Some(Reverse((due, user, text))) = self.pausing.peek().copied() {
            if due > now || due >= end {
                return;
            }
            self.pausing.pop();
            self.waiting.push_back((due, user, text));
            self.outcome.due += 1;
        }
    }

    /// Begins the next pause of a user.
    fn pauses(&mut self, user: usize, from: Instant) -> Result<()> {
        let Some((pause, text)) = self.users[user].next() else {
            return Ok(());
        };
        if text >= self.load.texts.len() {
            bail!("a user asks for what there is not");
        }
        // Who pauses for longer than the clock goes does not come back.
        let due = from.checked_add(pause);
        self.pausing
            .extend(due.map(|due| Reverse((due, user, text))));
        Ok(())
    }

    fn send_waiting(&mut self) -> Result<()> {
        while let (Some(&(due, user, text)), Some(&index)) =
            (self.waiting.front(), self.idle.last())
        {
            self.waiting.pop_front();
            self.idle.pop();
            self.asking[index] = (user, text);
            let request = &self.load.texts[text];
            let connection = &mut self.connections[index];
            let begun = connection.begin(&self.epoll, index, self.load.server, due, request);
            if begun.is_err() {
                self.fail(index)?;
            }
        }
        Ok(())
    }

    /// Goes on with a connection that is ready.
    fn go_on(&mut self, index: usize) -> Result<()> {
        let (user, text) = self.asking[index];
        let request = &self.load.texts[text];
        let Ok(progress) = self.connections[index].go_on(request, &mut self.buffer, true) else {
            return self.fail(index);
        };
        self.outcome.bytes += progress.bytes;
        if progress.closed {
            self.idle.push(index);
        }
        let Some((status, due)) = progress.answered else {
            return Ok(());
        };
        self.last = Instant::now();
        self.outcome.connections += 1;
        let after = self.last.saturating_duration_since(due);
        self.outcome.came(status == 200, after);
        self.pauses(user, self.last)
    }

    /// Gives a connection up, and its request with it.
    fn fail(&mut self, index: usize) -> Result<()> {
        self.idle.push(index);
        if !self.connections[index].abandon() {
            return Ok(());
        }
        self.outcome.failed += 1;
        let (user, _) = self.asking[index];
        self.pauses(user, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::Users;
    use crate::load::Outcome;
    use rustix::net::sockopt::set_socket_linger;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// How many are asked at once, and were at most.
    #[derive(Default)]
    struct Seen {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    /// A server that ends each connection with its answer, by a thread for each.
    fn server(status: &'static str) -> (SocketAddr, Arc<Seen>) {
        server_that(status, false)
    }

    /// As [`server`]; whether it ends them by resets.
    fn server_that(status: &'static str, resets: bool) -> (SocketAddr, Arc<Seen>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head = lines
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty());
                    assert!(head.count() > 0);
                    let now = 1 + seen.now.fetch_add(1, Ordering::SeqCst);
                    seen.most.fetch_max(now, Ordering::SeqCst);
                    // Others have time to ask, if they do.
                    std::thread::sleep(Duration::from_millis(5));
                    seen.now.fetch_sub(1, Ordering::SeqCst);
                    let text = format!("HTTP/1.0 {status}\r\nContent-Length: 5\r\n\r\nhello");
                    let _ = stream.write_all(text.as_bytes());
                    if resets {
                        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                    }
                });
            }
        });
        (address, seen)
    }

    /// So many users, each of whom does this.
    fn run(
        server: SocketAddr,
        connections: usize,
        users: usize,
        each: &[(Duration, usize)],
    ) -> Outcome {
        let texts = [b"GET / HTTP/1.0\r\n\r\n".to_vec()];
        let load = Users {
            server,
            texts: &texts,
            connections,
            duration: Duration::from_secs(60),
            grace: Duration::from_secs(60),
        };
        let users = vec![each.iter().copied(); users];
        let mut closed = 0;
        let outcome = load.run_closing(users, &mut || closed += 1).unwrap();
        assert_eq!(closed, 1);
        outcome
    }

    const AT_ONCE: (Duration, usize) = (Duration::ZERO, 0);

    #[test]
    fn a_user_asks_when_it_has_its_answer() {
        let (server, seen) = server("200 OK");
        let outcome = run(server, 64, 3, &[AT_ONCE; 5]);
        assert_eq!((outcome.due, outcome.answered, outcome.failed), (15, 15, 0));
        assert_eq!((outcome.in_time, outcome.connections), (15, 15));
        assert_eq!(outcome.latency.len(), 15);
        assert!(seen.most.load(Ordering::SeqCst) <= 3);
    }

    /// Answer and reset are often there at once.
    #[test]
    fn a_user_whose_connection_is_reset_behind_its_answer_asks_again() {
        let (server, _) = server_that("200 OK", true);
        let outcome = run(server, 64, 3, &[AT_ONCE; 20]);
        assert_eq!((outcome.due, outcome.answered, outcome.failed), (60, 60, 0));
        assert_eq!(outcome.connections, 60);
    }

    /// Also while all pause, and nothing comes.
    #[test]
    fn whoever_watches_is_told_as_time_passes() {
        let (server, _) = server("200 OK");
        let texts = [b"GET / HTTP/1.0\r\n\r\n".to_vec()];
        let load = Users {
            server,
            texts: &texts,
            connections: 4,
            duration: Duration::from_millis(200),
            grace: Duration::from_secs(60),
        };
        let users = vec![[AT_ONCE, (Duration::from_secs(3_600), 0)].into_iter(); 2];
        let mut told: Vec<(Duration, u64)> = Vec::new();
        let each = Duration::from_millis(20);
        let outcome = load.run_watched(users, each, &mut |so_far| {
            told.push((so_far.took, so_far.answered));
        });
        let outcome = outcome.unwrap();
        assert_eq!((outcome.due, outcome.answered), (2, 2));
        assert!(!told.is_empty() && told.len() <= 11, "{told:?}");
        let mut times = told.iter().map(|(took, _)| *took);
        let mut before = times.next().unwrap();
        assert!(times.all(|took| std::mem::replace(&mut before, took) + each <= took));
        assert!(told.iter().all(|(_, answered)| *answered <= 2));
    }

    #[test]
    fn whoever_finds_no_connection_waits_for_one() {
        let (server, seen) = server("200 OK");
        let outcome = run(server, 1, 3, &[AT_ONCE; 2]);
        assert_eq!((outcome.due, outcome.answered), (6, 6));
        assert_eq!(seen.most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn who_is_not_served_asks_again_all_the_same() {
        let (server, _) = server("503 Too Many");
        let outcome = run(server, 64, 2, &[AT_ONCE; 3]);
        assert_eq!((outcome.due, outcome.answered, outcome.failed), (6, 0, 6));
        // Nobody listens there.
        let outcome = run(([127, 0, 0, 1], 1).into(), 64, 2, &[AT_ONCE; 3]);
        assert_eq!((outcome.due, outcome.answered, outcome.failed), (6, 0, 6));
    }

    #[test]
    fn who_pauses_beyond_the_end_asks_no_more() {
        let (server, _) = server("200 OK");
        let texts = [b"GET / HTTP/1.0\r\n\r\n".to_vec()];
        let load = Users {
            server,
            texts: &texts,
            connections: 4,
            duration: Duration::from_millis(50),
            grace: Duration::from_secs(60),
        };
        let pauses = [AT_ONCE, (Duration::from_secs(3_600), 0)];
        let users = vec![
            pauses.into_iter(),
            [(Duration::MAX, 0), AT_ONCE].into_iter(),
        ];
        let outcome = load.run_closing(users, &mut || ()).unwrap();
        assert_eq!((outcome.due, outcome.answered), (1, 1));
        assert!(outcome.window >= load.duration);
        let unknown = vec![[(Duration::ZERO, 1)].into_iter()];
        assert!(load.run_closing(unknown, &mut || ()).is_err());
    }
}
