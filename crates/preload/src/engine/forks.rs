//! Whether this process has forked, and how many forks lie behind it.
//!
//! What happens at a fork is in [`fork`](crate::calls::fork).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static HAPPENED: AtomicBool = AtomicBool::new(false);

/// How many forks lie behind this process: a sleeper from before one is the parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Before a fork.
pub fn happens() {
    HAPPENED.store(true, Ordering::Relaxed);
}

/// Whether this process, or one that it came from, has forked: another process may have its
/// connections too.
pub fn happened() -> bool {
    HAPPENED.load(Ordering::Relaxed)
}

/// In the child of a fork.
pub fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie behind this process.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
