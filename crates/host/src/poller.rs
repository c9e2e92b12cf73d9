//! Waiting for many sockets at once: a ready set, and an epoll set of the kernel's for what only the
//! kernel knows.

use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::listener::Listener;
use crate::private_fds::{Private, lift};
use crate::readiness::Readiness;
use crate::ready_set::{Event, ReadySet, Watchable};
use crate::session::Session;
use crate::sleep::Sleeper;
use crate::socket::Socket;

/// Events taken from the kernel at once.
const KERNEL_EVENTS: usize = 64;

/// The kernel is asked at least every so many turns, even when the engine always has news.
const KERNEL_TURN: u32 = 16;

/// The kernel's events carry the program's key; this one is of the sleeper's descriptors.
const OWN: u64 = u64::MAX;

/// Waits for sockets and listeners of a session, and for descriptors of the kernel's.
pub struct Poller {
    session: Session,
    ready: ReadySet,
    sleeper: Sleeper,
    /// The sleeper's epoch when its descriptors were last registered.
    registered: Option<u64>,
    epoll: Private<OwnedFd>,
    /// How many descriptors of the program's the kernel watches.
    kernel_members: usize,
    turns: u32,
}

/// What a poller can wait for.
pub enum Source<'a> {
    /// An offloaded connection.
    Socket(&'a Socket),
    /// A listener, with both its sides.
    Listener(&'a Listener),
    /// Any descriptor of the kernel's.
    Kernel(BorrowedFd<'a>),
}

impl Poller {
    /// A poller that waits for nothing yet.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: there are no more descriptors.
    pub fn new(session: &Session) -> Result<Self, Errno> {
        let (ready, mut sleeper) = (session.ready_set(), session.sleeper()?);
        sleeper.serves(&ready);
        Ok(Self {
            session: session.clone(),
            ready,
            sleeper,
            registered: None,
            epoll: Private::new(lift(epoll::create(CreateFlags::CLOEXEC)?)),
            kernel_members: 0,
            turns: 0,
        })
    }

    /// Adds an interest under `key`, which is not `u64::MAX` and comes back with the event.
    /// [`EDGE`](Readiness::EDGE) and [`ONESHOT`](Readiness::ONESHOT) are flags in `wanted`.
    ///
    /// # Errors
    /// `EEXIST`: there is one already. `EINVAL`: the key is `u64::MAX`. Otherwise the kernel's.
    pub fn add(&mut self, source: Source<'_>, key: u64, wanted: Readiness) -> Result<(), Errno> {
        if key == OWN {
            return Err(Errno::INVAL);
        }
        match source {
            Source::Socket(socket) => self.ready.add(socket, key, wanted, key),
            Source::Listener(listener) => {
                self.ready.add(listener, key, wanted, key)?;
                self.add_kernel(listener.kernel_socket(), key, wanted)
            }
            Source::Kernel(fd) => self.add_kernel(fd, key, wanted),
        }
    }

    /// Replaces what an interest wants.
    ///
    /// # Errors
    /// `ENOENT`: there is no such interest. Otherwise the kernel's.
    pub fn modify(&mut self, source: Source<'_>, key: u64, wanted: Readiness) -> Result<(), Errno> {
        let kernel = |fd| epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags(wanted));
        match source {
            Source::Socket(socket) => self.ready.modify(socket, key, wanted, key),
            Source::Listener(listener) => {
                self.ready.modify(listener, key, wanted, key)?;
                kernel(listener.kernel_socket())
            }
            Source::Kernel(fd) => kernel(fd),
        }
    }

    /// Removes an interest. One in a socket or listener that is dropped goes by itself.
    ///
    /// # Errors
    /// `ENOENT`: there is no such interest. Otherwise the kernel's.
    pub fn remove(&mut self, source: Source<'_>, key: u64) -> Result<(), Errno> {
        match source {
            Source::Socket(socket) => self.remove_ours(socket, key),
            Source::Listener(listener) => {
                self.remove_ours(listener, key)?;
                epoll::delete(&self.epoll, listener.kernel_socket())
            }
            Source::Kernel(fd) => epoll::delete(&self.epoll, fd),
        }
    }

    fn remove_ours(&self, what: &impl Watchable, key: u64) -> Result<(), Errno> {
        self.ready.remove(what, key)
    }

    fn add_kernel(&mut self, fd: impl AsFd, key: u64, wanted: Readiness) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), flags(wanted))?;
        self.kernel_members += 1;
        Ok(())
    }

    /// Waits until something is ready, `limit` is over (`None`: without end) or a signal was
    /// handled, and puts what is ready into `events`, which is emptied first.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled.
    pub fn wait(&mut self, events: &mut Vec<Event>, limit: Option<Duration>) -> Result<(), Errno> {
        events.clear();
        let room = events.capacity().max(KERNEL_EVENTS);
        self.look(events, room);
        let waits = events.is_empty() && limit != Some(Duration::ZERO);
        // Until this returns.
        let mut waiting = waits.then(|| self.sleeper.company().hesitate_beside());
        if let Some(waiting) = &mut waiting {
            self.look(events, room);
            let begun = Instant::now();
            let is_over = || limit.is_some_and(|limit| begun.elapsed() >= limit);
            while events.is_empty() && !is_over() && waiting.looks_on() {
                self.look(events, room);
                if events.is_empty() && self.kernel_members > 0 {
                    self.ask_kernel(events, Some(Duration::ZERO))?;
                }
            }
            waiting.has_looked(!events.is_empty());
        }
        self.turns += 1;
        if !events.is_empty() {
            if self.turns >= KERNEL_TURN && self.kernel_members > 0 {
                self.turns = 0;
                self.ask_kernel(events, Some(Duration::ZERO))?;
            }
            return Ok(());
        }
        self.turns = 0;
        let start = Instant::now();
        loop {
            self.arm_sleeper()?;
            self.ready.collect(room, |event| events.push(event));
            let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            let sleep = match (left, self.sleeper.limit()) {
                _ if !events.is_empty() => Some(Duration::ZERO),
                (Some(left), Some(limit)) => Some(left.min(limit)),
                (left, limit) => left.or(limit),
            };
            let asked = if events.is_empty() || self.kernel_members > 0 {
                self.ask_kernel(events, sleep)
            } else {
                Ok(false)
            };
            self.sleeper.disarm(asked != Ok(false));
            asked?;
            if events.is_empty() {
                self.look(events, room);
            }
            if !events.is_empty() || left == Some(Duration::ZERO) {
                return Ok(());
            }
        }
    }

    /// The descriptor by which another event loop waits for this poller: between [`arm`](Self::arm)
    /// and [`disarm`](Self::disarm) it is readable when there may be something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Before a thread sleeps on [`fd`](Self::fd): from now on that descriptor tells of all that
    /// happens. Returns how long it may sleep at most: zero if something is ready already, `None` for
    /// as long as it likes.
    ///
    /// # Errors
    /// The kernel's for changing an epoll set.
    pub fn arm(&mut self) -> Result<Option<Duration>, Errno> {
        self.arm_sleeper()?;
        Ok(if self.ready.any_ready() || self.has_kernel_news() {
            Some(Duration::ZERO)
        } else {
            self.sleeper.limit()
        })
    }

    /// Whether the kernel has something that was not taken. Whoever waits for edges of [`fd`](Self::fd) was told of
    /// it before, perhaps, and is not told again.
    fn has_kernel_news(&self) -> bool {
        if self.kernel_members == 0 {
            return false;
        }
        // To ask the set for its events would take them.
        let mut polls = [PollFd::new(&*self.epoll, PollFlags::IN)];
        // A signal keeps it from saying so: then whoever looks finds out.
        rustix::event::poll(&mut polls, Some(&Timespec::default())) != Ok(0)
    }

    /// After it has slept, and before anything else is asked of the poller.
    pub fn disarm(&mut self) {
        self.sleeper.disarm(true);
    }

    /// Adds what the engine has.
    fn look(&self, events: &mut Vec<Event>, room: usize) {
        self.session.pump();
        self.ready.collect(room, |event| events.push(event));
    }

    /// From now on what happens ends a sleep on [`fd`](Self::fd).
    fn arm_sleeper(&mut self) -> Result<(), Errno> {
        self.sleeper.arm();
        self.register()
    }

    /// Registers the sleeper's descriptors, if they are others than before.
    fn register(&mut self) -> Result<(), Errno> {
        let epoch = Some(self.sleeper.epoch());
        if self.registered == epoch {
            return Ok(());
        }
        // Those of before are closed, or still registered.
        for fd in self.sleeper.fds() {
            match epoll::add(&self.epoll, fd, EventData::new_u64(OWN), EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.registered = epoch;
        Ok(())
    }

    /// Adds what the kernel has to `events`. Returns whether the sleeper was rung.
    fn ask_kernel(&self, events: &mut Vec<Event>, limit: Option<Duration>) -> Result<bool, Errno> {
        let empty = epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(OWN),
        };
        let mut buffer = [empty; KERNEL_EVENTS];
        let timeout = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let count = epoll::wait(&self.epoll, &mut buffer, timeout.as_ref())?;
        let mut rung = false;
        for event in &buffer[..count] {
            let key = event.data.u64();
            if key == OWN {
                rung = true;
            } else if !events.iter().any(|other| other.key == key) {
                // A listener whose engine's side is ready as well is reported once.
                let readiness = Readiness({ event.flags }.bits());
                events.push(Event {
                    readiness,
                    data: key,
                    key,
                });
            }
        }
        Ok(rung)
    }
}

/// Readiness has the values of the kernel's bits.
fn flags(wanted: Readiness) -> EventFlags {
    EventFlags::from_bits_retain(wanted.0)
}
