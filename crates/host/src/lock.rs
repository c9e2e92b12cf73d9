//! Locking without poison: a panic in one thread of the program must not turn into a panic in every
//! other thread that touches the same socket.
//!
//! The order in which locks are taken, outermost first: the pump, a socket or listener, then the
//! leaves (submissions, send pool, a ready set, the list of sleepers), of which only one is held at
//! a time.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks, waiting while another thread holds the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks if nobody holds the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
