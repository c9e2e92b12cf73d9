//! Connections that were set aside because they stand still: few, by the step of their place.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::super::body::NumberHasher;
use super::Slot;

/// Most of them.
pub(super) const MOST: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Entry {
    step: u64,
    connection: u64,
    slot: Slot,
}

/// The table.
#[derive(Debug)]
pub(super) struct Aside {
    entries: Vec<Entry>,
    /// Where the entry of a step is.
    by_step: HashMap<u64, u32, BuildHasherDefault<NumberHasher>>,
}

impl Aside {
    /// Bytes that it takes at most, about: the map has an eighth of its room free, or more.
    pub(super) const MEMORY: usize = MOST * (size_of::<Entry>() + 2 * size_of::<(u64, u32)>());

    pub(super) fn new() -> Self {
        Self {
            entries: Vec::with_capacity(MOST),
            by_step: HashMap::with_capacity_and_hasher(MOST, BuildHasherDefault::default()),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The connection at a step.
    pub(super) fn find(&self, step: u64) -> Option<u64> {
        let at = *self.by_step.get(&step)?;
        Some(self.entries[at as usize].connection)
    }

    /// The connection at a position, below [`len`](Self::len).
    pub(super) fn at(&self, position: usize) -> Option<u64> {
        self.entries.get(position).map(|entry| entry.connection)
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().map(|entry| entry.connection)
    }

    pub(super) fn slot(&self, step: u64) -> Option<&Slot> {
        let at = *self.by_step.get(&step)?;
        Some(&self.entries[at as usize].slot)
    }

    pub(super) fn slot_mut(&mut self, step: u64) -> Option<&mut Slot> {
        let at = *self.by_step.get(&step)?;
        Some(&mut self.entries[at as usize].slot)
    }

    /// `false` if there is no room.
    pub(super) fn insert(&mut self, step: u64, connection: u64, slot: Slot) -> bool {
        if self.entries.len() >= MOST {
            return false;
        }
        self.by_step.insert(step, self.entries.len() as u32);
        self.entries.push(Entry {
            step,
            connection,
            slot,
        });
        true
    }

    pub(super) fn remove(&mut self, step: u64) {
        let Some(at) = self.by_step.remove(&step) else {
            return;
        };
        self.entries.swap_remove(at as usize);
        if let Some(moved) = self.entries.get(at as usize) {
            self.by_step.insert(moved.step, at);
        }
    }
}
