//! How the threads that wait on one epoll set are woken.
//!
//! They share one sleeper, whose descriptors are registered in the program's set. It is armed as
//! long as anyone sleeps: the last to wake disarms it, any other arms it anew, because what woke it
//! may have been meant for those who sleep on. Who leaves something behind wakes the next, as the
//! kernel does.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::os::fd::AsRawFd;
use std::sync::Mutex;

use host::{Sleeper, Waiting};
use libc::epoll_event;
use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::lock::lock;
use crate::raw::{result, sys};
use crate::session;

/// What marks sleepers' events among the program's: no address, and nothing that a program would choose. It
/// is the same in every program, because one that has a set from another may see the other's.
pub const MARK: u64 = u64::from_be_bytes(*b"outboard");

/// How many forks lie behind this process: a sleeper from before one is the parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork.
pub fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie behind this process.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// See the [module](self).
pub struct Sleep {
    state: Mutex<State>,
    /// How many sleep; changed under the lock, and looked at without.
    asleep: AtomicUsize,
}

struct State {
    sleeper: Sleeper,
    generation: u32,
    /// The sleeper's epoch whose descriptors are in the set.
    registered: Option<u64>,
    /// The set is inside another set: whoever waits there cannot arm this one.
    always: bool,
}

impl Sleep {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            state: Mutex::new(State {
                sleeper: new_sleeper()?,
                generation: generation(),
                registered: None,
                always: false,
            }),
            asleep: AtomicUsize::new(0),
        })
    }

    /// The caller has found nothing and would sleep next: it looks for a moment more first. What comes
    /// back is kept until it returns.
    pub fn hesitate(&self) -> Waiting {
        // Others do not wait meanwhile.
        let company = lock(&self.state).sleeper.company();
        company.hesitate()
    }

    /// The caller is about to sleep, at most until `deadline` or what comes back, if that is
    /// earlier; it must look once more before.
    pub fn arm(&self, set: c_int, deadline: Deadline) -> Result<Deadline, Errno> {
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.sleeper.arm();
        state.register(set)?;
        self.asleep.fetch_add(1, Ordering::Relaxed);
        Ok(deadline.or_after(state.sleeper.limit()))
    }

    /// The caller is awake; `rung` if an event with the mark was among those reported.
    pub fn disarm(&self, rung: bool) {
        let mut state = lock(&self.state);
        let left = self.asleep.load(Ordering::Relaxed).saturating_sub(1);
        self.asleep.store(left, Ordering::Relaxed);
        self.rest(&mut state, rung);
    }

    /// `rung`: an event with the mark was reported to one who did not sleep. The bell is silenced,
    /// or the set's number would stay readable; who sleeps on is to look for itself.
    pub fn quieten(&self, rung: bool) {
        if !rung {
            return;
        }
        let mut state = lock(&self.state);
        self.rest(&mut state, true);
    }

    /// From now on the set's own number is readable whenever it has something to report.
    pub fn stay_armed(&self, set: c_int) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        state.always = true;
        state.sleeper.arm();
        state.register(set)
    }

    /// Wakes one that waits in the kernel's part of the set and does not know of this sleeper.
    pub fn call(&self, set: c_int) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.register(set)?;
        state.sleeper.ring();
        Ok(())
    }

    /// The caller goes with its events, and `more` tells whether it leaves any behind: then one who
    /// sleeps is woken for them. What is left is in the set's list, under a lock that whoever went
    /// to sleep has taken since: so it is seen here as asleep, or has seen what is left.
    pub fn pass_on(&self, more: impl FnOnce() -> bool) {
        if self.asleep.load(Ordering::Relaxed) > 0 && more() {
            lock(&self.state).sleeper.ring();
        }
    }

    /// In the child of a fork the sleeper is one of its own.
    fn renew(&self, state: &mut State) -> Result<(), Errno> {
        let generation = generation();
        if state.generation != generation {
            state.sleeper = new_sleeper()?;
            (state.generation, state.registered) = (generation, None);
            self.asleep.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Disarms, and arms again if someone needs it.
    fn rest(&self, state: &mut State, rung: bool) {
        state.sleeper.disarm(rung);
        if self.asleep.load(Ordering::Relaxed) > 0 || state.always {
            state.sleeper.arm();
        }
    }
}

impl State {
    /// Puts the sleeper's descriptors in the program's set, if they are not there. Others that were
    /// there before are closed by now, and with that out of it.
    fn register(&mut self, set: c_int) -> Result<(), Errno> {
        let epoch = self.sleeper.epoch();
        if self.registered == Some(epoch) {
            return Ok(());
        }
        for fd in self.sleeper.fds() {
            let mut event = epoll_event {
                events: libc::EPOLLIN as u32,
                u64: MARK,
            };
            // SAFETY: the event lives through the call.
            let added = result(unsafe {
                sys!(
                    libc::SYS_epoll_ctl,
                    set,
                    libc::EPOLL_CTL_ADD,
                    fd.as_raw_fd(),
                    &raw mut event
                )
            });
            match added {
                Ok(_) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        self.registered = Some(epoch);
        Ok(())
    }
}

fn new_sleeper() -> Result<Sleeper, Errno> {
    session::current().ok_or(Errno::NOMEM)?.sleeper()
}
