//! The process's names for its descriptors. Its threads share them, a child inherits them.

use differ::program::Slot;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

static SLOTS: Mutex<BTreeMap<Slot, i32>> = Mutex::new(BTreeMap::new());

/// Never held during a call under test, so never while the process forks.
fn with<R>(work: impl FnOnce(&mut BTreeMap<Slot, i32>) -> R) -> R {
    work(&mut SLOTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The descriptor of that name.
pub fn get(slot: Slot) -> Option<i32> {
    with(|slots| slots.get(&slot).copied())
}

/// Names a descriptor. Other names of the same number are forgotten: it is another descriptor.
pub fn set(slot: Slot, number: i32) {
    with(|slots| {
        slots.retain(|_, held| *held != number);
        slots.insert(slot, number);
    });
}

/// Forgets a name.
pub fn forget(slot: Slot) {
    with(|slots| slots.remove(&slot));
}

/// All names.
pub fn all() -> BTreeMap<Slot, i32> {
    with(|slots| slots.clone())
}

/// Takes over the names of the program before an exec.
pub fn set_all(held: BTreeMap<Slot, i32>) {
    with(|slots| *slots = held);
}
