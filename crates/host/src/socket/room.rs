//! Whether anybody waits for room to send into. Where nobody does, the engine wakes no thread of this process
//! for what the peer has acknowledged ([`queue_pair::parked`]).

use std::sync::atomic::{AtomicBool, Ordering};

use super::Socket;
use crate::lock::lock;
use crate::readiness::Readiness;

/// Who waits for room, and what the engine was told of that. Changed under the lock on the state.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The program says whether it waits: [`Socket::waits_for_room`]. Otherwise whoever finds none waits for it,
    /// and hears of it as programs hear of sockets.
    is_said: AtomicBool,
    /// It has said that it does.
    is_awaited: AtomicBool,
    /// The engine was told that nobody does.
    is_calm: AtomicBool,
}

impl Room {
    /// Whether nobody waits for room, if the engine knows it otherwise: it is to be told. `marked`: the program
    /// waits for what acknowledgements bring otherwise.
    pub(super) fn turns(&self, ready: Readiness, marked: bool) -> Option<bool> {
        let for_room = match self.is_said.load(Ordering::Relaxed) {
            false => !ready.intersects(Readiness::OUT),
            true => self.is_awaited.load(Ordering::Relaxed),
        };
        let calm = !for_room && !marked;
        (self.is_calm.swap(calm, Ordering::Relaxed) != calm).then_some(calm)
    }

    /// The connection has another name now, of which nothing was said.
    pub(super) fn forget(&self) {
        self.is_calm.store(false, Ordering::Relaxed);
    }

    /// Whether the engine need not be rung for what is sent with `more` to follow: a program that says when it
    /// waits for room comes by before it sleeps. Others may do whatever they like between two calls.
    pub(super) fn is_followed(&self, more: bool) -> bool {
        more && self.is_said.load(Ordering::Relaxed)
    }
}

impl Socket {
    /// Says whether the program waits for room to send into, and from then on only what it says counts: while it
    /// does not, nobody is told when there is room again. Look for room after having said that it does.
    /// Such a program waits by a [`Poller`](crate::Poller) before it sleeps otherwise: what it sends with more to
    /// follow leaves with that, or then.
    pub fn waits_for_room(&self, waits: bool) {
        let state = lock(&self.core.state);
        let room = &self.core.room;
        let said = room.is_said.swap(true, Ordering::Relaxed);
        let before = room.is_awaited.swap(waits, Ordering::Relaxed);
        if !said || before != waits {
            self.core.refresh(&state);
        }
    }
}
