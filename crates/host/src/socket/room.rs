//! Who waits for room to send into, as far as the program says so.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::readiness::Readiness;

/// What acknowledgements bring, which the engine reports in its own time.
pub(super) const NEWS: Readiness =
    Readiness(Readiness::OUT.0 | Readiness::WRNORM.0 | Readiness::ACKED.0);

/// Who waits for room. Changed under the lock on the state.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The program says whether it waits, by `Socket::waits_for_room`. Otherwise whoever finds none waits for it, and
    /// hears of it as programs hear of sockets.
    is_said: AtomicBool,
    /// It has said that it does.
    is_awaited: AtomicBool,
}

impl Room {
    /// Whether somebody waits for room, of a socket that is `ready` for this.
    pub(super) fn is_awaited(&self, ready: Readiness) -> bool {
        match self.is_said.load(Ordering::Relaxed) {
            false => !ready.intersects(Readiness::OUT),
            true => self.is_awaited.load(Ordering::Relaxed),
        }
    }

    /// The program says whether it waits. Returns whether that is news.
    pub(super) fn say(&self, waits: bool) -> bool {
        let said = self.is_said.swap(true, Ordering::Relaxed);
        let before = self.is_awaited.swap(waits, Ordering::Relaxed);
        !said || before != waits
    }

    /// Whether the engine need not be rung for what is sent with `more` to follow: a program that says when it
    /// waits for room comes by before it sleeps. Others may do whatever they like between two calls.
    pub(super) fn is_followed(&self, more: bool) -> bool {
        more && self.is_said.load(Ordering::Relaxed)
    }
}
