//! Slots for things of one kind, in chunks that never move.
//!
//! Slots are reused last in, first out, while they are still in the cache.

use tables::Chunks;

/// No slot: the end of the list of free ones.
const NONE: u32 = u32::MAX;

struct Slot<T> {
    /// The generation of the occupant, or of the next one.
    generation: u32,
    /// Of a free slot: the one that is filled after it.
    next: u32,
    value: Option<T>,
}

pub(crate) struct Slab<T> {
    slots: Chunks<Slot<T>>,
    /// The slot that is filled next.
    free: u32,
    len: u32,
    /// How often an occupant was looked up to be worked on.
    visits: u64,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Chunks::new(),
            free: NONE,
            len: 0,
            visits: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }

    /// Fills a free slot; returns its index and generation.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index];
        debug_assert!(slot.value.is_none());
        slot.value = Some(value);
        self.free = slot.next;
        let generation = slot.generation;
        self.len += 1;
        (index, generation)
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.slots.len();
        self.slots.grow(|at| Slot {
            generation: 0,
            next: at + 1,
            value: None,
        });
        let last = self.slots.len() - 1;
        self.slots[last].next = self.free;
        self.free = first;
    }

    /// Empties a slot; the names of its occupant are void from now on.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.len -= 1;
        self.reuse(index);
        Some(value)
    }

    /// Drops what is in a slot, where it is; the slot is not filled again before
    /// [`reuse`](Self::reuse). Returns whether there was anything.
    pub(crate) fn vacate(&mut self, index: u32) -> bool {
        let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| slot.value.is_some())
        else {
            return false;
        };
        slot.value = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.len -= 1;
        true
    }

    /// A vacated slot may be filled again.
    pub(crate) fn reuse(&mut self, index: u32) {
        let next = core::mem::replace(&mut self.free, index);
        self.slots[index].next = next;
    }

    /// Slots there are, filled or not.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// The occupant of a slot, whoever it is, with its generation, to read.
    pub(crate) fn at(&self, index: u32) -> Option<(u32, &T)> {
        let slot = self.slots.get(index)?;
        Some((slot.generation, slot.value.as_ref()?))
    }

    /// The occupant of a slot, whoever it is, with its generation.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(u32, &mut T)> {
        self.visits += 1;
        let slot = self.slots.get_mut(index)?;
        Some((slot.generation, slot.value.as_mut()?))
    }

    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index)?;
        (slot.generation == generation)
            .then_some(slot.value.as_ref())
            .flatten()
    }

    pub(crate) fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        self.visits += 1;
        let slot = self.slots.get_mut(index)?;
        (slot.generation == generation)
            .then_some(slot.value.as_mut())
            .flatten()
    }

    /// Every occupant: index, generation, value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, slot)| Some((i as u32, slot.generation, slot.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_outlive_their_occupant() {
        let mut slab = Slab::new();
        let (a, ga) = slab.insert("a");
        assert_eq!(slab.get(a, ga), Some(&"a"));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        let (b, gb) = slab.insert("b");
        assert_eq!(a, b, "the warm slot comes first");
        assert_ne!(ga, gb);
        assert_eq!(slab.get(a, ga), None);
        assert_eq!(slab.get(b, gb), Some(&"b"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn grows_by_chunks_and_finds_everything() {
        let mut slab = Slab::new();
        let names: Vec<_> = (0..1000).map(|i| slab.insert(i)).collect();
        for (i, &(index, generation)) in names.iter().enumerate() {
            assert_eq!(slab.get(index, generation), Some(&i));
        }
        assert_eq!(slab.iter().count(), 1000);
    }
}
