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
//! the window. The box exists only while something is held.

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

struct Held {
    ranges: Vec<Range>,
    /// Where the latest arrival begins: RFC 2018 wants its range in the first SACK block.
    latest: u64,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// The ranges held, in the order of the stream.
    pub(crate) fn ranges(&self) -> &[Range] {
        self.held.as_ref().map_or(&[], |held| &held.ranges)
    }

    /// The range that the latest arrival went to.
    pub(crate) fn latest(&self) -> Option<Range> {
        let held = self.held.as_ref()?;
        let i = held.ranges.partition_point(|r| r.end <= held.latest);
        held.ranges
            .get(i)
            .copied()
            .filter(|r| r.start <= held.latest)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges().iter().map(|r| r.end - r.start).sum()
    }

    /// The part of `range` that is not held and comes first.
    pub(crate) fn first_gap(&self, range: Range) -> Option<Range> {
        let mut start = range.start;
        let ranges = self.ranges();
        let from = ranges.partition_point(|r| r.end <= start);
        for r in &ranges[from..] {
            if r.start > start {
                return (start < range.end).then_some(Range {
                    start,
                    end: range.end.min(r.start),
                });
            }
            start = r.end;
        }
        (start < range.end).then_some(Range {
            start,
            end: range.end,
        })
    }

    /// Whether a range that begins at `start` may be held: it touches another one, or there are
    /// fewer than `max_ranges` and not too many for the little that they hold. A few bytes here and
    /// there cost their owner as much memory as full segments.
    pub(crate) fn has_room(&self, start: u64, max_ranges: usize) -> bool {
        let ranges = self.ranges();
        let sparse = ranges.len() >= FREE_RANGES
            && self.bytes() < (ranges.len() + 1 - FREE_RANGES) as u64 * LEAST_PER_RANGE;
        (ranges.len() < max_ranges && !sparse) || {
            let i = ranges.partition_point(|r| r.end < start);
            ranges.get(i).is_some_and(|r| r.end == start)
        }
    }

    /// Holds `range`, none of which is held yet.
    pub(crate) fn insert(&mut self, range: Range) {
        debug_assert!(range.start < range.end);
        let held = self.held.get_or_insert_with(|| {
            Box::new(Held {
                ranges: Vec::with_capacity(8),
                latest: 0,
            })
        });
        held.latest = range.start;
        let ranges = &mut held.ranges;
        let i = ranges.partition_point(|r| r.start < range.start);
        let joins_previous = i > 0 && ranges[i - 1].end == range.start;
        let joins_next = i < ranges.len() && ranges[i].start == range.end;
        match (joins_previous, joins_next) {
            (true, true) => {
                ranges[i - 1].end = ranges[i].end;
                ranges.remove(i);
            }
            (true, false) => ranges[i - 1].end = range.end,
            (false, true) => ranges[i].start = range.start,
            (false, false) => ranges.insert(i, range),
        }
    }

    /// Everything up to `received` has arrived in order; what is held right there is in order too.
    /// Returns where the order now ends.
    pub(crate) fn advance(&mut self, received: u64) -> u64 {
        let Some(held) = &mut self.held else {
            return received;
        };
        let mut end = received;
        let mut used = 0;
        for r in &held.ranges {
            if r.start > end {
                break;
            }
            end = end.max(r.end);
            used += 1;
        }
        held.ranges.drain(..used);
        if held.ranges.is_empty() {
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
        assert_eq!(q.ranges(), [r(10, 20), r(30, 40)]);
        q.insert(r(20, 30));
        assert_eq!(q.ranges(), [r(10, 40)]);
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
