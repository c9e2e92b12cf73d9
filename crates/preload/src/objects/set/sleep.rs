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
//! descriptors, and the [news](bell::news) of what the others do.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use host::private_fds::Private;
use host::{ReadySet, Sleeper, Waiting};
use rustix::io::Errno;

use super::kin::Kin;
use super::{beacon, bell};
use crate::engine::forks::generation;
use crate::engine::session;
use crate::kernel::deadline::Deadline;
use crate::kernel::epoll::{kernel_control, new_set, watch};
use crate::kernel::lock::lock;

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

pub struct State {
    sleeper: Sleeper,
    generation: u32,
    /// The sleeper's epoch whose descriptors are in the set.
    registered: Option<u64>,
    /// The set is inside another set, by this number: whoever waits there cannot arm this one.
    always: Option<c_int>,
    /// That number was made readable by the [beacon], for want of a descriptor.
    lit: bool,
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

/// Keeps other threads from a sleeper.
pub struct Guard<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, State>);

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
    /// The number of the set by which it waits.
    number: c_int,
    /// The number of the set beside the program's, if it is to sleep in that one.
    pub beside: Option<c_int>,
    /// It is counted among those in the kernel's part.
    pub counted: bool,
    /// How often all had been called by then.
    calls: u32,
}

impl Sleep {
    /// Of a set with this part of ours.
    pub fn new(ready: &ReadySet) -> Result<Self, Errno> {
        let session = session::current().ok_or(Errno::NOMEM)?;
        let mut sleeper = session.sleeper()?;
        beacon::make()?;
        sleeper.serves(ready);
        Ok(Self {
            state: Mutex::new(State {
                sleeper,
                generation: generation(),
                registered: None,
                always: None,
                lit: false,
                beside: None,
                calls: 0,
                called: 0,
                rings: 0,
            }),
            asleep: AtomicUsize::new(0),
        })
    }

    /// See [`Guard`].
    pub fn guard(&self) -> Guard<'_> {
        Guard(lock(&self.state))
    }

    /// The caller has found nothing and would sleep next: it looks for a moment more first, and at the kernel's part as long
    /// as that looks on. What comes back is kept until it returns.
    pub fn hesitate(&self) -> Waiting {
        // Others do not wait meanwhile.
        let company = lock(&self.state).sleeper.company();
        company.hesitate_beside()
    }

    /// The caller is about to sleep, at most until `deadline` or what comes back, if that is
    /// earlier; it must look once more before.
    pub fn arm(&self, kin: &Kin, number: c_int, deadline: Deadline) -> Result<Bed, Errno> {
        kin.in_kernel.enter();
        let counted = !kin.are_there();
        let news = if counted {
            None
        } else {
            kin.in_kernel.leave();
            bell::news()
        };
        let armed = self.arm_by(kin, number, deadline, news);
        if counted && armed.is_err() {
            kin.in_kernel.leave();
        }
        armed.map(|bed| Bed { counted, ..bed })
    }

    fn arm_by(
        &self,
        kin: &Kin,
        number: c_int,
        deadline: Deadline,
        news: Option<c_int>,
    ) -> Result<Bed, Errno> {
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.sleeper.arm();
        let beside = news.and_then(|news| state.register_beside(number, news));
        if beside.is_none() || state.always.is_some() {
            state.register(number)?;
        } else if !kin.in_kernel.any() {
            state.withdraw(number);
        }
        self.asleep.fetch_add(1, Ordering::Relaxed);
        Ok(Bed {
            until: deadline.or_after(state.sleeper.limit()),
            number,
            beside,
            counted: false,
            calls: state.calls,
        })
    }

    /// The caller is awake; `rung` if an event with the mark was among those reported.
    pub fn disarm(&self, kin: &Kin, bed: &Bed, rung: bool) {
        if bed.counted {
            kin.in_kernel.leave();
        }
        let mut state = lock(&self.state);
        let left = self.asleep.load(Ordering::Relaxed).saturating_sub(1);
        self.asleep.store(left, Ordering::Relaxed);
        let was_called = bed.calls != state.calls;
        if was_called {
            state.called = state.called.saturating_sub(1);
        }
        self.rest(kin, &mut state, rung.then_some(bed.number));
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
            state.ring();
        }
    }

    /// `rung`: an event with the mark was reported to one who did not sleep, and has the set by this `number`. The
    /// bell is silenced, or the number would stay readable; who sleeps on is to look for itself.
    pub fn quieten(&self, kin: &Kin, number: c_int, rung: bool) {
        if !rung {
            return;
        }
        let mut state = lock(&self.state);
        // The bell that the child of a fork has from its parent is the parent's, which may wait for it.
        if self.renew(&mut state).is_ok() {
            self.rest(kin, &mut state, Some(number));
        }
    }

    /// From now on the set's own number is readable whenever it has something to report.
    pub fn stay_armed(&self, set: c_int) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        state.always = Some(set);
        self.renew(&mut state)?;
        state.sleeper.arm();
        state.register(set)
    }

    /// How long one may sleep by the set's own number, before he [looks](Self::look_in).
    pub fn limit_of_number(&self) -> Option<Duration> {
        let state = lock(&self.state);
        state.always.and_then(|_| state.sleeper.limit())
    }

    /// As [`settle`](Self::settle), where nobody may have rung: takes in what there is, and only rings.
    pub fn look_in(&self, any_ready: impl Fn() -> bool) {
        let Some((mut state, number)) = self.shown() else {
            return;
        };
        if state.sleeper.limit().is_none() {
            return;
        }
        state.sleeper.arm();
        // A number that is closed is told nothing.
        let _ = state.register(number);
        // What was lit another process may have put out.
        if any_ready() && (state.sleeper.is_deaf() || !state.sleeper.is_rung()) {
            state.ring();
        }
    }

    /// The set was just put inside another, or is watched there in another way: what there is to report already is an
    /// event there, as it is to the kernel.
    pub fn show(&self, any_ready: impl Fn() -> bool) {
        if let Some((mut state, _)) = self.shown()
            && any_ready()
            && !state.is_rung()
        {
            state.ring();
        }
    }

    /// The state, and the set's number, if that tells of it.
    fn shown(&self) -> Option<(MutexGuard<'_, State>, c_int)> {
        let mut state = lock(&self.state);
        let number = state.always?;
        self.renew(&mut state).ok()?;
        Some((state, number))
    }

    /// The set's own number has just begun to tell of it. If nobody rings, who sleeps by it comes out, and sleeps no
    /// longer than he may from then on.
    pub fn ring_unless_rung_for(&self) {
        let mut state = lock(&self.state);
        if state.sleeper.limit().is_some() {
            state.ring();
        }
    }

    /// Rings where there is something to report, and silences the bell where there is nothing, if the set's number
    /// tells of it.
    pub fn settle(&self, kin: &Kin, any_ready: impl Fn() -> bool) {
        let Some((mut state, number)) = self.shown() else {
            return;
        };
        match (any_ready(), state.is_rung()) {
            (true, false) => state.ring(),
            (false, true) => {
                self.rest(kin, &mut state, Some(number));
                if any_ready() {
                    // Arming has taken it in.
                    state.ring();
                }
            }
            _ => {}
        }
    }

    /// Wakes one that waits for the kernel's part of the set, and does not know of this sleeper, or where
    /// no news are heard.
    pub fn call(&self, kin: &Kin, number: c_int) -> Result<(), Errno> {
        if kin.are_there() {
            bell::ring();
            if !kin.in_kernel.any() {
                return Ok(());
            }
        }
        let mut state = lock(&self.state);
        self.renew(&mut state)?;
        state.register(number)?;
        state.ring();
        Ok(())
    }

    /// Whether the sleeper's descriptors are in the program's set.
    pub fn is_in_set(&self) -> bool {
        lock(&self.state).registered.is_some()
    }

    /// Takes them out, for as long as nobody needs them there.
    pub fn leave_set(&self, set: c_int) {
        let mut state = lock(&self.state);
        if state.always.is_none() {
            state.withdraw(set);
        }
    }

    /// The caller goes with its events, and `more` tells whether it leaves any behind: then one who
    /// sleeps is woken for them. What is left is in the set's list, under a lock that whoever went
    /// to sleep has taken since: so it is seen here as asleep, or has seen what is left.
    pub fn pass_on(&self, more: impl FnOnce() -> bool) {
        if self.asleep.load(Ordering::Relaxed) > 0 && more() {
            lock(&self.state).ring();
        }
    }

    /// In the child of a fork the sleeper is one of its own.
    fn renew(&self, state: &mut State) -> Result<(), Errno> {
        let generation = generation();
        if state.generation != generation {
            let session = session::current().ok_or(Errno::NOMEM)?;
            let mut sleeper = session.sleeper_at_any_rate();
            sleeper.serves_as(&state.sleeper);
            state.sleeper = sleeper;
            (state.generation, state.registered) = (generation, None);
            (state.beside, state.called, state.lit) = (None, 0, false);
            self.asleep.store(0, Ordering::Relaxed);
            if let Some(number) = state.always {
                state.sleeper.arm();
                // A number that is closed is told nothing.
                let _ = state.register(number);
            }
        }
        Ok(())
    }

    /// Disarms, and arms again if someone needs it. `rung`: a number of the set's, if it was rung.
    fn rest(&self, kin: &Kin, state: &mut State, rung: Option<c_int>) {
        state.sleeper.disarm(rung.is_some());
        if let Some(number) = rung
            && (state.lit || kin.may_have_lit())
        {
            state.lit = false;
            beacon::put_out(number);
        }
        if self.asleep.load(Ordering::Relaxed) > 0 || state.always.is_some() {
            state.sleeper.arm();
        }
        if let Some(number) = state.always {
            // With another engine the descriptors are others. A number that is closed is told nothing.
            let _ = state.register(number);
        }
        if kin.are_there() && kin.in_kernel.any() {
            // They are to come out, and what was to wake them may have been silenced just now.
            state.ring();
        }
        if state.called > 0 {
            // As above.
            state.rings = state.rings.saturating_sub(1);
            match state.rings {
                0 => state.called = 0,
                _ => state.ring(),
            }
        }
    }
}

impl State {
    /// Whoever sleeps comes out, also one who waits by the set's number.
    fn ring(&mut self) {
        self.sleeper.ring();
        if let Some(number) = self.always
            && self.sleeper.is_deaf()
        {
            beacon::light(number, MARK);
            self.lit = true;
        }
    }

    fn is_rung(&self) -> bool {
        self.lit || self.sleeper.is_rung()
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
            let own = new_set()?;
            let level = libc::EPOLLIN as u32;
            watch(own.as_raw_fd(), set, level, PROGRAMS).ok()?;
            watch(own.as_raw_fd(), news, level, NEWS).ok()?;
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
            match watch(set, fd.as_raw_fd(), libc::EPOLLIN as u32, MARK) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
