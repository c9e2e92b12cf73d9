//! Locks that a panic elsewhere does not spoil, and that a fork does not leave held.

use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks `mutex`. What it guards is whole after every statement that changes it, so a panic in
/// another thread leaves nothing half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever holds any [`Small`] lock reads this.
static HOLDERS: RwLock<()> = RwLock::new(());

/// A lock of which each socket has its own: too many to be taken one by one at a fork, which keeps away from all of them
/// by one. It is the innermost: who holds one takes no other lock of this library.
#[derive(Default)]
pub struct Small<T>(Mutex<T>);

/// One that is held.
pub struct SmallGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _holds: RwLockReadGuard<'static, ()>,
}

/// Nobody holds any [`Small`] lock while this is there.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] RwLockWriteGuard<'static, ()>);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(HOLDERS.write().unwrap_or_else(PoisonError::into_inner))
}

impl<T> Small<T> {
    /// Around a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits while another thread holds it, or one forks.
    pub fn lock(&self) -> SmallGuard<'_, T> {
        let holds = HOLDERS.read().unwrap_or_else(PoisonError::into_inner);
        SmallGuard {
            guard: lock(&self.0),
            _holds: holds,
        }
    }
}

impl<T> Deref for SmallGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for SmallGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
