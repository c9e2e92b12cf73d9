//! Sets of sockets of which one asks which are ready, as epoll does it: see [`ReadySet`].

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::io::Errno;

pub use crate::interest::Taken;
use crate::interest::{Interest, Members, SetCore, Source, Told, Watch};
use crate::lock::lock;
use crate::nudge::Nudges;
use crate::readiness::Readiness;

/// Something of which a ready set can tell when it is ready: a socket or a listener.
pub trait Watchable {
    /// Its readiness, behind which the rest is hidden.
    fn readiness_source(&self) -> &SourceHandle;

    /// It was added to a set: someone waits for it.
    fn watched(&self) {
        self.is_waited_for();
    }

    /// It was taken out of a set, and is in no other: nobody waits for it by one.
    fn unwatched(&self) {}

    /// Someone is told of it from now on, and looks once more after this.
    fn is_waited_for(&self) {}
}

/// The readiness of one socket or listener, shared with the sets that watch it.
#[derive(Clone)]
pub struct SourceHandle(pub(crate) Arc<Source>);

/// One interest that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What the program asked for that is so now, and errors and hang-ups always.
    pub readiness: Readiness,
    /// The program's own 64 bits.
    pub data: u64,
    /// The key under which the interest was added.
    pub key: u64,
}

/// A set of interests in sockets and listeners, as epoll has them.
///
/// An interest is a socket or listener, the program's key for it (its descriptor number), the
/// readiness that it wants to hear of, and 64 bits of its own. What happens on a socket puts the
/// interest at the end of the set's list; [`collect`](ReadySet::collect) walks that list and nothing
/// else, so its cost is that of what is ready and not of what is watched. A level-triggered interest
/// that is reported goes back to the end of the list and leaves it when it is found to be no longer
/// ready; an edge-triggered one returns only when something new happens, and then reports the whole
/// present state, as the kernel's does.
///
/// How a thread sleeps until something happens is another matter: see [`Sleeper`](crate::Sleeper).
pub struct ReadySet {
    core: Arc<SetCore>,
}

impl ReadySet {
    /// An empty set. Of `nudges` are those who wait for it.
    pub(crate) fn new(nudges: Arc<Nudges>) -> Self {
        let core = SetCore {
            members: Mutex::default(),
            listed: AtomicUsize::new(0),
            nudges,
            sleeper: AtomicPtr::default(),
            bell: AtomicU64::new(0),
        };
        Self {
            core: Arc::new(core),
        }
    }

    /// Adds an interest under `key`: `wanted` readiness, with [`EDGE`](Readiness::EDGE) and
    /// [`ONESHOT`](Readiness::ONESHOT) as flags. What is ready already is reported.
    ///
    /// # Errors
    /// `EEXIST`: the set has an interest in this source under this key. `EINVAL`: what is wanted
    /// does not go with [`EXCLUSIVE`](Readiness::EXCLUSIVE).
    pub fn add(
        &self,
        what: &impl Watchable,
        key: u64,
        wanted: Readiness,
        data: u64,
    ) -> Result<(), Errno> {
        if !wanted.can_be_wanted() {
            return Err(Errno::INVAL);
        }
        let wanted = wanted | Readiness::ALWAYS;
        self.put_back(what, Taken { key, wanted, data })
    }

    /// Adds an interest as [`interests`](Self::interests) has told it of the same source in another
    /// set: a one-shot interest that was reported stays so. What is ready is reported, an edge
    /// that was reported there among it: whoever is told of nothing new finds nothing, and whoever
    /// missed something would wait for ever.
    ///
    /// # Errors
    /// `EEXIST`: the set has an interest in this source under this key.
    pub fn put_back(&self, what: &impl Watchable, taken: Taken) -> Result<(), Errno> {
        let Taken { key, wanted, data } = taken;
        let source = &what.readiness_source().0;
        let ready = source.with_watches(|watches| {
            if self.find(watches, key).is_some() {
                return Err(Errno::EXIST);
            }
            let mut members = lock(&self.core.members);
            let slot = members.insert(Interest {
                source: Arc::clone(source),
                key,
                data,
                wanted: wanted.without_flags(),
                edge: wanted.intersects(Readiness::EDGE),
                reported: Readiness::NONE,
                one_shot: wanted.intersects(Readiness::ONESHOT),
                exclusive: wanted.intersects(Readiness::EXCLUSIVE),
                listed: false,
            });
            watches.add(Watch {
                set: Arc::clone(&self.core),
                slot,
                key,
            });
            Ok(self.list_if_ready(&mut members, source, slot))
        })?;
        if ready {
            self.core.call();
        }
        what.watched();
        Ok(())
    }

    /// Replaces what an interest wants and carries, and arms a one-shot one again.
    ///
    /// # Errors
    /// `ENOENT`: there is no such interest. `EINVAL`: it is, or was to be, exclusive.
    pub fn modify(
        &self,
        what: &impl Watchable,
        key: u64,
        wanted: Readiness,
        data: u64,
    ) -> Result<(), Errno> {
        if wanted.intersects(Readiness::EXCLUSIVE) {
            return Err(Errno::INVAL);
        }
        let source = &what.readiness_source().0;
        let ready = source.with_watches(|watches| {
            let slot = self.find(watches, key).ok_or(Errno::NOENT)?;
            let mut members = lock(&self.core.members);
            let interest = members.interests[slot as usize]
                .as_mut()
                .ok_or(Errno::NOENT)?;
            if interest.exclusive {
                return Err(Errno::INVAL);
            }
            interest.data = data;
            interest.wanted = wanted.without_flags() | Readiness::ALWAYS;
            interest.edge = wanted.intersects(Readiness::EDGE);
            interest.reported = Readiness::NONE;
            interest.one_shot = wanted.intersects(Readiness::ONESHOT);
            Ok(self.list_if_ready(&mut members, source, slot))
        })?;
        if ready {
            self.core.call();
        }
        Ok(())
    }

    /// Removes an interest.
    ///
    /// # Errors
    /// `ENOENT`: there is no such interest.
    pub fn remove(&self, what: &impl Watchable, key: u64) -> Result<(), Errno> {
        what.readiness_source()
            .0
            .with_watches(|watches| {
                let slot = self.find(watches, key).ok_or(Errno::NOENT)?;
                watches.retain(|watch| watch.slot != slot || !Arc::ptr_eq(&watch.set, &self.core));
                self.core.forget(slot);
                Ok(watches.watches().next().is_none())
            })?
            .then(|| what.unwatched());
        Ok(())
    }

    /// Removes every interest in a source; what each was added or last changed with.
    pub fn take_all(&self, what: &impl Watchable) -> Vec<Taken> {
        let mut taken = Vec::new();
        what.readiness_source().0.with_watches(|watches| {
            watches.retain(|watch| {
                if !Arc::ptr_eq(&watch.set, &self.core) {
                    return true;
                }
                let mut members = lock(&self.core.members);
                let interest = members.interests.get(watch.slot as usize);
                taken.extend(interest.and_then(Option::as_ref).map(Interest::taken));
                members.remove(watch.slot);
                false
            });
        });
        taken
    }

    /// The interests in a source, as they stand.
    pub fn interests(&self, what: &impl Watchable) -> Vec<Taken> {
        what.readiness_source().0.with_watches(|watches| {
            let members = lock(&self.core.members);
            let of_this = |watch: &&Watch| Arc::ptr_eq(&watch.set, &self.core);
            let slots = watches.watches().filter(of_this).map(|watch| watch.slot);
            let interests = slots.filter_map(|slot| members.interests.get(slot as usize)?.as_ref());
            interests.map(Interest::taken).collect()
        })
    }

    /// Reports what is ready, at most `limit` events, and returns how many there were. `report` must
    /// not use the set. Never waits;
    /// what the engine has said since is not looked at (that is [`Session::pump`](crate::Session::pump)).
    pub fn collect(&self, limit: usize, mut report: impl FnMut(Event)) -> usize {
        if self.core.listed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut members = lock(&self.core.members);
        let mut reported = 0;
        // What goes back to the end of the list in this walk is not looked at again in it.
        for _ in 0..members.ready.len() {
            if reported == limit {
                break;
            }
            let Some(slot) = members.ready.pop_front() else {
                break;
            };
            let Some(interest) = members.interests[slot as usize].as_mut() else {
                continue;
            };
            interest.listed = false;
            let readiness = interest.source.readiness() & interest.wanted;
            if readiness.is_empty() {
                continue;
            }
            interest.reported |= readiness;
            let event = Event {
                readiness,
                data: interest.data,
                key: interest.key,
            };
            if interest.one_shot {
                interest.wanted = Readiness::NONE;
            } else if !interest.edge {
                interest.listed = true;
                members.ready.push_back(slot);
            }
            report(event);
            reported += 1;
        }
        self.core
            .listed
            .store(members.ready.len(), Ordering::Relaxed);
        reported
    }

    /// Whether [`collect`](Self::collect) would report anything.
    pub fn any_ready(&self) -> bool {
        self.core.any_ready()
    }

    /// What tells it how those sleep who wait for it, as long as it is there.
    pub(crate) fn handle(&self) -> Weak<SetCore> {
        Arc::downgrade(&self.core)
    }

    /// Whether it has an interest in a source.
    pub(crate) fn watches(&self, source: &SourceHandle) -> bool {
        let of_this = |watch: &Watch| Arc::ptr_eq(&watch.set, &self.core);
        source
            .0
            .with_watches(|watches| watches.watches().any(of_this))
    }

    /// The slot of the interest under this key.
    fn find(&self, watches: &Told, key: u64) -> Option<u32> {
        let of_this = |watch: &&Watch| watch.key == key && Arc::ptr_eq(&watch.set, &self.core);
        watches.watches().find(of_this).map(|watch| watch.slot)
    }

    fn list_if_ready(&self, members: &mut Members, source: &Source, slot: u32) -> bool {
        let interest = members.interests[slot as usize].as_ref();
        let ready = interest.is_some_and(|interest| source.readiness().intersects(interest.wanted));
        if ready {
            members.list(slot);
            self.core
                .listed
                .store(members.ready.len(), Ordering::Relaxed);
        }
        ready
    }
}

impl Drop for ReadySet {
    fn drop(&mut self) {
        let interests = std::mem::take(&mut lock(&self.core.members).interests);
        for interest in interests.into_iter().flatten() {
            interest.source.with_watches(|watches| {
                watches.retain(|watch| !Arc::ptr_eq(&watch.set, &self.core));
            });
        }
    }
}
