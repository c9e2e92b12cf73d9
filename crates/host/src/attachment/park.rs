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

use queue_pair::parked::{self, Found, News, Wants};
use queue_pair::room::{self, Awaits};
use rustix::io::Errno;

use super::Attachment;
use super::connection::Connection;
use crate::around::sleeps;
use crate::lock::lock;
use crate::locks::Locks;

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
    /// Others wait for news of it, who sleep by bells: whoever is woken here tells them.
    for_others: bool,
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
            Self {
                all: 0, urgent: 0, ..
            } => Wants::Nothing,
            Self {
                all: 0,
                for_others: false,
                ..
            } => Wants::Urgent,
            _ => Wants::All,
        }
    }
}

impl Parked {
    /// Takes the lock, for a fork.
    pub(super) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.places);
    }
}

/// A thread's place among those who sleep by a word.
pub(crate) struct Spot<C: Connection<Attachment<C>>> {
    attachment: Arc<Attachment<C>>,
    place: u32,
    wants: Wants,
}

impl<C: Connection<Attachment<C>>> Spot<C> {
    /// That of a thread that is parked.
    pub(crate) fn of(attachment: &Arc<Attachment<C>>, parking: &Parking) -> Self {
        Self {
            attachment: Arc::clone(attachment),
            place: parking.place,
            wants: parking.wants,
        }
    }

    /// It does not sleep there any more.
    pub(crate) fn leave(&self) {
        self.attachment.leave_spot(self.place, self.wants);
    }
}

/// A thread that is parked.
pub(crate) struct Parking {
    place: u32,
    wants: Wants,
}

/// A thread that keeps watch, until this is dropped.
pub(crate) struct Watch<C: Connection<Attachment<C>>>(Arc<Attachment<C>>);

impl<C: Connection<Attachment<C>>> Watch<C> {
    pub(crate) fn begin(attachment: &Arc<Attachment<C>>) -> Self {
        attachment.parked.watching.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(attachment))
    }
}

impl<C: Connection<Attachment<C>>> Drop for Watch<C> {
    fn drop(&mut self) {
        let before = self.0.parked.watching.fetch_sub(1, Ordering::SeqCst);
        if before == 1 {
            // Partner: the fence in `park`. Either that one finds that nobody watches, or we find it.
            fence(Ordering::SeqCst);
            self.0.wake_one_parked();
        }
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Whether somebody keeps watch, by whom others can sleep by words: a hint.
    pub(crate) fn is_watched(&self) -> bool {
        self.parked.watching.load(Ordering::SeqCst) > 0
    }

    /// The thread is about to sleep on the connection at `place`: tells the engine what it still has to
    /// know, asks to be woken, and takes in what the engine has said. `None`: it must sleep by a bell,
    /// because nobody keeps watch, or others were woken there who are not awake yet.
    pub(crate) fn park(self: &Arc<Self>, place: u32, wants: Wants) -> Option<Parking> {
        if self.is_parents() {
            return None;
        }
        let word = self.positions.sleeper(place)?;
        self.tell_core();
        self.announce_owed();
        {
            let mut places = lock(&self.parked.places);
            let threads = places.entry(place).or_default();
            let is_first = threads.want() == Wants::Nothing;
            *threads.count(wants) += 1;
            // Partners: the fence of the engine, and that in `Watch::drop`.
            if is_first {
                parked::set(word, wants);
            } else if !parked::set_beside_others(word, threads.want()) {
                *threads.count(wants) -= 1;
                return None;
            }
        }
        let parking = Parking { place, wants };
        if self.is_watched() && self.take_in() {
            return Some(parking);
        }
        self.unpark(&parking, false);
        None
    }

    /// Whether the engine knows words that say for how much room those wait who sleep by them.
    pub(crate) fn sleepers_say(&self) -> bool {
        self.speaks(room::SLEEPERS_SAY_SINCE)
    }

    /// Whoever is parked there is woken for all news from now on: others wait for some, and the engine wakes
    /// those who are parked alone. What it has said before is taken in.
    pub(crate) fn park_for_all(self: &Arc<Self>, place: u32) {
        if self.is_parents() {
            return;
        }
        {
            let mut places = lock(&self.parked.places);
            let Some(threads) = places.get_mut(&place) else {
                return;
            };
            if threads.want() == Wants::All {
                return;
            }
            threads.for_others = true;
            if let Some(word) = self.positions.sleeper(place) {
                // Where they were woken, they tell.
                let _ = parked::set_beside_others(word, Wants::All);
            }
        }
        self.take_in();
    }

    /// Sleeps, at most `limit`.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    pub(crate) fn sleep_parked(
        &self,
        parking: &Parking,
        limit: Option<Duration>,
    ) -> Result<(), Errno> {
        match self.positions.sleeper(parking.place) {
            Some(word) if !self.is_parents() => parked::sleep_by(word, limit, sleeps().wait),
            _ => Ok(()),
        }
    }

    /// The thread is awake, and `has_left` its spot already if it was interrupted. It takes in what the
    /// engine has said, since the engine may have told nobody else.
    pub(crate) fn unpark(self: &Arc<Self>, parking: &Parking, has_left: bool) {
        if !has_left {
            self.leave_spot(parking.place, parking.wants);
        }
        if !self.is_parents() {
            self.take_in();
        }
    }

    fn leave_spot(&self, place: u32, wants: Wants) {
        if self.is_parents() {
            return;
        }
        let mut places = lock(&self.parked.places);
        let Some(threads) = places.get_mut(&place) else {
            return;
        };
        let count = threads.count(wants);
        *count = count.saturating_sub(1);
        let left = threads.want();
        if left == Wants::Nothing {
            places.remove(&place);
        }
        match self.positions.sleeper(place) {
            Some(word) if left == Wants::Nothing => parked::set(word, left),
            // For how much room anybody waits does not follow from who sleeps by the word.
            Some(word) if !self.sleepers_say() => parked::leave_to_others(word, left),
            _ => {}
        }
    }

    /// Says for how much room of the connection at `place` somebody waits, who sleeps by its word only if the engine
    /// [knows](Self::sleepers_say) such words: the engine wakes nobody for less. True: there may be some that the engine
    /// has told nobody of. Called under the lock under which that changes: so what the word says is never behind it.
    #[must_use = "somebody has to look for it"]
    pub(crate) fn awaits_room(&self, place: u32, awaits: Awaits) -> bool {
        let Some(word) = self.positions.sleeper(place).filter(|_| !self.is_parents()) else {
            return false;
        };
        let is_more = match self.sleepers_say() {
            true => room::say(word, awaits),
            false => room::say_if_awake(word, awaits),
        };
        // Whoever takes news in may have done with it before the last were published.
        is_more && self.news() != Some(false)
    }

    /// Wakes those who sleep on one connection, if any of them waits for room: the engine may not have, for room that
    /// was not said to be waited for. Whoever comes later takes in what it has said.
    pub(crate) fn wake_for_room(&self, place: u32) {
        if self.is_parents() {
            return;
        }
        let waits = |threads: &Threads| threads.all > 0;
        if lock(&self.parked.places).get(&place).is_some_and(waits) {
            self.wake_parked(place);
        }
    }

    /// Wakes those who sleep on one connection.
    pub(crate) fn wake_parked(&self, place: u32) {
        if self.is_parents() {
            return;
        }
        fence(Ordering::SeqCst);
        let Some(word) = self.positions.sleeper(place) else {
            return;
        };
        if !parked::is_asleep(word) || parked::wake(word, News::Urgent, None) != Found::Nobody {
            return;
        }
        // Who slept was awake by then, and for a moment the word said that he was woken: what the engine has published
        // in that moment it has told nobody of. Partner: its fence before it looks at the word.
        fence(Ordering::SeqCst);
        if self.news() != Some(false) {
            self.nudges.nudge_all();
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
        if !self.is_parents() && !self.is_watched() {
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
