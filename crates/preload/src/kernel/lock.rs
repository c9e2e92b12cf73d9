//! Locks that a panic elsewhere does not spoil, and that a fork does not leave held.

use core::ops::{Deref, DerefMut};
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

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

/// Gives `cell` its value, unless it has one. A fork waits meanwhile: in its child nobody would ever come to the end of that.
///
/// # Errors
/// The value, if there was one before.
pub fn set_once<T>(cell: &OnceLock<T>, value: T) -> Result<(), T> {
    let _holds = HOLDERS.read().unwrap_or_else(PoisonError::into_inner);
    cell.set(value)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_value_is_not_half_given_at_a_fork() {
        let cell = OnceLock::new();
        let fork = quiet();
        std::thread::scope(|scope| {
            let (tells, told) = channel();
            let cell = &cell;
            let gives = scope.spawn(move || {
                let _ = tells.send(rustix::thread::gettid());
                set_once(cell, 1)
            });
            let thread = told.recv().unwrap();
            let state = || std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
            while !state().unwrap_or_default().contains(") S ") {
                assert!(!gives.is_finished(), "it has not waited");
            }
            assert_eq!(cell.get(), None);
            drop(fork);
            assert_eq!(gives.join().unwrap(), Ok(()));
        });
        assert_eq!(set_once(&cell, 2), Err(2));
        assert_eq!(cell.get(), Some(&1));
    }
}
