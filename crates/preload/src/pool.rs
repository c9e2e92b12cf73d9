//! Memory for descriptions, which is used again but never given back.
//!
//! That is what lets [`table::get`](crate::table::get) follow an address without a lock.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::description::{Content, Description};
use crate::inside;
use crate::lock::lock;
use crate::table::{self, Held};

/// Descriptions, by what they are.
struct Pool {
    /// Those that stand for nothing.
    free: Vec<&'static Description>,
    all: Vec<&'static Description>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    all: Vec::new(),
});

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

/// Keeps other threads from the lists, for the time of a fork.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Pool>);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&POOL))
}

/// In the child of a fork, whose only thread holds nothing: what the calls of other threads held they
/// hold in the parent alone. Otherwise what such a call was made on could never end here.
pub fn forget_other_calls() {
    let mut named: Vec<usize> = table::addresses().collect();
    named.sort_unstable();
    let all = lock(&POOL).all.clone();
    for description in all {
        let counted = description.references.0.load(Ordering::Relaxed);
        if counted == 0 {
            continue;
        }
        let address = core::ptr::from_ref(description) as usize;
        let from = named.partition_point(|other| *other < address);
        let until = named.partition_point(|other| *other <= address);
        let numbers = (until - from) as u32;
        // A page that is not written to stays the parent's.
        if numbers != counted {
            description
                .references
                .0
                .store(numbers.max(1), Ordering::Relaxed);
        }
        if numbers == 0 {
            // It was about to be given a number, or has just lost its last.
            drop(Held::from_counted(description));
        }
    }
}

/// A new description of `content`, held once.
pub fn make(content: Content) -> Held {
    // A handler would wait for the lock.
    inside::enter();
    let free = lock(&POOL).free.pop();
    let description = match free {
        Some(description) => {
            // SAFETY: it has no holder, and came off the free list, so nobody else refers to its
            // content; `try_acquire` fails until the store below.
            unsafe { description.set_content(content) };
            description.references.0.store(1, Ordering::Release);
            description
        }
        None => {
            let description = Description::new(References::one(), content);
            let description: &Description = Box::leak(Box::new(description));
            lock(&POOL).all.push(description);
            description
        }
    };
    let held = Held::from_counted(description);
    inside::leave();
    held
}

/// The last holder of `description` is gone: ends what it stood for and keeps its memory.
pub fn recycle(description: &'static Description) {
    // SAFETY: the count is 0, and nobody raises it from there but `make`, which finds the
    // description only after it is on the free list below.
    drop(unsafe { description.take_content() });
    lock(&POOL).free.push(description);
}
