//! An epoll set of the program.
//!
//! What the program calls on it is in [`epoll`](crate::calls::epoll).

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock, Weak};

use host::ReadySet;
use host::one_shot::{self, Once};
use rustix::io::Errno;
use self_cell::self_cell;

use crate::engine::forks::generation;
use crate::engine::session;
use crate::kernel::deadline::now;
use crate::kernel::lock::set_once;
use crate::thread::counted::Counts;

mod beacon;
pub mod bell;
mod inside;
mod kin;
pub mod sleep;
mod unaware;

use inside::Inside;
use kin::Kin;
use sleep::{Guard, Sleep};
use unaware::Unaware;

/// How deep sets may lie in each other, as in the kernel (EP_MAX_NESTS).
const DEEPEST: u32 = 4;

/// See the [module](self).
#[derive(Default)]
pub struct Set {
    /// The part of ours, if there is one.
    pub ours: OnceLock<Ours>,
    /// Threads that wait in the kernel alone, because there was no part of ours.
    pub unaware: Unaware,
    /// It is inside another set: what it has to report must be seen there.
    nested: AtomicBool,
    /// There it is watched level-triggered: what was left unread must be seen as well.
    level: AtomicBool,
    /// The sets inside it.
    pub inside: Inside<Set>,
    /// Interests in listeners that are told of once.
    pub once: Once,
    /// It comes from another program, and what is in it is not known.
    pub unknown: AtomicBool,
    /// Those who wait already have not been told of the part of ours.
    untold: AtomicBool,
    /// When somebody last looked into the sets inside it, in nanoseconds of the monotonic clock.
    looked_ns: AtomicU64,
    /// What it is to the processes that have it since a fork.
    pub kin: Kin,
}

/// What a set has once a socket of the engine's is, or was, in it.
pub struct Ours {
    /// The members of the engine's.
    pub ready: ReadySet,
    /// How those are woken who wait for them.
    pub sleep: Sleep,
    /// Counts waits, to look at the kernel's part every few turns.
    pub turn: AtomicU32,
    /// How many forks lay behind the process that last waited in it.
    generation: AtomicU32,
}

impl Ours {
    /// A thread is about to wait. The first that does in a child makes it want what its parent's set
    /// watches.
    pub fn entered(&self) {
        let generation = generation();
        if self.generation.load(Ordering::Relaxed) == generation {
            return;
        }
        self.generation.store(generation, Ordering::Relaxed);
        if let Some(session) = session::current() {
            session.waits_in(&self.ready);
        }
    }
}

/// A note that a socket which is still the kernel's is in a set.
pub struct Watch {
    pub set: Weak<Set>,
    /// The set's number.
    pub number: c_int,
    /// The number under which the socket was added.
    pub fd: c_int,
    pub events: u32,
    pub data: u64,
}

/// Who waits in the kernel alone is counted in both ways.
impl Counts for Set {
    fn enter(&self) {
        self.unaware.enter();
        self.kin.in_kernel.enter();
    }

    fn leave(&self) {
        self.kin.in_kernel.leave();
        self.unaware.leave();
    }
}

impl Set {
    /// Whether other processes may have it, too.
    pub fn is_familys(&self) -> bool {
        self.kin.are_there()
    }

    /// The part of ours, made now if need be; `number` is the set's.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`, `ENOSPC`: it cannot be had, or those who wait cannot be told of it. Then whoever
    /// asks next tries again.
    pub fn ours(&self, number: c_int) -> Result<&Ours, Errno> {
        if let Some(ours) = self.ours.get() {
            if !self.is_ready() {
                self.tell_of(ours, number)?;
            }
            return Ok(ours);
        }
        let session = session::current().ok_or(Errno::NOMEM)?;
        let ready = session.ready_set();
        let ours = Ours {
            sleep: Sleep::new(&ready)?,
            ready,
            turn: AtomicU32::new(0),
            generation: AtomicU32::new(generation()),
        };
        // Before it can be seen.
        self.untold.store(true, Ordering::Relaxed);
        // Another thread may have been faster: then its part stands.
        let _ = set_once(&self.ours, ours);
        let ours = self.ours.get().ok_or(Errno::NOMEM)?;
        self.tell_of(ours, number)?;
        Ok(ours)
    }

    /// Whether the part of ours is there, and those who wait know it.
    pub fn is_ready(&self) -> bool {
        self.has_ours() && !self.untold.load(Ordering::Relaxed)
    }

    /// Brings the part of ours to those who wait already: in the set that it is inside, and in the kernel alone.
    fn tell_of(&self, ours: &Ours, number: c_int) -> Result<(), Errno> {
        if self.nested.load(Ordering::Relaxed) {
            ours.sleep.stay_armed(number)?;
            ours.sleep.ring_unless_rung_for();
        }
        self.call_unaware(ours, number)?;
        self.untold.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Wakes threads that wait in the kernel alone, if there are any, so that they come to wait for
    /// our part too.
    pub fn call_unaware(&self, ours: &Ours, number: c_int) -> Result<(), Errno> {
        if self.unaware.any() {
            ours.sleep.call(&self.kin, number)?;
        }
        Ok(())
    }

    /// It is inside another set, or polled, by this number of its own: from now on that is readable whenever it has
    /// something to report. The engine may ring its bell alone. `level`: also as long as something is left.
    pub fn nest(&self, number: c_int, level: bool) -> Result<(), Errno> {
        self.show_by_number();
        if level {
            self.level.store(true, Ordering::Relaxed);
        }
        match self.ours.get() {
            Some(ours) => ours.sleep.stay_armed(number),
            None => Ok(()),
        }
    }

    /// It was just put inside another set, or is watched there in another way: what it has to report already is told
    /// of there.
    pub fn show(&self) {
        if let Some(ours) = self.ours.get() {
            session::pump();
            ours.sleep.show(|| ours.ready.any_ready());
        }
    }

    /// As [`nest`](Self::nest), of one that has nothing of ours yet.
    pub fn show_by_number(&self) {
        self.nested.store(true, Ordering::Relaxed);
    }

    /// A thread is about to wait in it. If it is also watched by its number, what comes from now on rings that
    /// number anew: what came before this thread finds.
    pub fn listen_anew(&self, number: c_int) {
        if let Some(ours) = self.ours.get()
            && self.nested.load(Ordering::Relaxed)
        {
            ours.sleep.quieten(&self.kin, number, true);
        }
    }

    /// An event with the mark was reported to one who has this set by `number`, and no part of ours: what another
    /// process has lit is put out. False: it was not that.
    pub fn put_out(&self, number: c_int) -> bool {
        self.kin.may_have_lit() && beacon::put_out(number)
    }

    /// Sets its bell right, if it is watched level-triggered by its number: rung if something is there to report,
    /// and silent if not. The bells of a set that other processes have are theirs, too, and stay as they are.
    pub fn settle(&self) {
        if let Some(ours) = self.ours.get()
            && self.level.load(Ordering::Relaxed)
            && !self.is_familys()
        {
            session::pump();
            ours.sleep.settle(&self.kin, || ours.ready.any_ready());
        }
    }

    /// [Settles](Self::settle) the sets inside it: to be done before it is waited in, or asked for by its number.
    pub fn settle_inside(&self) {
        self.settle_down_to(DEEPEST);
    }

    fn settle_down_to(&self, deepest: u32) {
        if deepest == 0 {
            return;
        }
        for inner in self.inside.sets() {
            inner.set.settle_down_to(deepest - 1);
            if inner.is_level {
                inner.set.settle();
            }
        }
    }

    /// How long one may sleep who waits for it, before he looks at the sets inside it: `None` for as long as he likes.
    fn limit_inside(&self) -> Option<Duration> {
        self.limit_down_to(DEEPEST)
    }

    fn limit_down_to(&self, deepest: u32) -> Option<Duration> {
        if deepest == 0 || !self.inside.any() {
            return None;
        }
        let inner = self.inside.sets().into_iter();
        let limits =
            inner.flat_map(|inner| [inner.set.own_limit(), inner.set.limit_down_to(deepest - 1)]);
        limits.flatten().min()
    }

    /// The same for its own part, if it is inside another.
    fn own_limit(&self) -> Option<Duration> {
        self.ours
            .get()
            .and_then(|ours| ours.sleep.limit_of_number())
    }

    /// Before one waits in it, or asks for it by its number. If nobody rings for a set inside it: looks whether there is
    /// something, of which the inner one's number tells from then on, and says for how long one may sleep before one
    /// does this again. Who comes again sooner, because he sleeps for less, looks no more often.
    pub fn look_inside(&self) -> Option<Duration> {
        let limit = self.limit_inside()?;
        let now = now().as_nanos() as u64;
        let since = now.saturating_sub(self.looked_ns.load(Ordering::Relaxed));
        if u128::from(since) >= limit.as_nanos() / 2 {
            self.looked_ns.store(now, Ordering::Relaxed);
            self.look_down_to(DEEPEST);
        }
        Some(limit)
    }

    fn look_down_to(&self, deepest: u32) {
        if deepest == 0 {
            return;
        }
        for inner in self.inside.sets() {
            inner.set.look_down_to(deepest - 1);
            if let Some(ours) = inner.set.ours.get() {
                ours.sleep.look_in(|| ours.ready.any_ready());
            }
        }
    }

    /// A set was put inside it for which nobody may ring. Who sleeps in it does not know how long he may.
    pub fn call_for(&self, number: c_int, inner: &Self) -> Result<(), Errno> {
        if inner.own_limit().or_else(|| inner.limit_inside()).is_some() {
            self.ours(number)?.sleep.call_all();
        }
        Ok(())
    }

    /// Whether there is or was a member of the engine's.
    pub fn has_ours(&self) -> bool {
        self.ours.get().is_some()
    }

    /// Whether a member of the engine's has something to report.
    pub fn any_ready(&self) -> bool {
        self.ours.get().is_some_and(|ours| ours.ready.any_ready())
    }
}

/// Locks of sets that are held.
#[expect(dead_code, reason = "held, not used")]
pub struct Guards<'a>(
    Vec<Guard<'a>>,
    Vec<(inside::Guard<'a, Set>, one_shot::Guard<'a>)>,
);

self_cell!(
    /// Keeps other threads from the sleepers of sets, and from what is inside them, for the time of a fork: a child
    /// of one that holds such a
    /// lock would wait for it for ever.
    pub struct Quiet {
        owner: Vec<Arc<Set>>,
        #[covariant]
        dependent: Guards,
    }
);

/// See [`Quiet`].
pub fn quiet(sets: Vec<Arc<Set>>) -> Quiet {
    sets.iter().for_each(|set| set.kin.forks());
    Quiet::new(sets, |sets| {
        let ours = sets.iter().filter_map(|set| set.ours.get());
        let sleepers = ours.map(|ours| ours.sleep.guard()).collect();
        Guards(
            sleepers,
            sets.iter()
                .map(|set| (set.inside.guard(), set.once.guard()))
                .collect(),
        )
    })
}
