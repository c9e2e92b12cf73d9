//! What has arrived ahead of a hole: ranges of the peer's stream, disjoint, in order, and not
//! touching one another. The bytes are in the owner's store.
//!
//! ```text
//!     in order      hole     held     hole   held
//!  ----------------|......|========|.......|=====|
//!                  received
//! ```
//!
//! A peer decides how many ranges there are, so their number is bounded; their bytes are bounded by
//! the window. They stand in a tree, so an arrival among many costs a search and moves none of them. The
//! box exists only while something is held.

use core::ops::Bound::{Excluded, Unbounded};
use std::collections::BTreeMap;

/// A half-open range of offsets in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Ranges that may be held whatever their length.
const FREE_RANGES: usize = 16;
/// Bytes that any more of them have to hold in the mean.
const LEAST_PER_RANGE: u64 = 256;

#[derive(Default)]
pub(crate) struct Reassembly {
    held: Option<Box<Held>>,
}

#[derive(Default)]
struct Held {
    /// Where a range begins, by where it ends.
    starts: BTreeMap<u64, u64>,
    /// Bytes in all of them.
    bytes: u64,
    /// Where the latest arrival begins: RFC 2018 wants its range in the first SACK block.
    latest: u64,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// How many ranges are held.
    pub(crate) fn len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.starts.len())
    }

    /// The ranges held, in the order of the stream.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = Range> {
        let starts = self.held.as_ref().map(|held| held.starts.iter());
        starts.into_iter().flatten().map(range)
    }

    /// Where the last of them ends.
    pub(crate) fn end(&self) -> Option<u64> {
        let (&end, _) = self.held.as_ref()?.starts.last_key_value()?;
        Some(end)
    }

    /// Those that end after `at`.
    fn after(&self, at: u64) -> impl Iterator<Item = Range> {
        let beyond = (Excluded(at), Unbounded);
        let starts = self.held.as_ref().map(|held| held.starts.range(beyond));
        starts.into_iter().flatten().map(range)
    }

    /// The range that holds the byte at `at`.
    pub(crate) fn around(&self, at: u64) -> Option<Range> {
        self.after(at).next().filter(|range| range.start <= at)
    }

    /// The range that the latest arrival went to.
    pub(crate) fn latest(&self) -> Option<Range> {
        self.around(self.held.as_ref()?.latest)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.bytes)
    }

    /// The part of `range` that is not held and comes first.
    pub(crate) fn first_gap(&self, range: Range) -> Option<Range> {
        let mut start = range.start;
        let mut end = range.end;
        for held in self.after(start) {
            if held.start > start {
                end = end.min(held.start);
                break;
            }
            start = held.end;
        }
        (start < end).then_some(Range { start, end })
    }

    /// Whether a range that begins at `start` may be held: it touches another one, or there are
    /// fewer than `max_ranges` and not too many for the little that they hold. A few bytes here and
    /// there cost their owner as much memory as full segments.
    pub(crate) fn has_room(&self, start: u64, max_ranges: usize) -> bool {
        let ranges = self.len();
        let sparse = ranges >= FREE_RANGES
            && self.bytes() < (ranges + 1 - FREE_RANGES) as u64 * LEAST_PER_RANGE;
        let touches = |held: &Held| held.starts.contains_key(&start);
        (ranges < max_ranges && !sparse) || self.held.as_deref().is_some_and(touches)
    }

    /// Holds `range`, none of which is held yet.
    pub(crate) fn insert(&mut self, range: Range) {
        debug_assert!(range.start < range.end);
        let held = self.held.get_or_insert_default();
        held.latest = range.start;
        held.bytes += range.end - range.start;
        // The range that ends where this begins is part of it now, as it is of one that begins where this
        // ends.
        let start = held.starts.remove(&range.start).unwrap_or(range.start);
        let beyond = (Excluded(range.end), Unbounded);
        match held.starts.range_mut(beyond).next() {
            Some((_, next)) if *next == range.end => *next = start,
            _ => {
                held.starts.insert(range.end, start);
            }
        }
    }

    /// Everything up to `received` has arrived in order; what is held right there is in order too.
    /// Returns where the order now ends.
    pub(crate) fn advance(&mut self, received: u64) -> u64 {
        let Some(held) = &mut self.held else {
            return received;
        };
        let mut end = received;
        while let Some(first) = held.starts.first_entry()
            && *first.get() <= end
        {
            end = end.max(*first.key());
            held.bytes -= first.key() - first.get();
            first.remove();
        }
        if held.starts.is_empty() {
            self.held = None;
        }
        end
    }

    /// Lets go of everything (memory pressure, or the end). Returns how many bytes that were.
    pub(crate) fn clear(&mut self) -> u64 {
        let bytes = self.bytes();
        self.held = None;
        bytes
    }
}

fn range((&end, &start): (&u64, &u64)) -> Range {
    Range { start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, end: u64) -> Range {
        Range { start, end }
    }

    #[test]
    fn neighbours_merge() {
        let mut q = Reassembly::default();
        q.insert(r(10, 20));
        q.insert(r(30, 40));
        assert!(q.ranges().eq([r(10, 20), r(30, 40)]));
        q.insert(r(20, 30));
        assert!(q.ranges().eq([r(10, 40)]));
        assert_eq!(q.latest(), Some(r(10, 40)));
        assert_eq!(q.advance(10), 40);
        assert!(q.is_empty());
    }

    #[test]
    fn gaps_are_what_is_missing() {
        let mut q = Reassembly::default();
        assert_eq!(q.first_gap(r(0, 5)), Some(r(0, 5)));
        q.insert(r(10, 20));
        q.insert(r(30, 40));
        assert_eq!(q.first_gap(r(5, 50)), Some(r(5, 10)));
        assert_eq!(q.first_gap(r(10, 50)), Some(r(20, 30)));
        assert_eq!(q.first_gap(r(12, 18)), None);
        assert_eq!(q.first_gap(r(30, 50)), Some(r(40, 50)));
        assert_eq!(q.first_gap(r(50, 60)), Some(r(50, 60)));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut q = Reassembly::default();
        q.insert(r(10, 11));
        q.insert(r(20, 21));
        assert!(!q.has_room(30, 2));
        assert!(!q.has_room(9, 2));
        assert!(q.has_room(21, 2), "growing is always allowed");
        q.insert(r(21, 22));
        assert_eq!(q.bytes(), 3);
    }
}
