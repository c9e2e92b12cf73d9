//! Memory for descriptions, which is used again but never given back.
//!
//! That is what lets [`table::get`](crate::table::get) follow an address without a lock.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::description::{Content, Description};
use crate::lock::lock;
use crate::table::Held;

static FREE: Mutex<Vec<&'static Description>> = Mutex::new(Vec::new());

/// How many hold a description: the numbers in the table, and the calls under way.
pub struct References(AtomicU32);

impl References {
    /// Counted once, for the one who makes the description.
    const fn one() -> Self {
        Self(AtomicU32::new(1))
    }

    /// One more; the caller holds one already.
    pub fn acquire(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One more, unless nobody holds any.
    #[inline(always)]
    pub fn try_acquire(&self) -> bool {
        // Acquire: pairs with the Release that made a recycled description anew.
        self.0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| {
                (count != 0).then_some(count + 1)
            })
            .is_ok()
    }

    /// Whether there are at most `count` holders.
    pub fn are_last(&self, count: u32) -> bool {
        self.0.load(Ordering::Relaxed) <= count
    }

    /// One less; true for the last.
    #[inline(always)]
    pub fn release(&self) -> bool {
        // Release, then Acquire on the last: what others did with it happened before its end.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        core::sync::atomic::fence(Ordering::Acquire);
        true
    }
}

/// Keeps other threads from the free list, for the time of a fork.
pub struct Quiet(
    #[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Vec<&'static Description>>,
);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&FREE))
}

/// A new description of `content`, held once.
pub fn make(content: Content) -> Held {
    let free = lock(&FREE).pop();
    let description = match free {
        Some(description) => {
            // SAFETY: it has no holder, and came off the free list, so nobody else refers to its
            // content; `try_acquire` fails until the store below.
            unsafe { description.set_content(content) };
            description.references.0.store(1, Ordering::Release);
            description
        }
        None => Box::leak(Box::new(Description::new(References::one(), content))),
    };
    Held::from_counted(description)
}

/// The last holder of `description` is gone: ends what it stood for and keeps its memory.
pub fn recycle(description: &'static Description) {
    // SAFETY: the count is 0, and nobody raises it from there but `make`, which finds the
    // description only after it is on the free list below.
    drop(unsafe { description.take_content() });
    lock(&FREE).push(description);
}
