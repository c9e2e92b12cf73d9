//! How the threads that wait on one epoll set are woken.
//!
//! They share one sleeper, whose descriptors are registered in the program's set. It is armed as
//! long as anyone sleeps: the last to wake disarms it, any other arms it anew, because what woke it
//! may have been meant for those who sleep on.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsRawFd;
use std::sync::Mutex;

use host::Sleeper;
use libc::epoll_event;
use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::lock::lock;
use crate::raw::{result, sys};
use crate::session;

/// How many forks lie behind this process: a sleeper from before one is the parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork.
pub fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// See the [module](self).
pub struct Sleep(Mutex<State>);

struct State {
    sleeper: Sleeper,
    generation: u32,
    /// The sleeper's epoch whose descriptors are in the set.
    registered: Option<u64>,
    asleep: usize,
    /// The set is inside another set: whoever waits there cannot arm this one.
    always: bool,
}

impl Sleep {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self(Mutex::new(State {
            sleeper: new_sleeper()?,
            generation: GENERATION.load(Ordering::Relaxed),
            registered: None,
            asleep: 0,
            always: false,
        })))
    }

    /// The caller has found nothing and would sleep next: lets an engine that is awake go on first.
    pub fn hesitate(&self) {
        lock(&self.0).sleeper.hesitate();
    }

    /// The caller is about to sleep, at most until `deadline` or what comes back, if that is
    /// earlier; it must look once more before.
    pub fn arm(&self, set: c_int, deadline: Deadline) -> Result<Deadline, Errno> {
        let mut state = lock(&self.0);
        let generation = GENERATION.load(Ordering::Relaxed);
        if state.generation != generation {
            state.sleeper = new_sleeper()?;
            (state.generation, state.registered, state.asleep) = (generation, None, 0);
        }
        state.sleeper.arm();
        state.register(set, self.mark())?;
        state.asleep += 1;
        Ok(deadline.or_after(state.sleeper.limit()))
    }

    /// The caller is awake; `rung` if an event with the mark was among those reported.
    pub fn disarm(&self, rung: bool) {
        let mut state = lock(&self.0);
        state.asleep = state.asleep.saturating_sub(1);
        state.sleeper.disarm(rung);
        if state.asleep > 0 || state.always {
            state.sleeper.arm();
        }
    }

    /// `rung`: an event with the mark was reported to one who did not sleep. The bell is silenced,
    /// or the set's number would stay readable; who sleeps on is to look for itself.
    pub fn quieten(&self, rung: bool) {
        if !rung {
            return;
        }
        let mut state = lock(&self.0);
        state.sleeper.disarm(true);
        if state.asleep > 0 || state.always {
            state.sleeper.arm();
        }
    }

    /// From now on the set's own number is readable whenever it has something to report.
    pub fn stay_armed(&self, set: c_int) -> Result<(), Errno> {
        let mut state = lock(&self.0);
        state.always = true;
        state.sleeper.arm();
        state.register(set, self.mark())
    }

    /// What marks the sleeper's events among the program's: an address of ours, which the program
    /// has no reason to use.
    pub fn mark(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

impl State {
    /// Puts the sleeper's descriptors in the program's set, if they are not there. Others that were
    /// there before are closed by now, and with that out of it.
    fn register(&mut self, set: c_int, mark: u64) -> Result<(), Errno> {
        let epoch = self.sleeper.epoch();
        if self.registered == Some(epoch) {
            return Ok(());
        }
        for fd in self.sleeper.fds() {
            let mut event = epoll_event {
                events: libc::EPOLLIN as u32,
                u64: mark,
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
