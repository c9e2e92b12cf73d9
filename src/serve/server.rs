//! The loop: who is ready, what each can do, who has been silent for too long.

use super::client::{Client, Rules, Waits};
use super::directory::Directory;
use super::transport::Transport;
use anyhow::{Context, Result};
use host::{Accepted, Errno, Event, Listener, Poller, Readiness, Session, Source};
use std::time::{Duration, Instant};

/// The key of the listener; no client has it.
const LISTENER: u64 = u64::MAX - 1;
/// So many connections are accepted before the others have their turn.
const ACCEPTS: usize = 64;

/// A server over one listener.
pub struct Server {
    site: Directory,
    rules: Rules,
    listener: Listener,
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
    /// A server of `site` on `listener`, with room for `limit` clients.
    pub fn new(
        site: Directory,
        rules: Rules,
        session: &Session,
        listener: Listener,
        limit: usize,
    ) -> Result<Self> {
        let mut poller = Poller::new(session)?;
        poller.add(Source::Listener(&listener), LISTENER, Readiness::IN)?;
        Ok(Self {
            site,
            rules,
            listener,
            poller,
            slots: Vec::new(),
            free: Vec::new(),
            limit,
            waiting_turn: Vec::new(),
            checked: Instant::now(),
        })
    }

    /// Serves until something is wrong with the machine.
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
                    key => self.advance(key, now),
                }
            }
            self.check_times(now);
        }
    }

    /// How long to sleep: not at all if someone waits for a turn, for ever if there is nobody.
    fn patience(&self) -> Option<Duration> {
        if !self.waiting_turn.is_empty() {
            Some(Duration::ZERO)
        } else if self.free.len() < self.slots.len() {
            Some(Duration::from_secs(1))
        } else {
            None
        }
    }

    fn accept(&mut self, now: Instant) -> Result<()> {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
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
        if self.slots.len() - self.free.len() >= self.limit {
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
