//! The sets inside a set, whose numbers the kernel asks.
//!
//! An inner set's number is readable while its bell is rung, and whoever takes the news in silences the bell. What
//! is level-triggered and was read in part is no news any more, but the outer set is to tell of it again; and of
//! what was read to the end without a wait it is to tell no more. So who waits in the outer set, or asks for it by
//! its number, first sets the bells of those inside right. Those that are watched edge-triggered stay as they are: what
//! was told of once is not told of again.
//!
//! Where nobody rings for an inner set (the engine has no more bells to give, or is away), who sleeps for it looks
//! after a while himself. Its sleep by its number is the outer set's, and so that one does.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::kernel::lock::lock;

/// See the [module](self).
pub struct Inside<S> {
    any: AtomicBool,
    sets: Mutex<List<S>>,
}

/// Keeps other threads from the list.
pub struct Guard<'a, S>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, List<S>>);

/// By number.
type List<S> = Vec<(c_int, One<Weak<S>>)>;

/// A set inside another.
pub struct One<S> {
    pub set: S,
    /// It is watched level-triggered.
    pub is_level: bool,
}

impl<S> Default for Inside<S> {
    fn default() -> Self {
        Self {
            any: AtomicBool::default(),
            sets: Mutex::default(),
        }
    }
}

impl<S> Inside<S> {
    /// Whether there may be one.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The set behind `number` is put inside.
    pub fn add(&self, number: c_int, set: &Arc<S>, is_level: bool) {
        let mut sets = lock(&self.sets);
        sets.retain(|(other, one)| *other != number && one.set.strong_count() > 0);
        let set = Arc::downgrade(set);
        sets.push((number, One { set, is_level }));
        self.any.store(true, Ordering::Relaxed);
    }

    /// It is taken out.
    pub fn remove(&self, number: c_int) {
        let mut sets = lock(&self.sets);
        sets.retain(|(other, _)| *other != number);
        self.any.store(!sets.is_empty(), Ordering::Relaxed);
    }

    /// Keeps other threads from it.
    pub fn guard(&self) -> Guard<'_, S> {
        Guard(lock(&self.sets))
    }

    /// Those that are there.
    pub fn sets(&self) -> Vec<One<Arc<S>>> {
        if !self.any() {
            return Vec::new();
        }
        let sets = lock(&self.sets);
        let there = sets.iter().filter_map(|(_, one)| {
            let (set, is_level) = (one.set.upgrade()?, one.is_level);
            Some(One { set, is_level })
        });
        there.collect()
    }
}
