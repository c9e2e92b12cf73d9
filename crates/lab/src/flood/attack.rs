//! Attacks on a server by connections of the kernel's: many, slow ones, and many small requests. What each holds it
//! gives back with a reset, so that an attack leaves no ports behind.

use crate::world::{Side, World};
use anyhow::{Context, Result};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::background::Background;
use super::{Place, Report};

/// Connections that an attack holds, at most; the oldest go first. More than nginx has room for.
const HELD: usize = 24_000;
/// Descriptors that are left to the rest of this process.
const OTHERS: usize = 1_000;
/// Connections over which small requests come.
const REQUESTING: usize = 64;
/// Begun at once, at most, before what is held is looked after.
const BATCH: u64 = 64;
/// How long to sleep when nothing is due.
const IDLE: Duration = Duration::from_micros(200);
/// Between two bytes of a slow header.
const SLOW: Duration = Duration::from_secs(1);

const REQUEST: &[u8] = b"GET /64 HTTP/1.1\r\nHost: x\r\n\r\n";
const BEGINNING: &[u8] = b"GET /64 HTTP/1.1\r\nHost: x\r\nX-Slow: ";

/// What an attack is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections without a request.
    Connections,
    /// Connections with a request whose header does not end: a byte a second.
    SlowHeaders,
    /// Whole small requests on a few connections.
    SmallRequests,
}

/// An attack that goes on until it is stopped or dropped, kept by a thread of this process.
#[derive(Debug)]
pub struct Attack(Background);

impl Attack {
    /// Begins to attack an address and port of the server's side from the client's, with so many connections or
    /// requests a second, or as many as a core can while nobody else wants it: clients there are not kept waiting by
    /// who attacks.
    ///
    /// # Errors
    /// What kept it from being begun.
    pub fn start(
        world: &World,
        target: SocketAddr,
        kind: Kind,
        rate: f64,
        core: usize,
    ) -> Result<Self> {
        let namespace = world.name(Side::Client).to_owned();
        let place = Place {
            core,
            gives_way: true,
        };
        let background = Background::start("attack", move |stop| {
            crate::world::enter_namespace(&namespace)?;
            place.take()?;
            Attacker::new(target, kind)?.run(rate, stop)
        })?;
        Ok(Self(background))
    }

    /// Ends it, and says what it came to.
    ///
    /// # Errors
    /// It had failed.
    pub fn stop(mut self) -> Result<Report> {
        self.0.stop()
    }
}

struct Attacker {
    target: SocketAddr,
    kind: Kind,
    /// Being opened, and not greeted yet.
    young: VecDeque<OwnedFd>,
    held: VecDeque<OwnedFd>,
    /// Of both together.
    most: usize,
    /// Whose turn it is to ask.
    turn: usize,
    slow_at: Instant,
    buffer: Vec<u8>,
}

impl Attacker {
    fn new(target: SocketAddr, kind: Kind) -> Result<Self> {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).context("cannot have more descriptors")?;
        let most = usize::try_from(limit.maximum.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        Ok(Self {
            target,
            kind,
            young: VecDeque::new(),
            held: VecDeque::new(),
            most: HELD.min(most.saturating_sub(OTHERS)),
            turn: 0,
            slow_at: Instant::now(),
            buffer: vec![0; 64 * 1_024],
        })
    }

    fn run(mut self, rate: f64, stop: &AtomicBool) -> Result<Report> {
        let began = Instant::now();
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let due = (began.elapsed().as_secs_f64() * rate) as u64;
            let mut done = 0;
            while done < BATCH.min(due.saturating_sub(sent)) && self.strike() {
                done += 1;
            }
            sent += done;
            self.look_after();
            if done == 0 {
                std::thread::sleep(IDLE);
            }
        }
        let took = began.elapsed();
        Ok(Report { sent, took })
    }

    /// Does what the attack is of, once; whether it could.
    fn strike(&mut self) -> bool {
        if self.kind != Kind::SmallRequests {
            return self.open();
        }
        if self.held.len() + self.young.len() < REQUESTING {
            self.open();
        }
        for _ in 0..self.held.len() {
            self.turn = (self.turn + 1) % self.held.len();
            match send(&self.held[self.turn], REQUEST, SendFlags::NOSIGNAL) {
                Ok(_) => return true,
                Err(Errno::AGAIN) => {}
                Err(_) => {
                    self.held.remove(self.turn);
                    return false;
                }
            }
        }
        false
    }

    fn open(&mut self) -> bool {
        let family = match self.target {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let Ok(socket) = socket_with(family, SocketType::STREAM, flags, None) else {
            return false;
        };
        // Closed by a reset.
        let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        match connect(&socket, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => self.young.push_back(socket),
            // No port is left, or nobody is there.
            Err(_) => return false,
        }
        true
    }

    /// Greets those that have been opened, goes on with those that are slow, and lets the oldest go.
    fn look_after(&mut self) {
        let greeting = match self.kind {
            Kind::Connections => &[],
            Kind::SlowHeaders => BEGINNING,
            Kind::SmallRequests => REQUEST,
        };
        for _ in 0..self.young.len().min(2 * BATCH as usize) {
            let Some(socket) = self.young.pop_front() else {
                break;
            };
            if greeting.is_empty() {
                self.held.push_back(socket);
                continue;
            }
            match send(&socket, greeting, SendFlags::NOSIGNAL) {
                Ok(_) => self.held.push_back(socket),
                Err(Errno::AGAIN | Errno::NOTCONN) => self.young.push_back(socket),
                Err(_) => {}
            }
        }
        if self.kind == Kind::SlowHeaders && self.slow_at.elapsed() > SLOW {
            self.slow_at = Instant::now();
            self.held.retain(|socket| {
                matches!(
                    send(socket, b"x", SendFlags::NOSIGNAL),
                    Ok(_) | Err(Errno::AGAIN)
                )
            });
        }
        if self.kind == Kind::SmallRequests {
            let buffer = &mut self.buffer;
            self.held.retain(|socket| {
                !matches!(
                    recv(socket, &mut buffer[..], RecvFlags::empty()),
                    Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE)
                )
            });
        }
        while self.held.len() + self.young.len() > self.most {
            if self.held.pop_front().is_none() {
                self.young.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    /// What a server on this machine hears of an attack, and on how many connections, until it has heard this much.
    fn heard(kind: Kind, bytes: usize, connections: usize) -> (Vec<u8>, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let attack = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || Attacker::new(target, kind)?.run(1e6, &stop)
        });
        let (mut all, mut open) = (Vec::new(), Vec::new());
        while open.len() < connections {
            open.push(listener.accept().expect("a connection").0);
        }
        let mut piece = [0; 4_096];
        while all.len() < bytes {
            let length = open[0].read(&mut piece).expect("some bytes");
            assert!(length > 0, "it ended");
            all.extend_from_slice(&piece[..length]);
            open[0]
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .expect("room");
        }
        stop.store(true, Ordering::Relaxed);
        let report = attack.join().expect("no panic").expect("a report");
        assert!(report.sent >= connections as u64);
        // What it held ends at once, by a reset.
        let mut rest = Vec::new();
        let end = open.last_mut().expect("one").read_to_end(&mut rest);
        assert!(end.is_err() || kind != Kind::Connections, "{rest:?}");
        (all, open.len())
    }

    #[test]
    fn each_attack_does_what_it_is_of() {
        assert_eq!(heard(Kind::Connections, 0, 200).1, 200);
        let (slow, _) = heard(Kind::SlowHeaders, BEGINNING.len(), 100);
        assert!(slow.starts_with(BEGINNING) && !slow.ends_with(b"\r\n"));
        let (many, _) = heard(Kind::SmallRequests, REQUEST.len() * 50, 1);
        assert!(many.starts_with(REQUEST) && many[REQUEST.len()..].starts_with(REQUEST));
    }
}
