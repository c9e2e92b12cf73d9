//! Threads that sleep each on its own connection ([`queue_pair::parked`]).
//!
//! The engine wakes such a thread and no other. What it cannot wake is the threads of a process whose
//! engine has died; that is noticed by whoever sleeps by a bell, which closes. So one thread of a
//! process keeps *watch* by its bell, while others are parked; when it goes, it wakes one of them, which
//! takes the watch over. Whoever was parked and goes sees to that as well: it may be the one that was
//! woken for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_pair::parked::{self, Wants};
use rustix::io::Errno;

use super::Attachment;
use crate::around::sleeps;
use crate::lock::lock;
use crate::quiet::Locks;
use crate::session::SessionCore;

/// Who is parked, and who keeps watch.
#[derive(Default)]
pub(super) struct Parked {
    /// The threads, by the place of the connection.
    places: Mutex<HashMap<u32, Threads>>,
    watching: AtomicUsize,
}

/// Those who sleep on one connection.
#[derive(Clone, Copy, Default)]
struct Threads {
    /// For whatever news there is.
    all: u32,
    /// For urgent ones alone.
    urgent: u32,
}

impl Threads {
    fn count(&mut self, wants: Wants) -> &mut u32 {
        match wants {
            Wants::All => &mut self.all,
            Wants::Urgent | Wants::Nothing => &mut self.urgent,
        }
    }

    fn want(self) -> Wants {
        match self {
            Self { all: 1.., .. } => Wants::All,
            Self { urgent: 1.., .. } => Wants::Urgent,
            _ => Wants::Nothing,
        }
    }
}

impl Parked {
    /// Takes the lock, for a fork.
    pub(super) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.places);
    }
}

/// A thread that keeps watch, until this is dropped.
pub(crate) struct Watch(Arc<Attachment>);

impl Watch {
    pub(crate) fn begin(attachment: &Arc<Attachment>) -> Self {
        attachment.parked.watching.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(attachment))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let before = self.0.parked.watching.fetch_sub(1, Ordering::SeqCst);
        if before == 1 {
            // Partner: the fence in `park`. Either that one finds that nobody watches, or we find it.
            fence(Ordering::SeqCst);
            self.0.wake_one_parked();
        }
    }
}

impl Attachment {
    /// The thread is about to sleep on the connection at `place`: tells the engine what it still has to
    /// know, asks to be woken, and takes in what the engine has said. False: it must sleep by a bell,
    /// because nobody keeps watch.
    pub(crate) fn park(
        self: &Arc<Self>,
        place: u32,
        wants: Wants,
        session: &Arc<SessionCore>,
    ) -> bool {
        if self.is_parents() {
            return false;
        }
        let Some(word) = self.positions.sleeper(place) else {
            return false;
        };
        self.tell_core();
        self.announce_owed();
        {
            let mut places = lock(&self.parked.places);
            let threads = places.entry(place).or_default();
            *threads.count(wants) += 1;
            // Partners: the fence of the engine, and that in `Watch::drop`.
            parked::set(word, threads.want());
        }
        if self.parked.watching.load(Ordering::SeqCst) > 0 && self.take_in(session) {
            return true;
        }
        self.unpark(place, wants, session);
        false
    }

    /// Sleeps, at most `limit`.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    pub(crate) fn sleep_parked(&self, place: u32, limit: Option<Duration>) -> Result<(), Errno> {
        match self.positions.sleeper(place) {
            Some(word) if !self.is_parents() => parked::sleep_by(word, limit, sleeps().wait),
            _ => Ok(()),
        }
    }

    /// The thread is awake. It takes in what the engine has said, since the engine may have told nobody
    /// else.
    pub(crate) fn unpark(self: &Arc<Self>, place: u32, wants: Wants, session: &Arc<SessionCore>) {
        if self.is_parents() {
            return;
        }
        {
            let mut places = lock(&self.parked.places);
            let mut threads = places.get(&place).copied().unwrap_or_default();
            let count = threads.count(wants);
            *count = count.saturating_sub(1);
            if threads.want() == Wants::Nothing {
                places.remove(&place);
            } else {
                places.insert(place, threads);
            }
            if let Some(word) = self.positions.sleeper(place) {
                parked::set(word, threads.want());
            }
        }
        self.take_in(session);
    }

    /// Wakes those who sleep on one connection.
    pub(crate) fn wake_parked(&self, place: u32) {
        if self.is_parents() {
            return;
        }
        fence(Ordering::SeqCst);
        if let Some(word) = self.positions.sleeper(place) {
            parked::wake(word, true);
        }
    }

    /// Wakes all who are parked.
    pub(crate) fn wake_all_parked(&self) {
        let places: Vec<u32> = lock(&self.parked.places).keys().copied().collect();
        places.into_iter().for_each(|place| self.wake_parked(place));
    }

    /// The thread was parked and goes. It may have been woken to keep watch, and has found what it waited
    /// for: then another has to.
    pub(crate) fn pass_watch_on(&self) {
        // Either who gave the watch up finds that this thread is not parked any more, or this thread
        // finds that nobody watches. The lock on the places has ordered them.
        if !self.is_parents() && self.parked.watching.load(Ordering::SeqCst) == 0 {
            self.wake_one_parked();
        }
    }

    fn wake_one_parked(&self) {
        let place = lock(&self.parked.places).keys().next().copied();
        if let Some(place) = place {
            self.wake_parked(place);
        }
    }
}
