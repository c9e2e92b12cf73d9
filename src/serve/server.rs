//! The loop: what has happened, what each client can do then, who has been silent for too long, and how it
//! ends.

use super::client::{Client, INPUT, Rules, Waits};
use super::offered::Offered;
use anyhow::{Context, Result};
use native::{Errno, Event, Handle, Kind, Queue};
use rustix::event::epoll::EventFlags;
use slotmap::SecondaryMap;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// So much of what has happened is looked at before time is.
const EVENTS: usize = 256;
/// Connections that may wait to be accepted.
pub const BACKLOG: u32 = 4096;
/// So many connections are accepted before the others have their turn.
const ACCEPTS: usize = 64;
/// How often it is looked who has been silent for too long, and whether what there was too little of is
/// there again.
const CHECK: Duration = Duration::from_secs(1);

/// A server over one listener.
pub struct Server {
    site: Offered,
    rules: Rules,
    queue: Queue,
    /// Nobody new is accepted once it is gone.
    listener: Option<Handle>,
    /// The listener may have more than were accepted: it is told once that it has some.
    has_more: bool,
    /// The machine was short of something that accepting needs.
    is_short: bool,
    /// Each byte is a signal to stop: the first asks, the second insists.
    stop: UnixStream,
    /// When those who are left are left alone.
    deadline: Option<Instant>,
    clients: SecondaryMap<Handle, Client>,
    limit: usize,
    /// Clients whose turn was cut short.
    waiting_turn: Vec<Handle>,
    checked: Instant,
    /// What a client has asked, while that is looked at.
    input: Box<[u8; INPUT]>,
}

impl Server {
    /// A server of `site` on the connections of `listener`, which is in `queue`, with room for `limit`
    /// clients. A byte on `stop` asks it to stop, a second makes it.
    pub fn new(
        site: Offered,
        rules: Rules,
        mut queue: Queue,
        listener: Handle,
        limit: usize,
        stop: UnixStream,
    ) -> Result<Self> {
        stop.set_nonblocking(true)?;
        queue.watch(stop.as_fd(), EventFlags::IN.bits(), 0)?;
        Ok(Self {
            site,
            rules,
            queue,
            listener: Some(listener),
            has_more: false,
            is_short: false,
            stop,
            deadline: None,
            clients: SecondaryMap::new(),
            limit,
            waiting_turn: Vec::new(),
            checked: Instant::now(),
            input: Box::new([0; INPUT]),
        })
    }

    /// Serves until it is stopped, or something is wrong with the machine.
    pub fn run(mut self) -> Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let patience = self.patience();
            match self.queue.wait(&mut events, EVENTS, patience) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting failed"),
            }
            let now = Instant::now();
            self.site.look_again(now);
            let mut waiting = std::mem::take(&mut self.waiting_turn);
            // One of whom was told meanwhile is there twice.
            waiting.sort_unstable();
            waiting.dedup();
            for handle in waiting {
                self.advance(handle, now);
            }
            for event in &events {
                match event.kind {
                    Kind::Accept => self.has_more = true,
                    // Nothing else is watched.
                    Kind::Ready => self.stop(now)?,
                    // Whatever happens to a client, its next step finds out what it means.
                    _ => self.advance(event.handle, now),
                }
            }
            self.accept(now, ACCEPTS)?;
            self.check_times(now);
            if self
                .deadline
                .is_some_and(|at| now >= at || self.clients.is_empty())
            {
                return Ok(());
            }
        }
    }

    /// The first signal: those who have been accepted get what they asked for, nobody else is
    /// accepted. The second ends everything at once.
    fn stop(&mut self, now: Instant) -> Result<()> {
        let mut signals = [0; 16];
        let count = match self.stop.read(&mut signals) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error).context("cannot read the signals"),
        };
        if count > 1 || (count == 1 && self.deadline.is_some()) {
            self.deadline = Some(now);
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        // Who is in the queue already has a connection, and would see it reset.
        self.has_more = true;
        self.accept(now, BACKLOG as usize)?;
        if let Some(listener) = self.listener.take() {
            self.queue.close(listener)?;
        }
        self.deadline = Some(now + self.rules.drain);
        let handles: Vec<Handle> = self.clients.keys().collect();
        let (count, drain) = (handles.len(), self.rules.drain);
        let what = format!("stopping: {count} connections have {drain:?} to end");
        if count > 0 {
            crate::closed_pipe::remark(format_args!("{what}"));
        }
        crate::supervisor::is_stopping(&what, drain);
        for handle in handles {
            if let Some(client) = self.clients.get_mut(handle) {
                client.finish();
            }
            self.advance(handle, now);
        }
        Ok(())
    }

    /// How long to sleep: not at all if someone waits for a turn, for ever if there is nobody and nothing is open.
    fn patience(&self) -> Option<Duration> {
        if !self.waiting_turn.is_empty() || self.has_more {
            Some(Duration::ZERO)
        } else if let Some(at) = self.deadline {
            Some(at.saturating_duration_since(Instant::now()).min(CHECK))
        } else if !self.clients.is_empty() || self.is_short || self.site.has_open() {
            Some(CHECK)
        } else {
            None
        }
    }

    /// Accepts at most `most`, if there are any.
    fn accept(&mut self, now: Instant, most: usize) -> Result<()> {
        let Some(listener) = self.listener.filter(|_| self.has_more) else {
            return Ok(());
        };
        for _ in 0..most {
            match self.queue.accept(listener, 0) {
                Ok(connection) => self.welcome(connection, now),
                Err(Errno::AGAIN) => {
                    self.has_more = false;
                    break;
                }
                // The client is gone already.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.has_more = false;
                    self.is_short = true;
                    break;
                }
                Err(error) => return Err(error).context("cannot accept connections"),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, connection: Handle, now: Instant) {
        let mut client = Client::new(connection, &self.rules, now);
        if self.clients.len() >= self.limit {
            client.turn_away();
            // What cannot be said at once is not said.
            client.advance(
                &mut self.queue,
                &self.site,
                &self.rules,
                now,
                &mut self.input,
            );
            let _ = self.queue.close(connection);
            return;
        }
        self.clients.insert(connection, client);
        self.advance(connection, now);
    }

    /// Lets a client do what it can. What it then waits for the queue tells in any case.
    fn advance(&mut self, handle: Handle, now: Instant) {
        // It may be gone since this happened.
        let Some(client) = self.clients.get_mut(handle) else {
            return;
        };
        let (queue, site) = (&mut self.queue, &self.site);
        match client.advance(queue, site, &self.rules, now, &mut self.input) {
            Waits::ForInput | Waits::ForRoom => {}
            Waits::ForItsTurn => self.waiting_turn.push(handle),
            Waits::Over => {
                self.clients.remove(handle);
                let _ = self.queue.close(handle);
            }
        }
    }

    /// Once a second, looks for clients that have been silent for too long.
    fn check_times(&mut self, now: Instant) {
        if now.saturating_duration_since(self.checked) < CHECK {
            return;
        }
        self.checked = now;
        self.site.forget_unused(now);
        self.has_more |= std::mem::take(&mut self.is_short);
        let late: Vec<Handle> = self
            .clients
            .iter_mut()
            .filter_map(|(handle, client)| client.check_time(now).then_some(handle))
            .collect();
        for handle in late {
            self.advance(handle, now);
        }
    }
}
