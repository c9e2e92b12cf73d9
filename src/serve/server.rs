//! The loop: who is ready, what each can do, who has been silent for too long, and how it ends.

use super::client::{Client, Rules, Waits};
use super::directory::Directory;
use super::transport::Transport;
use anyhow::{Context, Result};
use host::{Accepted, Errno, Event, Listener, Poller, Readiness, Session, Source};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The keys of the listener and of the signals that stop us; no client has them.
const LISTENER: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;
/// So many connections are accepted before the others have their turn.
const ACCEPTS: usize = 64;

/// A server over one listener.
pub struct Server {
    site: Directory,
    rules: Rules,
    /// Nobody new is accepted once it is gone.
    listener: Option<Listener>,
    /// Each byte is a signal to stop: the first asks, the second insists.
    stop: UnixStream,
    /// When those who are left are left alone.
    deadline: Option<Instant>,
    poller: Poller,
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
    /// Clients whose turn was cut short.
    waiting_turn: Vec<u64>,
    checked: Instant,
}

/// Place for a client; the generation tells its users apart in events.
#[derive(Default)]
struct Slot {
    generation: u32,
    client: Option<Client>,
    watched: Option<Readiness>,
}

impl Server {
    /// A server of `site` on `listener`, with room for `limit` clients. A byte on `stop` asks it to
    /// stop, a second makes it.
    pub fn new(
        site: Directory,
        rules: Rules,
        session: &Session,
        listener: Listener,
        limit: usize,
        stop: UnixStream,
    ) -> Result<Self> {
        stop.set_nonblocking(true)?;
        let mut poller = Poller::new(session)?;
        poller.add(Source::Listener(&listener), LISTENER, Readiness::IN)?;
        poller.add(Source::Kernel(stop.as_fd()), STOP, Readiness::IN)?;
        Ok(Self {
            site,
            rules,
            listener: Some(listener),
            stop,
            deadline: None,
            poller,
            slots: Vec::new(),
            free: Vec::new(),
            limit,
            waiting_turn: Vec::new(),
            checked: Instant::now(),
        })
    }

    /// Serves until it is stopped, or something is wrong with the machine.
    pub fn run(mut self) -> Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        loop {
            match self.poller.wait(&mut events, self.patience()) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting failed"),
            }
            let now = Instant::now();
            for key in std::mem::take(&mut self.waiting_turn) {
                self.advance(key, now);
            }
            for event in &events {
                match event.key {
                    LISTENER => self.accept(now)?,
                    STOP => self.stop(now)?,
                    key => self.advance(key, now),
                }
            }
            self.check_times(now);
            if self
                .deadline
                .is_some_and(|at| now >= at || self.clients() == 0)
            {
                return Ok(());
            }
        }
    }

    fn clients(&self) -> usize {
        self.slots.len() - self.free.len()
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
        self.accept(now)?;
        self.listener = None;
        self.deadline = Some(now + self.rules.drain);
        let keys: Vec<u64> = self
            .slots
            .iter_mut()
            .zip(0_u64..)
            .filter_map(|(slot, index)| {
                slot.client.as_mut()?.finish();
                Some(u64::from(slot.generation) << 32 | index)
            })
            .collect();
        let (count, drain) = (keys.len(), self.rules.drain);
        let what = format!("stopping: {count} connections have {drain:?} to end");
        if !keys.is_empty() {
            crate::closed_pipe::remark(format_args!("{what}"));
        }
        crate::supervisor::is_stopping(&what, drain);
        for key in keys {
            self.advance(key, now);
        }
        Ok(())
    }

    /// How long to sleep: not at all if someone waits for a turn, for ever if there is nobody.
    fn patience(&self) -> Option<Duration> {
        if !self.waiting_turn.is_empty() {
            Some(Duration::ZERO)
        } else if let Some(at) = self.deadline {
            Some(
                at.saturating_duration_since(Instant::now())
                    .min(Duration::from_secs(1)),
            )
        } else if self.clients() > 0 {
            Some(Duration::from_secs(1))
        } else {
            None
        }
    }

    fn accept(&mut self, now: Instant) -> Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.listener else {
                break;
            };
            match listener.accept() {
                Ok(Accepted::Offloaded(socket)) => self.welcome(Transport::Engine(socket), now),
                Ok(Accepted::Kernel(socket)) => self.welcome(Transport::Kernel(socket), now),
                Err(Errno::AGAIN) => break,
                // The client is gone already, or the machine is short of something: later.
                Err(
                    Errno::CONNABORTED
                    | Errno::INTR
                    | Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOBUFS
                    | Errno::NOMEM,
                ) => break,
                Err(error) => return Err(error).context("cannot accept connections"),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, transport: Transport, now: Instant) {
        let mut client = Client::new(transport, &self.rules, now);
        if self.clients() >= self.limit {
            client.turn_away();
            // What cannot be said at once is not said.
            client.advance(&self.site, &self.rules, now);
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // The limit on clients keeps this far below the type's.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.client = Some(client);
        let key = u64::from(slot.generation) << 32 | u64::from(index);
        self.advance(key, now);
    }

    /// Lets a client do what it can, and watches for what it then waits for.
    fn advance(&mut self, key: u64, now: Instant) {
        let (index, generation) = (key as u32, (key >> 32) as u32);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        // An event of a client that is gone carries an old generation.
        let Some(client) = slot
            .client
            .as_mut()
            .filter(|_| slot.generation == generation)
        else {
            return;
        };
        let wanted = match client.advance(&self.site, &self.rules, now) {
            Waits::ForInput => Ok(Readiness::IN),
            Waits::ForRoom => Ok(Readiness::OUT),
            Waits::ForItsTurn => {
                self.waiting_turn.push(key);
                return;
            }
            Waits::Over => Err(Errno::PIPE),
        };
        if wanted
            .and_then(|what| watch(&mut self.poller, slot, key, what))
            .is_err()
        {
            slot.client = None;
            slot.watched = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// Once a second, looks for clients that have been silent for too long.
    fn check_times(&mut self, now: Instant) {
        if now.saturating_duration_since(self.checked) < Duration::from_secs(1) {
            return;
        }
        self.checked = now;
        let late: Vec<u64> = self
            .slots
            .iter_mut()
            .zip(0_u64..)
            .filter_map(|(slot, index)| {
                let late = slot.client.as_mut()?.check_time(now);
                late.then_some(u64::from(slot.generation) << 32 | index)
            })
            .collect();
        for key in late {
            self.advance(key, now);
        }
    }
}

/// Watches a client for `what`; nothing is to be done if that is not new.
fn watch(poller: &mut Poller, slot: &mut Slot, key: u64, what: Readiness) -> Result<(), Errno> {
    let Some(source) = slot.client.as_ref().map(Client::source) else {
        return Ok(());
    };
    match slot.watched.replace(what) {
        Some(before) if before == what => Ok(()),
        Some(_) => poller.modify(source, key, what),
        None => poller.add(source, key, what),
    }
}
