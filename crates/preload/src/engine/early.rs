//! What was to be said before there is a session that says it.

use std::sync::{Mutex, MutexGuard};

use crate::kernel::lock::lock;

/// Lines about calls.
static EARLY: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Those lines, as long as nobody else has them.
pub type Early = MutexGuard<'static, Vec<&'static str>>;

/// Waits until nobody else has them.
pub fn lines() -> Early {
    lock(&EARLY)
}
