//! Connections that found no send memory, or no room in the ring.
//!
//! One that has memory under way waits until a part of that is acknowledged, as where its send buffer is full: the
//! engine wakes it for that ([`queue_pair::room`]), and for nothing less. Its peer may have stopped reading, and memory
//! comes back by others, of which nobody is told: so while there is such a one, those who sleep by a bell look once in a
//! while whether any has. One that has nothing under way, or found the ring full, is *helpless*: nobody wakes it for
//! what it waits for. As long as there is such a one, whoever goes to sleep sleeps no longer than a moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Attachment;
use super::connection::Connection;
use crate::clock::monotonic_ns;
use crate::lock::lock;
use crate::locks::Locks;

/// How often it is looked whether others have given memory back: about as often as the kernel does it for a sender that
/// finds none.
const LOOKS: Duration = Duration::from_millis(100);

/// Those who starve, and what has come back for them.
pub(super) struct Hunger<C> {
    starved: Mutex<Starved<C>>,
    /// There are some. This and the next are set under the lock on them.
    starving: AtomicBool,
    /// One of them is helpless.
    helpless: AtomicBool,
    /// Send memory has come back since.
    freed: AtomicBool,
}

struct Starved<C> {
    sockets: Vec<Hungry<C>>,
    /// How many of them are helpless.
    helpless: usize,
    /// When they are to look whether others have given memory back, by CLOCK_MONOTONIC.
    due: u64,
}

struct Hungry<C> {
    socket: Arc<C>,
    is_helpless: bool,
}

impl<C> Starved<C> {
    fn find(&self, socket: *const C) -> Option<usize> {
        let is_it = |one: &Hungry<C>| std::ptr::eq(Arc::as_ptr(&one.socket), socket);
        self.sockets.iter().position(is_it)
    }
}

impl<C> Default for Hunger<C> {
    fn default() -> Self {
        Self {
            starved: Mutex::new(Starved {
                sockets: Vec::new(),
                helpless: 0,
                due: 0,
            }),
            starving: AtomicBool::new(false),
            helpless: AtomicBool::new(false),
            freed: AtomicBool::new(false),
        }
    }
}

impl<C> Hunger<C> {
    /// Nobody starves any more: nothing comes of it.
    pub(super) fn end(&self) {
        drop(self.take_all());
    }

    /// They are not listed any more. Whatever becomes of them does so without the lock.
    fn take_all(&self) -> Vec<Hungry<C>> {
        let mut starved = lock(&self.starved);
        starved.helpless = 0;
        let sockets = std::mem::take(&mut starved.sockets);
        self.note(&starved);
        sockets
    }

    /// Takes the lock, for a fork.
    pub(super) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.starved);
    }

    /// Whether nobody is to sleep for long.
    pub(super) fn is_helpless(&self) -> bool {
        self.helpless.load(Ordering::Relaxed)
    }

    /// To be called under the lock, after each change.
    fn note(&self, starved: &Starved<C>) {
        let starving = !starved.sockets.is_empty();
        self.starving.store(starving, Ordering::Relaxed);
        self.helpless.store(starved.helpless > 0, Ordering::Relaxed);
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Notes that `socket` found no send memory or no room in the ring, also if it `was_listed` already; it looks once
    /// more after this. True: from now on whoever sleeps has to look sooner than was said before.
    #[must_use = "who sleeps has to be told"]
    pub(crate) fn starve(&self, socket: &Arc<C>, is_helpless: bool, was_listed: bool) -> bool {
        let mut starved = lock(&self.hunger.starved);
        let before = (!starved.sockets.is_empty(), starved.helpless > 0);
        if was_listed {
            // If it is not there, it is being fed just now.
            let Some(at) = starved.find(Arc::as_ptr(socket)) else {
                return false;
            };
            let was_helpless = std::mem::replace(&mut starved.sockets[at].is_helpless, is_helpless);
            starved.helpless -= usize::from(was_helpless);
        } else {
            if starved.sockets.is_empty() {
                starved.due = monotonic_ns() + LOOKS.as_nanos() as u64;
            }
            let socket = Arc::clone(socket);
            starved.sockets.push(Hungry {
                socket,
                is_helpless,
            });
        }
        starved.helpless += usize::from(is_helpless);
        self.hunger.note(&starved);
        before < (true, starved.helpless > 0)
    }

    /// It is over with this one, if it is listed.
    pub(crate) fn starves_no_more(&self, socket: &C) {
        let mut starved = lock(&self.hunger.starved);
        if let Some(at) = starved.find(socket) {
            let gone = starved.sockets.swap_remove(at);
            starved.helpless -= usize::from(gone.is_helpless);
            self.hunger.note(&starved);
        }
    }

    /// Send memory has come back. Who was listed before he looked in vain for it is not passed over: the lock on the
    /// memory has ordered the two.
    pub(crate) fn freed(&self) {
        if self.hunger.starving.load(Ordering::Relaxed) {
            self.hunger.freed.store(true, Ordering::Release);
        }
    }

    /// How long those who sleep by a bell may sleep, for want of memory. Who sleeps by a word needs no such bound, for
    /// one by a bell keeps watch.
    pub(crate) fn hungers_for(&self) -> Option<Duration> {
        let starving = self.hunger.starving.load(Ordering::Relaxed);
        starving.then_some(LOOKS)
    }

    pub(super) fn feed_starved(&self) {
        if !self.hunger.starving.load(Ordering::Relaxed) || !self.has_food() {
            return;
        }
        for hungry in self.hunger.take_all() {
            hungry.socket.fed();
        }
    }

    /// Whether there is something for them: memory that has come back, for all at once if one is helpless, and now and
    /// then if not; or a ring that is far from full.
    fn has_food(&self) -> bool {
        if self.hunger.is_helpless() {
            return self.hunger.freed.swap(false, Ordering::AcqRel) || self.has_room_for_starved();
        }
        self.hunger.freed.load(Ordering::Relaxed)
            && monotonic_ns() >= lock(&self.hunger.starved).due
            && self.hunger.freed.swap(false, Ordering::AcqRel)
    }
}
