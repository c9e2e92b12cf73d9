//! What a socket is ready for, and who wants to hear of it.
//!
//! A [`Source`] holds the present readiness of one socket or listener in an atomic word, so that
//! asking costs nothing, and the list of ready sets and threads that want to hear of it. The bits have the values of the
//! kernel's `EPOLL*` constants, which for the ones used here are those of `POLL*` too.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex};

use crate::bell_name::BellName;
use crate::lock::lock;
use crate::nudge::Nudge;
use crate::quiet::Locks;
use crate::ready_set::SetCore;

/// A set of readiness bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readiness(pub u32);

impl Readiness {
    /// Nothing.
    pub const NONE: Readiness = Readiness(0);
    /// There is something to receive or accept, or the end of the stream, or an error.
    pub const IN: Readiness = Readiness(0x001);
    /// There is room to send.
    pub const OUT: Readiness = Readiness(0x004);
    /// An error is waiting in `SO_ERROR`. Reported whether asked for or not.
    pub const ERR: Readiness = Readiness(0x008);
    /// Both directions have ended. Reported whether asked for or not.
    pub const HUP: Readiness = Readiness(0x010);
    /// `EPOLLRDNORM`: as [`IN`](Self::IN).
    pub const RDNORM: Readiness = Readiness(0x040);
    /// `EPOLLWRNORM`: as [`OUT`](Self::OUT).
    pub const WRNORM: Readiness = Readiness(0x100);
    /// The peer has ended its direction.
    pub const RDHUP: Readiness = Readiness(0x2000);
    /// The peer has acknowledged as much as [`Socket::tell_when_acknowledged`](crate::Socket::tell_when_acknowledged)
    /// was told. Not one of the kernel's bits.
    pub const ACKED: Readiness = Readiness(1 << 26);
    /// Among what has happened: nothing has, and somebody is told of what is there. Not one of the kernel's bits.
    pub(crate) const NO_ARRIVAL: Readiness = Readiness(1 << 27);
    /// Interest flag: of the sets that watch, wake not all (`EPOLLEXCLUSIVE`).
    pub const EXCLUSIVE: Readiness = Readiness(1 << 28);
    /// Interest flag: `EPOLLWAKEUP`, which is the kernel's alone.
    const WAKEUP: Readiness = Readiness(1 << 29);
    /// Interest flag: report once, then not until the interest is set anew.
    pub const ONESHOT: Readiness = Readiness(1 << 30);
    /// Interest flag: report changes, not states.
    pub const EDGE: Readiness = Readiness(1 << 31);

    /// What is reported whether asked for or not.
    pub const ALWAYS: Readiness = Readiness(0x018);

    /// Whether an interest in this can be added: with `EXCLUSIVE` only few others go (epoll_ctl(2)).
    pub(crate) fn can_be_wanted(self) -> bool {
        let beside = Self::EXCLUSIVE | Self::IN | Self::OUT | Self::ALWAYS;
        let beside = beside | Self::WAKEUP | Self::EDGE;
        !self.intersects(Self::EXCLUSIVE) || self & !beside == Self::NONE
    }

    /// What is wanted, without how it is to be reported.
    pub(crate) fn without_flags(self) -> Self {
        self & !(Self::EDGE | Self::ONESHOT | Self::EXCLUSIVE | Self::WAKEUP)
    }

    /// Whether any bit of `other` is set.
    pub fn intersects(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no bit is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Readiness {
    type Output = Readiness;
    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl BitAnd for Readiness {
    type Output = Readiness;
    fn bitand(self, other: Readiness) -> Readiness {
        Readiness(self.0 & other.0)
    }
}

impl Not for Readiness {
    type Output = Readiness;
    fn not(self) -> Readiness {
        Readiness(!self.0)
    }
}

/// One ready set's interest in a source.
pub(crate) struct Watch {
    pub(crate) set: Arc<SetCore>,
    /// The set's own number for this interest.
    pub(crate) slot: u32,
    /// What the program knows the interest by: a descriptor number.
    pub(crate) key: u64,
}

/// The readiness of one socket or listener.
#[derive(Default)]
pub(crate) struct Source {
    bits: AtomicU32,
    told: Mutex<Told>,
}

/// Who wants to hear of a source. Most are in one set, and there may be a million of them.
#[derive(Default)]
pub(crate) struct Told {
    /// If there is one at all.
    first: Option<Watch>,
    more: Option<Box<More>>,
}

/// Who else does.
#[derive(Default)]
struct More {
    watches: Vec<Watch>,
    /// Threads that wait for it and for others.
    threads: Vec<Arc<Nudge>>,
}

impl Told {
    fn others(&self) -> &[Watch] {
        self.more
            .as_ref()
            .map_or(&[], |more| more.watches.as_slice())
    }

    fn threads(&self) -> &[Arc<Nudge>] {
        self.more
            .as_ref()
            .map_or(&[], |more| more.threads.as_slice())
    }

    /// The set that wants to hear of it, if nobody else does.
    fn only_set(&self) -> Option<&SetCore> {
        let alone = self.others().is_empty() && self.threads().is_empty();
        let first = self.first.as_ref().filter(|_| alone);
        first.map(|watch| &*watch.set)
    }

    /// All watches, in the order in which they came.
    pub(crate) fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.first.iter().chain(self.others())
    }

    /// One more.
    pub(crate) fn add(&mut self, watch: Watch) {
        if self.first.is_none() {
            self.first = Some(watch);
        } else {
            self.more.get_or_insert_default().watches.push(watch);
        }
    }

    /// Those stay of which that is said.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&Watch) -> bool) {
        let first = self.first.as_ref().is_some_and(&mut stays);
        if let Some(more) = &mut self.more {
            more.watches.retain(stays);
        }
        if !first {
            let more = self.more.as_mut();
            let others = more.map(|more| &mut more.watches);
            let next = others.filter(|others| !others.is_empty());
            self.first = next.map(|others| others.remove(0));
        }
    }
}

impl Source {
    /// The present readiness.
    pub(crate) fn readiness(&self) -> Readiness {
        Readiness(self.bits.load(Ordering::Acquire))
    }

    /// Replaces the readiness. Called under the owner's lock, so that no two writers race.
    pub(crate) fn set(&self, bits: Readiness) {
        self.bits.store(bits.0, Ordering::Release);
    }

    /// Tells the sets that watch that something of `what` has happened: new data, new room, an
    /// end. This is what an edge-triggered interest sees. Wakes threads that wait. Whether any set watches.
    pub(crate) fn happened(&self, what: Readiness) -> bool {
        let told = lock(&self.told);
        for watch in told.watches() {
            watch.set.happened(watch.slot, what);
        }
        let threads = told.threads();
        if !threads.is_empty() {
            // Partner: the fence in `Nudges::sleep`.
            fence(Ordering::SeqCst);
            threads.iter().for_each(|it| it.ring_if_asleep());
        }
        told.first.is_some()
    }

    /// The thread that this nudge wakes wants to hear of it. It must look once more before it sleeps.
    pub(crate) fn tell(&self, thread: &Arc<Nudge>) {
        let mut told = lock(&self.told);
        let more = told.more.get_or_insert_default();
        more.threads.push(Arc::clone(thread));
    }

    /// Whether anybody hears of it, threads or sets.
    pub(crate) fn is_told(&self) -> bool {
        let told = lock(&self.told);
        told.first.is_some() || !told.threads().is_empty()
    }

    /// The inverse of [`tell`](Self::tell).
    pub(crate) fn tell_no_more(&self, thread: &Arc<Nudge>) {
        let mut told = lock(&self.told);
        let Some(More { threads, .. }) = told.more.as_deref_mut() else {
            return;
        };
        if let Some(at) = threads.iter().position(|one| Arc::ptr_eq(one, thread)) {
            threads.swap_remove(at);
        }
    }

    /// The bell by which all are woken who want to hear of it, if that is one.
    pub(crate) fn only_bell(&self) -> Option<BellName> {
        lock(&self.told).only_set()?.bell()
    }

    /// Takes the lock, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.told);
    }

    /// Runs `change` on the watches.
    pub(crate) fn with_watches<R>(&self, change: impl FnOnce(&mut Told) -> R) -> R {
        change(&mut lock(&self.told))
    }

    /// Takes the source out of every set: it is closed.
    pub(crate) fn forget_watches(&self) {
        lock(&self.told).retain(|watch| {
            watch.set.forget(watch.slot);
            false
        });
    }
}
