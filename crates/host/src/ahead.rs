//! Forks that are about to happen.
//!
//! A fork waits until nobody waits for the engine in such a way that a child would suffer from it. Where one thread after
//! the other does, or one for very long, that might be never. So whoever does looks here, and lets a fork go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::clock::pause;

/// How often one looks who lets a fork go first.
const LOOKS: Duration = Duration::from_millis(1);

/// How many threads of a session are about to fork.
#[derive(Default)]
pub(crate) struct Forks(AtomicU32);

/// A fork is about to happen while this is there.
#[must_use]
pub struct Ahead(Arc<Forks>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Forks {
    /// The calling thread is about to fork.
    pub(crate) fn one_more(self: &Arc<Self>) -> Ahead {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ahead(Arc::clone(self))
    }

    /// Whether one is about to happen.
    pub(crate) fn are_ahead(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Waits until none is, for at most `limit`. With no lock held.
    pub(crate) fn let_pass(&self, limit: Duration) {
        let begin = Instant::now();
        while self.are_ahead() && begin.elapsed() < limit {
            pause(LOOKS);
        }
    }

    /// This process is the child of one: the others are its parent's.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
