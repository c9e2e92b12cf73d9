//! The sockets and their clock, shared by the runner's two threads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use sim::script::Errno;
use sim::sockets::settings::Set;
use sim::sockets::{Attempt, Fd, Refusal, Sockets};
use tcp::Instant;

use crate::flags;
use crate::numbers::Numbers;

/// How far `netdev_receive` looks ahead for a packet before it says that there is none.
const LOOK_AHEAD: Duration = Duration::from_secs(3600);

/// The stack, and everybody who calls it.
pub(crate) struct Host {
    state: Mutex<State>,
    /// Something has changed: those who sleep look.
    changed: Condvar,
    /// One who slept has looked.
    looked: Condvar,
}

/// What the threads share.
pub(crate) struct State {
    pub(crate) sockets: Sockets,
    pub(crate) numbers: Numbers,
    /// When a blocking call of a thread ended, for its next `gettimeofday`.
    completed: Option<(ThreadId, Instant)>,
    /// How many threads sleep in a call.
    waiting: usize,
    /// How many times something has changed.
    changes: u64,
    /// How many of those who sleep have not looked since the last change.
    unaware: usize,
}

impl Host {
    /// A fresh host by the runner's flags.
    pub(crate) fn new(text: &str) -> Host {
        let flags = flags::parse(text);
        let mut addresses = flags.addresses;
        if addresses.is_empty() {
            // What the runner uses if it is told nothing.
            addresses.push(IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)));
            addresses.push(IpAddr::V6(Ipv6Addr::new(
                0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1,
            )));
        }
        let v6_only = addresses.iter().all(IpAddr::is_ipv6);
        let mut sockets = Sockets::new(addresses, 0xd211);
        sockets.set_mtu(flags.mtu.unwrap_or(if v6_only { 1520 } else { 1500 }));
        for complaint in flags.complaints {
            eprintln!("packetdrill_adapter: {complaint}: ignored");
        }
        for (name, value) in flags.settings {
            match sockets.set(&name, &value) {
                Set::Done => {}
                Set::Unknown => eprintln!("packetdrill_adapter: {name} is unknown: ignored"),
                Set::Refused(why) => eprintln!("packetdrill_adapter: {why}: ignored"),
            }
        }
        Host {
            state: Mutex::new(State {
                sockets,
                numbers: Numbers::default(),
                completed: None,
                waiting: 0,
                changes: 0,
                unaware: 0,
            }),
            changed: Condvar::new(),
            looked: Condvar::new(),
        }
    }

    /// Exclusive use of everything.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has said so already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, and sleeps while it waits: for another thread to bring a packet or to let time
    /// pass. `patience` is when it gives up waiting, in the stack's time.
    pub(crate) fn call<T>(
        &self,
        mut attempt: impl FnMut(&mut State) -> Attempt<T>,
        patience: Option<Duration>,
    ) -> Result<Option<T>, Errno> {
        let mut state = self.lock();
        let deadline = patience.map(|span| state.sockets.now() + span);
        let mut slept = false;
        let result = loop {
            let outcome = match attempt(&mut state) {
                Ok(value) => Some(Ok(Some(value))),
                Err(Refusal::Error(errno)) => Some(Err(errno)),
                Err(Refusal::Wait) => deadline
                    .is_some_and(|at| at <= state.sockets.now())
                    .then_some(Ok(None)),
            };
            if slept {
                state.unaware -= 1;
                self.looked.notify_all();
            }
            if let Some(result) = outcome {
                break result;
            }
            if !slept {
                slept = true;
                state.waiting += 1;
            }
            let seen = state.changes;
            state = self
                .changed
                .wait_while(state, |state| state.changes == seen)
                .unwrap_or_else(PoisonError::into_inner);
        };
        if slept {
            state.waiting -= 1;
            let now = state.sockets.now();
            state.completed = Some((std::thread::current().id(), now));
        }
        drop(state);
        self.tell();
        result
    }

    /// Lets those who sleep look whether what they wait for has come, and returns when all have:
    /// the clock is virtual, so nothing may go on before them, however late they get a core.
    fn tell(&self) {
        let mut state = self.lock();
        state.changes += 1;
        state.unaware = state.waiting;
        self.changed.notify_all();
        let all_know = self
            .looked
            .wait_while(state, |state| state.unaware > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(all_know);
    }

    /// A datagram for the stack.
    pub(crate) fn send(&self, datagram: &[u8]) {
        self.lock().sockets.deliver(datagram);
        self.tell();
    }

    /// The next datagram of the stack's and when it left. If there is none, time jumps from timer to
    /// timer until there is, for at most an hour.
    pub(crate) fn receive(&self) -> Option<(Instant, Vec<u8>)> {
        loop {
            let mut state = self.lock();
            if let Some(packet) = state.sockets.take_packet() {
                return Some(packet);
            }
            let now = state.sockets.now();
            let next = state.sockets.next_timer()?;
            if next > now + LOOK_AHEAD {
                return None;
            }
            state.sockets.step(next);
            drop(state);
            // What the timer did may be what somebody waits for.
            self.tell();
        }
    }

    /// Lets time pass, each timer at its own time; who sleeps is woken at each.
    pub(crate) fn sleep(&self, span: Duration) {
        let end = self.lock().sockets.now() + span;
        loop {
            let more = self.lock().sockets.step(end);
            self.tell();
            if !more {
                return;
            }
        }
    }

    /// The time in microseconds. It never stands still: the runner spins on it. A thread whose call
    /// has just ended hears when it did.
    pub(crate) fn micros(&self) -> u64 {
        let mut state = self.lock();
        let this = std::thread::current().id();
        if let Some((thread, at)) = state.completed
            && thread == this
        {
            state.completed = None;
            return at.as_micros();
        }
        let to = state.sockets.now() + Duration::from_micros(1);
        state.sockets.advance(to);
        to.as_micros()
    }
}

impl State {
    /// The socket of a descriptor.
    pub(crate) fn find(&self, number: RawFd) -> Result<Fd, Refusal> {
        self.numbers.find(number).ok_or(Errno::EBADF.into())
    }
}
