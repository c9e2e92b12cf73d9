//! Forks that are about to happen.
//!
//! A fork waits until nobody waits for the engine in such a way that a child would suffer from it. Where one thread after
//! the other does, or one for very long, that might be never. So whoever does looks here, and lets a fork go first.
//!
//! He may hold locks of his caller's, for which the fork waits in its turn. So he lets it go first for as long as it
//! waits for the engine, which has an end, and then for a moment only.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::clock::pause;

/// How often one looks who lets a fork go first.
const LOOKS: Duration = Duration::from_millis(1);

/// For how long one lets a fork go first that does not wait for the engine.
const MOMENT: Duration = Duration::from_secs(1);

thread_local! {
    /// How often the thread itself is about to fork.
    static FORKS: Cell<u32> = const { Cell::new(0) };
}

/// How many threads of a session are about to fork.
#[derive(Default)]
pub(crate) struct Forks {
    ahead: AtomicU32,
    /// Those of them that wait for the engine.
    waiting: AtomicU32,
}

/// A fork by the calling thread is about to happen while this is there.
#[must_use]
pub struct Ahead {
    forks: Arc<Forks>,
    /// It stays in its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        one_less(&self.forks.ahead);
        FORKS.set(FORKS.get().saturating_sub(1));
    }
}

/// One that is about to happen waits for the engine while this is there.
pub(crate) struct Waiting<'a>(&'a Forks);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        one_less(&self.0.waiting);
    }
}

/// It may have been [forgotten](Forks::forget).
fn one_less(count: &AtomicU32) {
    let less = |count: u32| count.checked_sub(1);
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Whether the calling thread is about to fork.
pub(crate) fn is_forks_own_thread() -> bool {
    FORKS.get() > 0
}

impl Forks {
    /// The calling thread is about to fork.
    pub(crate) fn one_more(self: &Arc<Self>) -> Ahead {
        self.ahead.fetch_add(1, Ordering::Relaxed);
        FORKS.set(FORKS.get() + 1);
        Ahead {
            forks: Arc::clone(self),
            thread: PhantomData,
        }
    }

    /// One that is about to happen waits for the engine, which must have an end.
    pub(crate) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether one is about to happen.
    pub(crate) fn are_ahead(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) > 0
    }

    /// Waits until none is, or `is_enough`, for at most `limit`; and no longer than a moment for one that does not wait
    /// for the engine itself, since that may wait for what the caller's callers have locked. False: it does still.
    pub(crate) fn let_pass(&self, limit: Duration, is_enough: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        let mut waited = begin;
        while self.are_ahead() && !is_enough() {
            if self.waiting.load(Ordering::Relaxed) > 0 {
                waited = Instant::now();
            }
            if begin.elapsed() >= limit || waited.elapsed() >= MOMENT {
                return false;
            }
            pause(LOOKS);
        }
        true
    }

    /// This process is the child of one: the others are its parent's.
    pub(crate) fn forget(&self) {
        self.ahead.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
    }
}
