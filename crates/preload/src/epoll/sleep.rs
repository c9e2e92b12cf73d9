//! How the threads that wait on one epoll set are woken.
//!
//! They share one sleeper, whose descriptors are registered in the program's set. It is armed as
//! long as anyone sleeps: the last to wake disarms it, any other arms it anew, because what woke it
//! may have been meant for those who sleep on. Who leaves something behind wakes the next, as the
//! kernel does. Where each of them is to look around ([`Sleep::call_all`]), whoever wakes rings anew until all
//! have come.
//!
//! If other processes have the set, they would be woken by these descriptors, and could not silence them.
//! So its threads sleep *beside* it, in a set of this process's own: the program's is in there, the sleeper's
//! descriptors, and the [news](family::news) of what the others do.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use host::private_fds::Private;
use host::{Sleeper, Waiting};
use rustix::io::Errno;
use self_cell::self_cell;

use super::{Set, family, kernel_control};
use crate::deadline::Deadline;
use crate::forks::generation;
use crate::lock::lock;
use crate::session;

/// What marks sleepers' events among the program's: no address, and nothing that a program would choose. It
/// is the same in every program, because one that has a set from another may see the other's.
pub const MARK: u64 = u64::from_be_bytes(*b"outboard");

/// What marks the program's set in the one beside it.
pub const PROGRAMS: u64 = MARK + 1;

/// What marks the news there.
pub const NEWS: u64 = MARK + 2;

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
    /// What is slept in if others have the set.
    beside: Option<Beside>,
    /// How often all who sleep were called.
    calls: u32,
    /// Of those who slept at the last call, how many have not come.
    called: usize,
    /// How often it may still be rung for them.
    rings: u32,
}

/// More than it takes until whoever was called comes. Who has jumped out of its sleep never does.
const RINGS: u32 = 100_000;

/// Locks of sets that are held.
pub struct Guards<'a>(#[expect(dead_code, reason = "held, not used")] Vec<MutexGuard<'a, State>>);

self_cell!(
    /// Keeps other threads from the sleepers of sets, for the time of a fork: a child of one that holds such a
    /// lock would wait for it for ever.
    pub struct Quiet {
        owner: Vec<Arc<Set>>,
        #[covariant]
        dependent: Guards,
    }
);

/// See [`Quiet`].
pub fn quiet(sets: Vec<Arc<Set>>) -> Quiet {
    Quiet::new(sets, |sets| {
        let ours = sets.iter().filter_map(|set| set.ours.get());
        Guards(ours.map(|ours| lock(&ours.sleep.state)).collect())
    })
}

/// A set beside the program's.
struct Beside {
    own: Private<OwnedFd>,
    /// As [`State::registered`], of this one.
    registered: Option<u64>,
}

/// How a thread is to sleep.
#[derive(Clone, Copy)]
pub struct Bed {
    /// Until when.
    pub until: Deadline,
    /// The number of the set beside the program's, if it is to sleep in that one.
    pub beside: Option<c_int>,
    /// It is counted among those in the kernel's part.
    counted: bool,
    /// How often all had been called by then.
    calls: u32,
}

impl Sleep {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            state: Mutex::new(State {
                sleeper: new_sleeper()?,
                generation: generation(),
                registered: None,
                always: false,
                beside: None,
                calls: 0,
                called: 0,
                rings: 0,
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
    pub fn arm(&self, set: &Set, number: c_int, deadline: Deadline) -> Result<Bed, Errno> {
        set.in_kernel.enter();
        let counted = !set.is_familys();
        let news = if counted {
            None
        } else {
            set.in_kernel.leave();
            family::news()
        };
        let armed = self.arm_by(set, number, deadline, news);
        if counted && armed.is_err() {
            set.in_kernel.leave();
        }
        armed.map(|bed| Bed { counted, ..bed })
    }

    fn arm_by(
        &self,
        set: &Set,
        number: c_int,
        deadline: Deadline,
        news: Option<c_int>,
    ) -> Result<Bed, Errno> {
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.arm(set);
        let beside = news.and_then(|news| state.register_beside(number, news));
        if beside.is_none() || state.always {
            state.register(number)?;
        } else if !set.in_kernel.any() {
            state.withdraw(number);
        }
        self.asleep.fetch_add(1, Ordering::Relaxed);
        Ok(Bed {
            until: deadline.or_after(state.sleeper.limit()),
            beside,
            counted: false,
            calls: state.calls,
        })
    }

    /// The caller is awake; `rung` if an event with the mark was among those reported.
    pub fn disarm(&self, set: &Set, bed: &Bed, rung: bool) {
        if bed.counted {
            set.in_kernel.leave();
        }
        let mut state = lock(&self.state);
        let left = self.asleep.load(Ordering::Relaxed).saturating_sub(1);
        self.asleep.store(left, Ordering::Relaxed);
        let was_called = bed.calls != state.calls;
        if was_called {
            state.called = state.called.saturating_sub(1);
        }
        self.rest(set, &mut state, rung);
        let waits_for_others = state.called > 0 && !was_called;
        drop(state);
        if waits_for_others {
            std::thread::yield_now();
        }
    }

    /// Everyone who sleeps is to look around once.
    pub fn call_all(&self) {
        let mut state = lock(&self.state);
        let asleep = self.asleep.load(Ordering::Relaxed);
        if asleep > 0 && state.generation == generation() {
            state.calls = state.calls.wrapping_add(1);
            (state.called, state.rings) = (asleep, RINGS);
            state.sleeper.ring();
        }
    }

    /// `rung`: an event with the mark was reported to one who did not sleep. The bell is silenced,
    /// or the set's number would stay readable; who sleeps on is to look for itself.
    pub fn quieten(&self, set: &Set, rung: bool) {
        if !rung {
            return;
        }
        let mut state = lock(&self.state);
        self.rest(set, &mut state, true);
    }

    /// From now on the set's own number is readable whenever it has something to report.
    pub fn stay_armed(&self, set: &Set, number: c_int) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        state.always = true;
        state.arm(set);
        state.register(number)
    }

    /// Wakes one that waits for the kernel's part of the set, and does not know of this sleeper, or where
    /// no news are heard.
    pub fn call(&self, set: &Set, number: c_int) -> Result<(), Errno> {
        if set.is_familys() {
            family::ring();
            if !set.in_kernel.any() {
                return Ok(());
            }
        }
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.register(number)?;
        state.sleeper.ring();
        Ok(())
    }

    /// Whether the sleeper's descriptors are in the program's set.
    pub fn is_in_set(&self) -> bool {
        lock(&self.state).registered.is_some()
    }

    /// Takes them out, for as long as nobody needs them there.
    pub fn leave_set(&self, set: c_int) {
        let mut state = lock(&self.state);
        if !state.always {
            state.withdraw(set);
        }
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
            (state.beside, state.called) = (None, 0);
            self.asleep.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Disarms, and arms again if someone needs it.
    fn rest(&self, set: &Set, state: &mut State, rung: bool) {
        state.sleeper.disarm(rung);
        if self.asleep.load(Ordering::Relaxed) > 0 || state.always {
            state.arm(set);
        }
        if set.is_familys() && set.in_kernel.any() {
            // They are to come out, and what was to wake them may have been silenced just now.
            state.sleeper.ring();
        }
        if state.called > 0 {
            // As above.
            state.rings = state.rings.saturating_sub(1);
            match state.rings {
                0 => state.called = 0,
                _ => state.sleeper.ring(),
            }
        }
    }
}

impl State {
    /// From now on the sleeper is woken by what happens to the set.
    fn arm(&mut self, set: &Set) {
        self.sleeper.arm();
        if let Some(ours) = set.ours.get() {
            self.sleeper.serves(&ours.ready);
        }
    }

    /// Puts the sleeper's descriptors in the program's set, if they are not there. Others that were
    /// there before are closed by now, and with that out of it.
    fn register(&mut self, set: c_int) -> Result<(), Errno> {
        let epoch = self.sleeper.epoch();
        if self.registered == Some(epoch) {
            return Ok(());
        }
        self.put_into(set)?;
        self.registered = Some(epoch);
        Ok(())
    }

    /// Takes them out again. Children may have copies, so that closing them would not.
    fn withdraw(&mut self, set: c_int) {
        if self.registered.take().is_some() {
            for fd in self.sleeper.fds() {
                let fd = fd.as_raw_fd();
                let _ = kernel_control(set, libc::EPOLL_CTL_DEL, fd, core::ptr::null_mut());
            }
        }
    }

    /// The set beside the program's, with the sleeper's descriptors in it. `None`: it cannot be had.
    fn register_beside(&mut self, set: c_int, news: c_int) -> Option<c_int> {
        let epoch = self.sleeper.epoch();
        if self.beside.is_none() {
            let own = family::new_set()?;
            let level = libc::EPOLLIN as u32;
            family::watch(own.as_raw_fd(), set, level, PROGRAMS).ok()?;
            family::watch(own.as_raw_fd(), news, level, NEWS).ok()?;
            let registered = None;
            self.beside = Some(Beside { own, registered });
        }
        let beside = self.beside.as_mut()?;
        let own = beside.own.as_raw_fd();
        if beside.registered.replace(epoch) != Some(epoch) {
            self.put_into(own).ok()?;
        }
        Some(own)
    }

    fn put_into(&self, set: c_int) -> Result<(), Errno> {
        for fd in self.sleeper.fds() {
            match family::watch(set, fd.as_raw_fd(), libc::EPOLLIN as u32, MARK) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn new_sleeper() -> Result<Sleeper, Errno> {
    session::current().ok_or(Errno::NOMEM)?.sleeper()
}
