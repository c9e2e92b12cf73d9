//! A ring of 32-byte entries with one producer and one consumer that do not trust each other.
//!
//! Indices count entries since the beginning and wrap at 2³²; an entry lies in slot
//! `index & (capacity − 1)`. Each index lies in cache lines of its own, which only its owner
//! writes:
//!
//! | word | written by | read by | carries |
//! | --- | --- | --- | --- |
//! | `produced` | [`Producer::publish`], release | [`Consumer::take`], acquire | the entries before it |
//! | `consumed` | [`Consumer::release`], release | [`Producer::room`], acquire | the right to write its slots again |
//!
//! Both sides work in batches: entries become visible, and slots free, only when the index is
//! published. Each keeps the last value it saw of the other's index and looks again only when that
//! one is used up, so that a busy ring moves one cache line a batch.
//!
//! A side never reads its own index back from the shared memory, and refuses every value of the
//! other's index that an honest one could not have reached: that alone keeps both in bounds. Entries
//! are read and written as relaxed atomic words, so that a producer that breaks the rules makes the
//! consumer see nonsense, never undefined behaviour.

use crate::Violation;
use crate::descriptor::{Descriptor, Entry};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use core::marker::PhantomData;

/// Where the words of a ring live: in a region, or on loom's heap.
pub trait Cells {
    /// The number of entries: a power of two.
    fn capacity(&self) -> u32;
    /// The producer's index.
    fn produced(&self) -> &AtomicU32;
    /// The consumer's index.
    fn consumed(&self) -> &AtomicU32;
    /// The words of a slot; `slot` is below the capacity.
    fn slot(&self, slot: u32) -> &[AtomicU64; 4];
}

/// The end of a ring that puts descriptors of type `D` in.
#[derive(Debug)]
pub struct Producer<D, C> {
    cells: C,
    /// The index of the next entry to write.
    next: u32,
    /// What `produced` was last set to.
    published: u32,
    /// The last good value seen of `consumed`.
    consumed: u32,
    descriptor: PhantomData<fn(D)>,
}

/// The end of a ring that takes descriptors of type `D` out.
#[derive(Debug)]
pub struct Consumer<D, C> {
    cells: C,
    /// The index of the next entry to read.
    next: u32,
    /// What `consumed` was last set to.
    released: u32,
    /// The last good value seen of `produced`.
    produced: u32,
    descriptor: PhantomData<fn() -> D>,
}

impl<D: Descriptor, C: Cells> Producer<D, C> {
    /// The producer of a ring on which nothing has happened yet.
    pub fn new(cells: C) -> Self {
        debug_assert!(cells.capacity().is_power_of_two());
        Self {
            cells,
            next: 0,
            published: 0,
            consumed: 0,
            descriptor: PhantomData,
        }
    }

    /// Writes a descriptor, which the consumer sees after the next [`publish`](Self::publish).
    /// False, and nothing written, if there is no room for all of its entries.
    ///
    /// # Errors
    /// The consumer's index is impossible.
    pub fn post(&mut self, descriptor: &D) -> Result<bool, Violation> {
        let (first, second) = descriptor.encode();
        let entries = 1 + u32::from(second.is_some());
        if !self.has_room(entries)? {
            return Ok(false);
        }
        self.write(first);
        if let Some(second) = second {
            self.write(second);
        }
        Ok(true)
    }

    /// Makes everything posted so far visible to the consumer.
    pub fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            // Partner: the acquire in `Consumer::look`. Orders the entries before the index.
            self.cells.produced().store(self.next, Ordering::Release);
        }
    }

    /// Whether something was posted and not yet published.
    pub fn has_unpublished(&self) -> bool {
        self.published != self.next
    }

    /// Whether that many entries can be written now. Looks at the consumer's index only if what it
    /// said last does not suffice.
    ///
    /// # Errors
    /// The consumer's index is impossible.
    pub fn has_room(&mut self, entries: u32) -> Result<bool, Violation> {
        Ok(self.known_room() >= entries || self.room()? >= entries)
    }

    /// The number of entries that can be written now, after a look at the consumer's index.
    ///
    /// # Errors
    /// The consumer's index is impossible.
    pub fn room(&mut self) -> Result<u32, Violation> {
        // Partner: the release in `Consumer::release`. Our stores into the freed slots come after
        // the consumer's loads from them.
        let consumed = self.cells.consumed().load(Ordering::Acquire);
        let advance = consumed.wrapping_sub(self.consumed);
        // An honest consumer stays between what it had consumed and what we have published.
        if advance > self.published.wrapping_sub(self.consumed) {
            return Err(Violation::IndexJump {
                end: "consumer",
                from: self.consumed,
                to: consumed,
                capacity: self.cells.capacity(),
            });
        }
        self.consumed = consumed;
        Ok(self.known_room())
    }

    /// The number of entries of the ring.
    pub fn capacity(&self) -> u32 {
        self.cells.capacity()
    }

    fn known_room(&self) -> u32 {
        self.cells.capacity() - self.next.wrapping_sub(self.consumed)
    }

    fn write(&mut self, entry: Entry) {
        let slot = self.cells.slot(self.next & (self.cells.capacity() - 1));
        for (cell, word) in slot.iter().zip(entry) {
            cell.store(word, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
    }
}

impl<D: Descriptor, C: Cells> Consumer<D, C> {
    /// The consumer of a ring on which nothing has happened yet.
    pub fn new(cells: C) -> Self {
        debug_assert!(cells.capacity().is_power_of_two());
        Self {
            cells,
            next: 0,
            released: 0,
            produced: 0,
            descriptor: PhantomData,
        }
    }

    /// Copies the next descriptor out, if there is one, and validates the copy.
    ///
    /// At most [`capacity`](Self::capacity) entries can be taken before they are
    /// [released](Self::release), however fast the producer refills.
    ///
    /// # Errors
    /// The producer's index is impossible, or the entry is no descriptor.
    pub fn take(&mut self) -> Result<Option<D>, Violation> {
        if self.known_waiting() == 0 && self.look()? == 0 {
            return Ok(None);
        }
        let first = self.read();
        let second = if D::takes_two(&first) {
            // Both entries of a descriptor are published at once, or the producer is not honest.
            if self.known_waiting() == 0 {
                return Err(Violation::HalfDescriptor {
                    kind: first[0] as u8,
                });
            }
            Some(self.read())
        } else {
            None
        };
        D::decode(&first, second.as_ref()).map(Some)
    }

    /// Gives the slots of everything taken so far back to the producer.
    pub fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            // Partner: the acquire in `Producer::room`. Orders our loads before the index.
            self.cells.consumed().store(self.next, Ordering::Release);
        }
    }

    /// Whether nothing waits, after a look at the producer's index.
    ///
    /// # Errors
    /// The producer's index is impossible.
    pub fn is_empty(&mut self) -> Result<bool, Violation> {
        Ok(self.known_waiting() == 0 && self.look()? == 0)
    }

    /// How far the producer has come by now: what [`is_before`](Self::is_before) asks about.
    ///
    /// # Errors
    /// The producer's index is impossible.
    pub fn end(&mut self) -> Result<u32, Violation> {
        self.look()?;
        Ok(self.produced)
    }

    /// The same, but with at most so many descriptors from the next one on.
    ///
    /// # Errors
    /// As of [`end`](Self::end).
    pub fn end_within(&mut self, most: u32) -> Result<u32, Violation> {
        self.look()?;
        let waiting = self.known_waiting().min(most);
        Ok(self.next.wrapping_add(waiting))
    }

    /// Whether the next descriptor was there when the producer had come this far.
    pub fn is_before(&self, end: u32) -> bool {
        // It is at most a ring ahead, or it has been reached and lies behind.
        let ahead = end.wrapping_sub(self.next);
        ahead != 0 && ahead <= self.cells.capacity()
    }

    /// The same of the descriptor that was last taken.
    pub fn was_before(&self, end: u32) -> bool {
        end.wrapping_sub(self.next) <= self.cells.capacity()
    }

    /// The number of entries of the ring.
    pub fn capacity(&self) -> u32 {
        self.cells.capacity()
    }

    fn known_waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.next)
    }

    fn look(&mut self) -> Result<u32, Violation> {
        // Partner: the release in `Producer::publish`. Our loads of the entries come after it.
        let produced = self.cells.produced().load(Ordering::Acquire);
        let advance = produced.wrapping_sub(self.produced);
        // An honest producer stays within one capacity of what we have released. Counting from
        // there, not from what we have taken, is also what bounds the work between two releases.
        let farthest = self.released.wrapping_add(self.cells.capacity());
        if advance > farthest.wrapping_sub(self.produced) {
            return Err(Violation::IndexJump {
                end: "producer",
                from: self.produced,
                to: produced,
                capacity: self.cells.capacity(),
            });
        }
        self.produced = produced;
        Ok(self.known_waiting())
    }

    fn read(&mut self) -> Entry {
        let slot = self.cells.slot(self.next & (self.cells.capacity() - 1));
        self.next = self.next.wrapping_add(1);
        slot.each_ref().map(|cell| cell.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct HeapCells {
        produced: AtomicU32,
        consumed: AtomicU32,
        slots: [[AtomicU64; 4]; 4],
    }

    impl Cells for &HeapCells {
        fn capacity(&self) -> u32 {
            4
        }
        fn produced(&self) -> &AtomicU32 {
            &self.produced
        }
        fn consumed(&self) -> &AtomicU32 {
            &self.consumed
        }
        fn slot(&self, slot: u32) -> &[AtomicU64; 4] {
            &self.slots[slot as usize]
        }
    }

    /// A ring on which `index` entries have come and gone.
    fn cells(index: u32) -> HeapCells {
        HeapCells {
            produced: AtomicU32::new(index),
            consumed: AtomicU32::new(index),
            slots: Default::default(),
        }
    }

    fn producer(cells: &HeapCells, index: u32) -> Producer<Entry, &HeapCells> {
        let descriptor = PhantomData;
        Producer {
            cells,
            next: index,
            published: index,
            consumed: index,
            descriptor,
        }
    }

    fn consumer(cells: &HeapCells, index: u32) -> Consumer<Entry, &HeapCells> {
        let descriptor = PhantomData;
        Consumer {
            cells,
            next: index,
            released: index,
            produced: index,
            descriptor,
        }
    }

    #[test]
    fn indices_wrap() {
        let start = u32::MAX - 5;
        let cells = cells(start);
        let (mut producer, mut consumer) = (producer(&cells, start), consumer(&cells, start));
        for round in 0..8 {
            for i in 0..3 {
                assert_eq!(producer.post(&[round, i, 0, 0]), Ok(true));
            }
            producer.publish();
            for i in 0..3 {
                assert_eq!(consumer.take(), Ok(Some([round, i, 0, 0])));
            }
            assert_eq!(consumer.take(), Ok(None));
            consumer.release();
        }
    }

    #[test]
    fn what_was_there_is_told_from_what_came_later() {
        let start = u32::MAX - 1;
        let cells = cells(start);
        let (mut producer, mut consumer) = (producer(&cells, start), consumer(&cells, start));
        let end = consumer.end().unwrap();
        assert!(!consumer.is_before(end));
        for i in 0..3 {
            assert_eq!(producer.post(&[i, 0, 0, 0]), Ok(true));
        }
        producer.publish();
        assert!(!consumer.is_before(end));
        let end = consumer.end().unwrap();
        for later in 0..3 {
            assert!(consumer.is_before(end));
            assert!(consumer.take().unwrap().is_some());
            assert!(consumer.was_before(end));
            consumer.release();
            assert_eq!(producer.post(&[later, 0, 0, 0]), Ok(true));
            producer.publish();
        }
        assert!(!consumer.is_before(end));
        while consumer.take().unwrap().is_some() {
            assert!(!consumer.is_before(end) && !consumer.was_before(end));
        }
    }

    #[test]
    fn a_producer_that_jumps_is_refused() {
        for start in [0, 7, u32::MAX - 1] {
            // Beyond the ring, far beyond, and backwards.
            for jump in [5, 1 << 31, u32::MAX] {
                let cells = cells(start);
                let mut consumer = consumer(&cells, start);
                let to = start.wrapping_add(jump);
                cells.produced.store(to, Ordering::Relaxed);
                let end = "producer";
                let violation = Violation::IndexJump {
                    end,
                    from: start,
                    to,
                    capacity: 4,
                };
                assert_eq!(consumer.take(), Err(violation));
                assert_eq!(consumer.is_empty(), Err(violation));
            }
        }
    }

    #[test]
    fn a_producer_that_never_stops_is_refused_after_one_ring() {
        let cells = cells(0);
        let mut consumer = consumer(&cells, 0);
        for taken in 0..4 {
            cells.produced.store(taken + 1, Ordering::Relaxed);
            assert!(consumer.take().unwrap().is_some());
        }
        cells.produced.store(5, Ordering::Relaxed);
        let violation = Violation::IndexJump {
            end: "producer",
            from: 4,
            to: 5,
            capacity: 4,
        };
        assert_eq!(consumer.take(), Err(violation));
    }

    #[test]
    fn a_consumer_that_jumps_is_refused() {
        for start in [0, 7, u32::MAX - 1] {
            let cells = cells(start);
            let mut producer = producer(&cells, start);
            for i in 0..3 {
                assert_eq!(producer.post(&[i, 0, 0, 0]), Ok(true));
            }
            // Nothing is published yet, so there is nothing that could have been consumed.
            for jump in [1, 3, 4, 1 << 31, u32::MAX] {
                let to = start.wrapping_add(jump);
                cells.consumed.store(to, Ordering::Relaxed);
                let end = "consumer";
                let violation = Violation::IndexJump {
                    end,
                    from: start,
                    to,
                    capacity: 4,
                };
                assert_eq!(producer.room(), Err(violation));
            }
            cells.consumed.store(start, Ordering::Relaxed);
            producer.publish();
            cells
                .consumed
                .store(start.wrapping_add(2), Ordering::Relaxed);
            assert_eq!(producer.room(), Ok(3));
        }
    }
}
