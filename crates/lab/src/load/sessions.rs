//! Connections at a rate, whether the server keeps up or not, with several requests on each: those of a
//! burst are sent at once (RFC 9112, 9.3.2: pipelined), the next burst when all their answers are there.

use super::{Closed, Outcome, answers::Answers, wait};
use anyhow::{Context, Result, bail};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, sockopt,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What to ask for, how often.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// The server.
    pub server: SocketAddr,
    /// Paths: these, over and over again.
    pub paths: Vec<String>,
    /// Bursts on each connection, at least one.
    pub bursts: usize,
    /// Requests in a burst, at least one. With the last of all the server is asked to close.
    pub burst: usize,
    /// Connections a second.
    pub rate: f64,
    /// Connections at once, at most.
    pub connections: usize,
    /// How long connections are due.
    pub duration: Duration,
    /// How long, after that, answers are waited for.
    pub grace: Duration,
}

impl Sessions {
    /// Runs them in the calling thread. What is counted are requests. The time of one counts from when
    /// its connection was due or, after the first burst, from when its burst was sent.
    ///
    /// # Errors
    /// There is nothing to ask for, or the machine gives no sockets.
    pub fn run(&self) -> Result<Outcome> {
        self.run_closing(&mut || ())
    }

    /// As [`run`](Self::run), and calls `closed` when no more connections are due.
    ///
    /// # Errors
    /// As there.
    pub fn run_closing(&self, closed: &mut Closed<'_>) -> Result<Outcome> {
        let each = self.bursts * self.burst;
        if self.rate <= 0.0 || self.connections == 0 || each == 0 || self.paths.is_empty() {
            bail!("sessions need a rate, a connection and something to ask for");
        }
        // Without this the kernel may let us sleep 50 µs longer than asked.
        rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?;
        let mut client = Client {
            sessions: self,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            under_way: (0..self.connections).map(|_| None).collect(),
            idle: (0..self.connections).rev().collect(),
            waiting: VecDeque::new(),
            asked: 0,
            buffer: vec![0; 256 << 10],
            last: Instant::now(),
            outcome: Outcome::new()?,
        };
        client.run(each as u64, closed)?;
        Ok(client.outcome)
    }
}

struct Client<'a> {
    sessions: &'a Sessions,
    epoll: OwnedFd,
    under_way: Vec<Option<Session>>,
    idle: Vec<usize>,
    /// When the connections were due that wait for a place.
    waiting: VecDeque<Instant>,
    /// Requests that were made.
    asked: usize,
    buffer: Vec<u8>,
    /// When the last answer came.
    last: Instant,
    outcome: Outcome,
}

/// A connection.
struct Session {
    socket: OwnedFd,
    /// When what it is asked for was due.
    due: Instant,
    /// What is to be sent once it is open.
    first: Option<Vec<u8>>,
    answers: Answers,
    /// Answers of this burst that are to come, and bursts after it.
    missing: usize,
    further: usize,
}

impl Client<'_> {
    fn run(&mut self, each: u64, closed: &mut Closed<'_>) -> Result<()> {
        let started = Instant::now();
        self.last = started;
        let end = started + self.sessions.duration;
        let interval = Duration::from_secs_f64(1.0 / self.sessions.rate);
        let mut begun = 0_u32;
        let mut more = true;
        let mut is_open = true;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            let now = Instant::now();
            let mut due = started + interval * begun;
            while due <= now && due < end {
                self.waiting.push_back(due);
                self.outcome.due += each;
                begun += 1;
                due = started + interval * begun;
            }
            while let (Some(&due), Some(&index)) = (self.waiting.front(), self.idle.last()) {
                self.waiting.pop_front();
                self.idle.pop();
                self.open(index, due)?;
            }
            // What is begun when nothing more is due was not begun in time.
            if more {
                self.outcome.backlog = each * self.waiting.len() as u64;
            }
            more = due < end;
            if is_open && now >= end {
                is_open = false;
                let window = now.saturating_duration_since(started);
                self.outcome.close(window, closed);
            }
            let until = match (more, self.outcome.unanswered() > 0) {
                (true, _) => due,
                (false, _) if is_open => end,
                (false, true) if now < end + self.sessions.grace => end + self.sessions.grace,
                _ => break,
            };
            wait(&self.epoll, &mut events, until)?;
            for event in &events {
                self.go_on(usize::try_from(event.data.u64())?);
            }
        }
        self.outcome.took = self.last.saturating_duration_since(started);
        self.outcome.connections = self.outcome.answered / each;
        Ok(())
    }

    fn open(&mut self, index: usize, due: Instant) -> Result<()> {
        let family = if self.sessions.server.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let further = self.sessions.bursts - 1;
        let mut session = Session {
            socket,
            due,
            first: Some(self.burst(further == 0)),
            answers: Answers::default(),
            missing: self.sessions.burst,
            further,
        };
        match rustix::net::connect(&session.socket, &self.sessions.server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(_) => {
                self.end(index, &mut session);
                return Ok(());
            }
        }
        let data = epoll::EventData::new_u64(index as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &session.socket, data, flags)?;
        self.under_way[index] = Some(session);
        Ok(())
    }

    /// The requests of the next burst.
    fn burst(&mut self, is_last: bool) -> Vec<u8> {
        let mut text = Vec::new();
        for number in 1..=self.sessions.burst {
            let path = &self.sessions.paths[self.asked % self.sessions.paths.len()];
            self.asked += 1;
            let close = if is_last && number == self.sessions.burst {
                "Connection: close\r\n"
            } else {
                ""
            };
            let host = self.sessions.server;
            text.extend(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n").bytes());
        }
        text
    }

    fn go_on(&mut self, index: usize) {
        let Some(mut session) = self.under_way[index].take() else {
            return;
        };
        match self.look(&mut session) {
            Ok(true) => self.under_way[index] = Some(session),
            Ok(false) | Err(_) => self.end(index, &mut session),
        }
    }

    /// Does what is possible now; whether anything is to come.
    fn look(&mut self, session: &mut Session) -> Result<bool> {
        if let Some(first) = &session.first {
            sockopt::socket_error(&session.socket)??;
            match send(&session.socket, first, SendFlags::NOSIGNAL) {
                Ok(sent) if sent == first.len() => session.first = None,
                Ok(_) => bail!("a burst did not fit into an empty socket"),
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            match recv(&session.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Ok(false),
                Ok((length, _)) => {
                    self.outcome.bytes += length as u64;
                    let mut bytes = &self.buffer[..length];
                    while let Some(status) = session.answers.take(&mut bytes)? {
                        session.missing = session
                            .missing
                            .checked_sub(1)
                            .context("an answer to no request")?;
                        self.last = Instant::now();
                        let after = self.last.saturating_duration_since(session.due);
                        self.outcome.came(status == 200, after);
                    }
                    if session.missing == 0 && session.further > 0 {
                        session.further -= 1;
                        session.missing = self.sessions.burst;
                        session.due = Instant::now();
                        let text = self.burst(session.further == 0);
                        let sent = send(&session.socket, &text, SendFlags::NOSIGNAL)?;
                        if sent < text.len() {
                            bail!("a burst did not fit into an empty socket");
                        }
                    }
                }
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is not answered of a connection that has ended never will be.
    fn end(&mut self, index: usize, session: &mut Session) {
        let missing = session.missing + session.further * self.sessions.burst;
        self.outcome.failed += missing as u64;
        self.idle.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::Sessions;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    /// A server that answers when it has `burst` requests; it ends a connection after `most` answers.
    fn server(burst: usize, most: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone().unwrap();
                    let (mut close, mut asked, mut answered) = (false, 0, 0);
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        close |= line == "Connection: close";
                        asked += usize::from(line.is_empty());
                        if !line.is_empty() || asked < burst {
                            continue;
                        }
                        let text =
                            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".repeat(asked);
                        let is_written = writer.write_all(text.as_bytes()).is_ok();
                        answered += asked;
                        asked = 0;
                        if !is_written || close || answered >= most {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn sessions(server: SocketAddr) -> Sessions {
        Sessions {
            server,
            paths: vec!["/a".into(), "/b".into()],
            bursts: 2,
            burst: 3,
            rate: 100.0,
            connections: 4,
            duration: Duration::from_millis(200),
            grace: Duration::from_secs(60),
        }
    }

    /// The server says nothing before it has a whole burst.
    #[test]
    fn requests_of_a_burst_do_not_wait_for_answers() {
        let outcome = sessions(server(3, 100)).run().unwrap();
        assert_eq!((outcome.due, outcome.answered), (120, 120));
        assert_eq!((outcome.failed, outcome.latency.len()), (0, 120));
    }

    #[test]
    fn what_a_server_leaves_unanswered_has_failed() {
        let outcome = sessions(server(3, 3)).run().unwrap();
        assert_eq!(
            (outcome.due, outcome.answered, outcome.failed),
            (120, 60, 60)
        );
        let nobody = Sessions {
            burst: 0,
            ..sessions(server(1, 1))
        };
        assert!(nobody.run().is_err());
    }
}
