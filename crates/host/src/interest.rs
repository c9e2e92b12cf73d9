//! Who wants to hear of a source, and what a ready set knows of it: either side holds the other, so that a
//! source finds its sets, and a set the sources that it watches.
//!
//! A [`Source`] holds the present readiness of one socket or listener in an atomic word, so that
//! asking costs nothing, and the list of ready sets and threads that want to hear of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use crate::bell_name::BellName;
use crate::lock::lock;
use crate::locks::Locks;
use crate::nudge::{Nudge, Nudges};
use crate::readiness::Readiness;

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

    /// Wakes the threads of it that sleep, after something was changed.
    fn ring_threads(&self) {
        let threads = self.threads();
        if !threads.is_empty() {
            // Partner: the fence in `Nudges::sleep`.
            fence(Ordering::SeqCst);
            threads.iter().for_each(|it| it.ring_if_asleep());
        }
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
    /// end. This is what an edge-triggered interest sees. Wakes threads that wait; who waits for a set the engine
    /// has rung, if it is the engine's news. Whether any set watches.
    pub(crate) fn happened(&self, what: Readiness) -> bool {
        let told = lock(&self.told);
        for watch in told.watches() {
            watch.set.happened(watch.slot, what);
        }
        told.ring_threads();
        told.first.is_some()
    }

    /// Whoever wants to hear of it, and sleeps, is to look around: for what the engine has not rung them for.
    pub(crate) fn call(&self) {
        let told = lock(&self.told);
        for watch in told.watches() {
            watch.set.call();
        }
        told.ring_threads();
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

/// An interest as it stands in a set, or stood: what [`ReadySet::put_back`](crate::ReadySet::put_back) makes it of again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The key under which it was added.
    pub key: u64,
    /// What is wanted, with the flags; errors and hang-ups among it, unless it is a one-shot interest that
    /// was reported.
    pub wanted: Readiness,
    /// The program's own 64 bits.
    pub data: u64,
}

pub(crate) struct Interest {
    pub(crate) source: Arc<Source>,
    pub(crate) key: u64,
    pub(crate) data: u64,
    /// Zero once a one-shot interest has been reported.
    pub(crate) wanted: Readiness,
    pub(crate) edge: bool,
    /// What was reported since it was set.
    pub(crate) reported: Readiness,
    pub(crate) one_shot: bool,
    /// It cannot be changed.
    pub(crate) exclusive: bool,
    /// It stands in the list of those that may be ready.
    pub(crate) listed: bool,
}

impl Interest {
    /// Whether something of `what` is news to it. One that sees edges has seen what it was told of.
    pub(crate) fn is_reached_by(&self, what: Readiness) -> bool {
        let news = match self.edge && what.intersects(Readiness::NO_ARRIVAL) {
            true => what & !self.reported,
            false => what,
        };
        self.wanted.intersects(news)
    }

    pub(crate) fn taken(&self) -> Taken {
        let mut wanted = self.wanted;
        for (is, flag) in [
            (self.edge, Readiness::EDGE),
            (self.one_shot, Readiness::ONESHOT),
            (self.exclusive, Readiness::EXCLUSIVE),
        ] {
            if is {
                wanted |= flag;
            }
        }
        Taken {
            key: self.key,
            wanted,
            data: self.data,
        }
    }
}

#[derive(Default)]
pub(crate) struct Members {
    pub(crate) interests: Vec<Option<Interest>>,
    pub(crate) vacant: Vec<u32>,
    /// Slots that may be ready, in the order in which that was noticed.
    pub(crate) ready: VecDeque<u32>,
    /// By which all sleep who wait for the set, once they have slept.
    nudge: Option<Arc<Nudge>>,
}

/// What the sources that are watched hold of a set.
pub(crate) struct SetCore {
    pub(crate) members: Mutex<Members>,
    /// The length of the list of slots that may be ready, to be read without the lock.
    pub(crate) listed: AtomicUsize,
    pub(crate) nudges: Arc<Nudges>,
    /// Where the members' nudge lies, to be compared without the lock.
    pub(crate) sleeper: AtomicPtr<Nudge>,
    /// The [name](BellName::to_word) of the bell by which those sleep who wait for the set.
    pub(crate) bell: AtomicU64,
}

impl SetCore {
    /// Takes the lock, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.members);
    }

    /// Something of `what` happened on the source in `slot`. The caller holds the source's list of
    /// watches, so the slot is its own.
    pub(crate) fn happened(&self, slot: u32, what: Readiness) {
        let mut members = lock(&self.members);
        if let Some(Some(interest)) = members.interests.get(slot as usize)
            && interest.is_reached_by(what)
        {
            members.list(slot);
            self.listed.store(members.ready.len(), Ordering::Relaxed);
        }
    }

    /// Whether any interest that is listed is ready.
    pub(crate) fn any_ready(&self) -> bool {
        if self.listed.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let members = lock(&self.members);
        members.ready.iter().any(|slot| {
            members.interests[*slot as usize]
                .as_ref()
                .is_some_and(|interest| interest.source.readiness().intersects(interest.wanted))
        })
    }

    /// The bell by which all sleep who wait for the set, if that is known.
    pub(crate) fn bell(&self) -> Option<BellName> {
        BellName::from_word(self.bell.load(Ordering::Relaxed))
    }

    /// All who wait for the set sleep by this bell: the engine rings no other of this process for what is in this
    /// set alone. `None`: it is not one, or not known.
    pub(crate) fn set_bell(&self, bell: Option<BellName>) {
        let word = BellName::to_word(bell);
        if self.bell.load(Ordering::Relaxed) != word {
            self.bell.store(word, Ordering::Relaxed);
        }
    }

    /// All who wait for the set sleep by this nudge.
    pub(crate) fn set_nudge(&self, nudge: &Arc<Nudge>) {
        let at = Arc::as_ptr(nudge).cast_mut();
        if self.sleeper.load(Ordering::Relaxed) != at {
            lock(&self.members).nudge = Some(Arc::clone(nudge));
            self.sleeper.store(at, Ordering::Relaxed);
        }
    }

    /// Whoever sleeps until the set has something to report is to look around.
    pub(crate) fn call(&self) {
        let nudge = lock(&self.members).nudge.clone();
        match nudge {
            Some(nudge) => {
                // Partner: the fence in `Nudges::sleep`.
                fence(Ordering::SeqCst);
                nudge.ring_if_asleep();
            }
            // Who is about to sleep for the first time is among all.
            None => self.nudges.nudge_all(),
        }
    }

    /// Takes out a slot whose source forgets the set.
    pub(crate) fn forget(&self, slot: u32) {
        lock(&self.members).remove(slot);
    }
}

impl Members {
    pub(crate) fn list(&mut self, slot: u32) {
        if let Some(Some(interest)) = self.interests.get_mut(slot as usize)
            && !interest.listed
        {
            interest.listed = true;
            self.ready.push_back(slot);
        }
    }

    pub(crate) fn insert(&mut self, interest: Interest) -> u32 {
        match self.vacant.pop() {
            Some(slot) => {
                self.interests[slot as usize] = Some(interest);
                slot
            }
            None => {
                self.interests.push(Some(interest));
                (self.interests.len() - 1) as u32
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(interest) = self.interests.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        // The slot may be given to another at once, so nothing of this one may stay in the list.
        if interest.listed {
            self.ready.retain(|listed| *listed != slot);
        }
        self.vacant.push(slot);
    }
}
