//! Numbers that are ours, and stay what they are for a moment.
//!
//! A ticket takes the place of a connection under its number ([`departing`](crate::calls::departing)), which another
//! thread may close meanwhile: then the number may be a file of the program's at once, which the ticket would replace.
//! So whoever puts one there looks first whether the number still is what it was, and until it is done nobody gives up
//! a number that was ours. To give one up waits for nothing else than that.
//!
//! It is taken before the locks of the session, and let go before a description ends.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::thread::inside;

static GATE: RwLock<()> = RwLock::new(());

/// A handler of this thread would wait for it while the gate is held.
struct Inside;

impl Inside {
    fn enter() -> Self {
        inside::enter();
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        inside::leave();
    }
}

/// A number of ours is being given up in the kernel, until this is dropped.
pub struct Leaving {
    _gate: RwLockReadGuard<'static, ()>,
    _inside: Inside,
}

/// See [`Leaving`].
pub fn leaving() -> Leaving {
    let inside = Inside::enter();
    Leaving {
        _gate: GATE.read().unwrap_or_else(PoisonError::into_inner),
        _inside: inside,
    }
}

/// No number that the table has now becomes another file's, until this is dropped.
pub struct Still {
    _gate: RwLockWriteGuard<'static, ()>,
    _inside: Inside,
}

/// See [`Still`]. Also for the time of a fork.
pub fn still() -> Still {
    let inside = Inside::enter();
    Still {
        _gate: GATE.write().unwrap_or_else(PoisonError::into_inner),
        _inside: inside,
    }
}
