//! Connections that this process wanted to read, and for which the engine found no memory of its.
//!
//! Memory comes back as the process reads elsewhere, and nobody is told of that. So who is refused asks again after a
//! while, and until then there is nothing to read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Attachment;
use super::connection::Connection;
use crate::clock::monotonic_ns;
use crate::lock::lock;
use crate::locks::Locks;

/// How long one who was refused waits before he asks again.
const PAUSE: Duration = Duration::from_millis(10);

/// Those who were refused.
pub(super) struct Refused<C> {
    sockets: Mutex<Waiting<C>>,
    /// There are some.
    any: AtomicBool,
    /// Since there are some, who sleeps already has to look sooner than he was told, and does not know it.
    untold: AtomicBool,
}

struct Waiting<C> {
    sockets: Vec<Arc<C>>,
    /// When they may ask again, by CLOCK_MONOTONIC.
    due: u64,
}

impl<C> Default for Refused<C> {
    fn default() -> Self {
        Self {
            sockets: Mutex::new(Waiting {
                sockets: Vec::new(),
                due: 0,
            }),
            any: AtomicBool::new(false),
            untold: AtomicBool::new(false),
        }
    }
}

impl<C> Refused<C> {
    /// Nobody asks any more.
    pub(super) fn end(&self) {
        drop(self.take_all());
    }

    fn take_all(&self) -> Vec<Arc<C>> {
        let mut waiting = lock(&self.sockets);
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut waiting.sockets)
    }

    /// Takes the lock, for a fork.
    pub(super) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.sockets);
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// The engine has refused this one. Who pumps [says so](Self::tell_of_refused) to those who sleep.
    pub(super) fn refuses(&self, socket: &Arc<C>) {
        let mut waiting = lock(&self.refused.sockets);
        if waiting.sockets.is_empty() {
            waiting.due = monotonic_ns() + PAUSE.as_nanos() as u64;
            self.refused.untold.store(true, Ordering::Relaxed);
        }
        if !waiting.sockets.iter().any(|one| Arc::ptr_eq(one, socket)) {
            waiting.sockets.push(Arc::clone(socket));
        }
        self.refused.any.store(true, Ordering::Relaxed);
    }

    /// How long those who sleep by a bell may sleep, since somebody was refused.
    pub(crate) fn was_refused_for(&self) -> Option<Duration> {
        self.refused.any.load(Ordering::Relaxed).then_some(PAUSE)
    }

    /// Whoever sleeps already, and for longer, looks from now on. To be called where the pump is free: who is woken
    /// wants it.
    pub(super) fn tell_of_refused(&self) {
        // Looked at first: it hardly ever is so.
        let untold = &self.refused.untold;
        if untold.load(Ordering::Relaxed) && untold.swap(false, Ordering::Relaxed) {
            self.nudges.nudge_all();
        }
    }

    /// Lets those ask again who have waited.
    pub(super) fn let_refused_ask(&self) {
        let any = self.refused.any.load(Ordering::Relaxed);
        if any && monotonic_ns() >= lock(&self.refused.sockets).due {
            for socket in self.refused.take_all() {
                socket.may_ask_again();
            }
        }
    }
}
