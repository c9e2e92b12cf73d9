//! Whether the process has a filter of system calls (seccomp).
//!
//! Such a filter may end the process for a call that its program does not make itself, or refuse it. So from then on
//! nothing is made or asked that can be gone without.

use core::sync::atomic::{AtomicBool, Ordering};

static FILTERED: AtomicBool = AtomicBool::new(false);

/// The process puts itself under a filter of system calls.
pub fn begins() {
    FILTERED.store(true, Ordering::Relaxed);
}

/// Whether it has, or is about to.
pub fn is_there() -> bool {
    FILTERED.load(Ordering::Relaxed)
}
