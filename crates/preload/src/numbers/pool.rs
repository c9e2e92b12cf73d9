//! Memory for descriptions, which is used again but never given back.
//!
//! That is what lets [`table::get`](crate::numbers::table::get) follow an address without a lock.

use std::sync::{Mutex, MutexGuard};

use crate::kernel::lock::lock;
use crate::numbers::description::{Content, Description};

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

/// Keeps other threads from the lists, for the time of a fork.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Pool>);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&POOL))
}

/// Every description that there is, whether or not it stands for anything.
pub fn all() -> Vec<&'static Description> {
    lock(&POOL).all.clone()
}

/// A new description of `content`, counted once.
pub fn make(content: Content) -> &'static Description {
    let free = lock(&POOL).free.pop();
    match free {
        Some(description) => {
            // SAFETY: it has no holder, and came off the free list, so nobody else refers to its
            // content; `try_acquire` fails until the store below.
            unsafe { description.set_content(content) };
            description.references.begin_again();
            description
        }
        None => {
            let description: &Description = Box::leak(Box::new(Description::new(content)));
            lock(&POOL).all.push(description);
            description
        }
    }
}

/// The last holder of `description` is gone: ends what it stood for and keeps its memory.
pub fn recycle(description: &'static Description) {
    // SAFETY: the count is 0, and nobody raises it from there but `make`, which finds the
    // description only after it is on the free list below.
    drop(unsafe { description.take_content() });
    lock(&POOL).free.push(description);
}
