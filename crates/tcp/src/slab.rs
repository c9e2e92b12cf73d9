//! Slots for things of one kind, in chunks that never move.
//!
//! A plain vector of connections would copy all of them whenever it grows; here growth costs one
//! chunk. Slots are reused last in, first out, while they are still in the cache.

/// Slots a chunk. A power of two, so that finding a slot is a shift and a mask.
const CHUNK: usize = 64;

struct Slot<T> {
    /// The generation of the occupant, or of the next one.
    generation: u32,
    value: Option<T>,
}

impl<T> Slot<T> {
    const EMPTY: Slot<T> = Slot {
        generation: 0,
        value: None,
    };
}

pub(crate) struct Slab<T> {
    chunks: Vec<Box<[Slot<T>; CHUNK]>>,
    free: Vec<u32>,
    len: u32,
    /// How often an occupant was looked up to be worked on.
    visits: u64,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
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
        if self.free.is_empty() {
            self.grow();
        }
        let index = self.free.pop().expect("a slab that grew has free slots");
        let slot = self.slot_mut(index).expect("free slots exist");
        debug_assert!(slot.value.is_none());
        slot.value = Some(value);
        let generation = slot.generation;
        self.len += 1;
        (index, generation)
    }

    #[cold]
    fn grow(&mut self) {
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(Box::new([const { Slot::EMPTY }; CHUNK]));
        self.free.extend((first..first + CHUNK as u32).rev());
    }

    /// Empties a slot; the names of its occupant are void from now on.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slot_mut(index)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.len -= 1;
        self.reuse(index);
        Some(value)
    }

    /// Drops what is in a slot, where it is; the slot is not filled again before
    /// [`reuse`](Self::reuse). Returns whether there was anything.
    pub(crate) fn vacate(&mut self, index: u32) -> bool {
        let Some(slot) = self.slot_mut(index).filter(|slot| slot.value.is_some()) else {
            return false;
        };
        slot.value = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.len -= 1;
        true
    }

    /// A vacated slot may be filled again.
    pub(crate) fn reuse(&mut self, index: u32) {
        self.free.push(index);
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        self.chunks
            .get(index as usize / CHUNK)
            .map(|chunk| &chunk[index as usize % CHUNK])
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        self.chunks
            .get_mut(index as usize / CHUNK)
            .map(|chunk| &mut chunk[index as usize % CHUNK])
    }

    /// Slots there are, filled or not.
    pub(crate) fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// The occupant of a slot, whoever it is, for those who only look.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.slot(index)?.value.as_ref()
    }

    /// The occupant of a slot, whoever it is, with its generation.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(u32, &mut T)> {
        self.visits += 1;
        let slot = self.slot_mut(index)?;
        Some((slot.generation, slot.value.as_mut()?))
    }

    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slot(index)?;
        (slot.generation == generation)
            .then_some(slot.value.as_ref())
            .flatten()
    }

    pub(crate) fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        self.visits += 1;
        let slot = self.slot_mut(index)?;
        (slot.generation == generation)
            .then_some(slot.value.as_mut())
            .flatten()
    }

    /// Every occupant: index, generation, value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
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
