//! The words that a region has at fixed places: those of its rings, of its connections, and single ones.

use crate::armed::Word;
use crate::layout::{self, Layout};
use crate::memory::Memory;
use crate::ring::Cells;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;

/// The words of a ring in a region.
#[derive(Debug)]
pub struct RingCells {
    produced: RegionPointer<AtomicU32>,
    consumed: RegionPointer<AtomicU32>,
    entries: RegionPointer<[AtomicU64; 4]>,
    capacity: u32,
}

impl RingCells {
    pub(crate) fn submission(memory: &Arc<Memory>, layout: &Layout) -> Self {
        Self::new(
            memory,
            layout::SUBMISSION_PRODUCED_AT,
            layout::SUBMISSION_CONSUMED_AT,
            layout.submission_at,
            layout.sizes.submission_entries,
        )
    }

    pub(crate) fn completion(memory: &Arc<Memory>, layout: &Layout) -> Self {
        Self::new(
            memory,
            layout::COMPLETION_PRODUCED_AT,
            layout::COMPLETION_CONSUMED_AT,
            layout.completion_at,
            layout.sizes.completion_entries,
        )
    }

    fn new(memory: &Arc<Memory>, produced: usize, consumed: usize, at: u64, capacity: u32) -> Self {
        let at = usize::try_from(at).expect("a layout that fits its memory");
        // Both ends of the entries must be inside; `slot` relies on it.
        let last = at + (capacity as usize - 1) * size_of::<[AtomicU64; 4]>();
        let _ = memory.word_at::<[AtomicU64; 4]>(last);
        Self {
            produced: RegionPointer::new(memory, produced),
            consumed: RegionPointer::new(memory, consumed),
            entries: RegionPointer::new(memory, at),
            capacity,
        }
    }
}

impl Cells for RingCells {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn produced(&self) -> &AtomicU32 {
        self.produced.get()
    }

    fn consumed(&self) -> &AtomicU32 {
        self.consumed.get()
    }

    fn slot(&self, slot: u32) -> &[AtomicU64; 4] {
        assert!(slot < self.capacity, "a slot outside of its ring");
        // SAFETY: all `capacity` slots are inside the memory, as `new` has checked, the first is
        // aligned and so are the others; any bits are valid atomics; the memory outlives `self`.
        unsafe { self.entries.at.add(slot as usize).as_ref() }
    }
}

/// What a region has for each place in the engine's table of connections: a
/// [position](crate::position), a word by which threads [sleep](crate::parked), and one that names a
/// [doorbell](crate::bells).
#[derive(Debug)]
pub struct Positions {
    places: RegionPointer<Place>,
    count: u32,
}

#[repr(C)]
#[derive(Debug)]
struct Place {
    position: AtomicU64,
    sleeper: AtomicU32,
    bell: AtomicU32,
}

impl Positions {
    pub(crate) fn new(memory: &Arc<Memory>, layout: &Layout) -> Self {
        let at = usize::try_from(layout.positions_at).expect("a layout that fits its memory");
        let count = layout.sizes.positions;
        // Both ends must be inside; `place` relies on it.
        let _ = memory.word_at::<Place>(at + (count as usize - 1) * size_of::<Place>());
        Self {
            places: RegionPointer::new(memory, at),
            count,
        }
    }

    /// The position of the connection at `place`; `None` if there is no such place.
    pub fn word(&self, place: u32) -> Option<&AtomicU64> {
        self.place(place).map(|place| &place.position)
    }

    /// The word by which threads sleep on the connection at `place`; `None` if there is no such place.
    pub fn sleeper(&self, place: u32) -> Option<&AtomicU32> {
        self.place(place).map(|place| &place.sleeper)
    }

    /// The word that names the doorbell by which the process hears of the connection at `place`; `None` if
    /// there is no such place.
    pub fn bell(&self, place: u32) -> Option<&AtomicU32> {
        self.place(place).map(|place| &place.bell)
    }

    fn place(&self, place: u32) -> Option<&Place> {
        if place >= self.count {
            return None;
        }
        // SAFETY: all `count` places are inside the memory, as `new` has checked, the first is aligned
        // and so are the others; any bits are valid atomics; the memory outlives `self`.
        Some(unsafe { self.places.at.add(place as usize).as_ref() })
    }
}

/// A single word of a region.
#[derive(Debug)]
pub struct RegionWord(RegionPointer<AtomicU64>);

impl RegionWord {
    pub(crate) fn new(memory: &Arc<Memory>, at: usize) -> Self {
        Self(RegionPointer::new(memory, at))
    }
}

impl Word for RegionWord {
    fn word(&self) -> &AtomicU64 {
        self.0.get()
    }
}

/// A pointer into a region that keeps the region alive: bounds are checked once, when it is made.
/// `T` is an atomic word or an array of them.
#[derive(Debug)]
struct RegionPointer<T> {
    at: NonNull<T>,
    /// Keeps `at` valid.
    _memory: Arc<Memory>,
}

// SAFETY: it is a shared reference to atomics together with a share in what it points to.
unsafe impl<T: Sync> Send for RegionPointer<T> {}

// SAFETY: as above.
unsafe impl<T: Sync> Sync for RegionPointer<T> {}

impl<T> RegionPointer<T> {
    fn new(memory: &Arc<Memory>, at: usize) -> Self {
        Self {
            at: memory.word_at(at),
            _memory: Arc::clone(memory),
        }
    }

    fn get(&self) -> &T {
        // SAFETY: `word_at` has checked bounds and alignment, any bits are valid atomics, and the
        // memory lives as long as `self`.
        unsafe { self.at.as_ref() }
    }
}
