//! Threads that wait in a set before anything of the engine's is in it.
//!
//! They sleep in the kernel's `epoll_wait` with nothing of ours beside it. When another thread then
//! puts a socket of the engine's into the set, they have to be woken, or they would sleep on
//! whatever comes.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::engine::forks::generation;
use crate::thread::counted::Counts;

/// How many there are. Those from before a fork are the parent's.
#[derive(Default)]
pub struct Unaware(AtomicU64);

impl Unaware {
    /// The caller is about to wait in the kernel alone; it must look once more whether there is a
    /// part of ours by now.
    pub fn enter(&self) {
        self.change(|count| count.saturating_add(1));
        // Partner: the fence in `any`. Either that one sees that we wait, or we see what it made.
        fence(Ordering::SeqCst);
    }

    /// It waits no more.
    pub fn leave(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    /// Whether any must be woken; to be asked after the part of ours was made.
    pub fn any(&self) -> bool {
        // Partner: the fence in `enter`.
        fence(Ordering::SeqCst);
        count(self.0.load(Ordering::Relaxed)) > 0
    }

    fn change(&self, count_after: impl Fn(u32) -> u32) {
        let change = |word| Some(pack(count_after(count(word))));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

impl Counts for Unaware {
    fn enter(&self) {
        self.enter();
    }

    fn leave(&self) {
        self.leave();
    }
}

fn pack(count: u32) -> u64 {
    u64::from(generation()) << 32 | u64::from(count)
}

fn count(word: u64) -> u32 {
    if (word >> 32) as u32 == generation() {
        word as u32
    } else {
        0
    }
}
