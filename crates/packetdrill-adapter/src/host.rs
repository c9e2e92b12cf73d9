//! The sockets and their clock, shared by the runner's two threads.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use sim::script::Errno;
use sim::sockets::settings::Set;
use sim::sockets::{Attempt, Fd, Refusal, Sockets};
use tcp::Instant;

use crate::epoll::Epoll;
use crate::flags;
use crate::numbers::{Numbers, Object};
use crate::pipe::Pipe;

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
    /// By their numbers.
    pub(crate) epolls: BTreeMap<RawFd, Epoll>,
    pub(crate) pipes: Vec<Pipe>,
    /// When those who sleep give up, of those who do: nothing may happen after it before them.
    deadlines: Vec<Instant>,
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
                epolls: BTreeMap::new(),
                pipes: Vec::new(),
                deadlines: Vec::new(),
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
                state.deadlines.extend(deadline);
            }
            let seen = state.changes;
            state = self
                .changed
                .wait_while(state, |state| state.changes == seen)
                .unwrap_or_else(PoisonError::into_inner);
        };
        if slept {
            state.waiting -= 1;
            if let Some(place) = state.deadlines.iter().position(|&at| Some(at) == deadline) {
                state.deadlines.swap_remove(place);
            }
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
        state.look();
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
            state.step(next);
            drop(state);
            // What the timer did may be what somebody waits for.
            self.tell();
        }
    }

    /// Lets time pass, each timer at its own time; who sleeps is woken at each.
    pub(crate) fn sleep(&self, span: Duration) {
        let end = self.lock().sockets.now() + span;
        loop {
            let more = self.lock().step(end);
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
    /// Lets happen what happens next, if it is not after `limit`, and returns whether it was not: a
    /// timer, or one who sleeps giving up.
    fn step(&mut self, limit: Instant) -> bool {
        let now = self.sockets.now();
        let given_up = self.deadlines.iter().copied().filter(|&at| at > now).min();
        let until = given_up.map_or(limit, |at| at.min(limit));
        self.sockets.step(until) || until < limit
    }

    /// Tells epoll of what has happened.
    pub(crate) fn look(&mut self) {
        for epoll in self.epolls.values_mut() {
            epoll.look(&mut self.sockets);
        }
    }

    /// The socket of a descriptor.
    pub(crate) fn find(&self, number: RawFd) -> Result<Fd, Refusal> {
        self.numbers.find(number)?.socket()
    }

    /// The epoll instance of a descriptor.
    pub(crate) fn epoll(&mut self, number: RawFd) -> Result<&mut Epoll, Refusal> {
        self.numbers.find(number)?;
        let epoll = self.epolls.get_mut(&number);
        epoll.ok_or(Errno::EINVAL.into())
    }

    /// Closes a descriptor, whatever it stands for.
    pub(crate) fn close(&mut self, number: RawFd) -> Attempt<()> {
        let object = self.numbers.remove(number).ok_or(Errno::EBADF)?;
        for epoll in self.epolls.values_mut() {
            epoll.forget(number);
        }
        match object {
            Object::Socket(fd) => self.sockets.close(fd)?,
            Object::Epoll => drop(self.epolls.remove(&number)),
            Object::ReadEnd(pipe) => self.pipes[pipe].close_read_end(),
            Object::WriteEnd(pipe) => self.pipes[pipe].close_write_end(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A call that waits gives up at its own time, however far time passes at once.
    #[test]
    fn patience_ends_on_time() {
        let host = Host::new("");
        let (tell, told) = mpsc::channel();
        let start = host.lock().sockets.now();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let attempt = |_: &mut State| {
                    // Whoever hears of it cannot do anything before this thread sleeps.
                    tell.send(()).unwrap();
                    Err::<(), _>(Refusal::Wait)
                };
                let outcome = host.call(attempt, Some(Duration::from_millis(100)));
                (outcome, host.micros())
            });
            told.recv().unwrap();
            host.sleep(Duration::from_secs(1));
            let (outcome, at) = waiter.join().unwrap();
            assert_eq!(outcome, Ok(None));
            assert_eq!(at - start.as_micros(), 100_000);
        });
    }
}
