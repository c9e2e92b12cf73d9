//! Sequence numbers: arithmetic modulo 2^32 (RFC 9293 section 3.4).
//!
//! Sequence numbers have no total order. Two of them compare sensibly only while they are less
//! than 2^31 apart, which TCP's largest window (2^30, RFC 7323) guarantees for live ones; so there
//! is no `Ord` here, but names that say what is asked.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A TCP sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// How far this number lies after `earlier`; negative if it lies before.
    ///
    /// Numbers exactly 2^31 apart are each `i32::MIN` from the other.
    #[inline]
    pub const fn distance_from(self, earlier: SeqNumber) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Whether this number comes before `other`.
    #[inline]
    pub const fn before(self, other: SeqNumber) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether this number is `other` or comes before it.
    #[inline]
    pub const fn at_or_before(self, other: SeqNumber) -> bool {
        self.distance_from(other) <= 0
    }

    /// Whether this number comes after `other`.
    #[inline]
    pub const fn after(self, other: SeqNumber) -> bool {
        self.distance_from(other) > 0
    }

    /// Whether this number is `other` or comes after it.
    #[inline]
    pub const fn at_or_after(self, other: SeqNumber) -> bool {
        self.distance_from(other) >= 0
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: SeqNumber) -> SeqNumber {
        if other.after(self) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: SeqNumber) -> SeqNumber {
        if other.before(self) { other } else { self }
    }

    /// Whether this number lies in the `length` numbers that begin at `start`. Nothing lies in an
    /// empty window.
    #[inline]
    pub const fn in_window(self, start: SeqNumber, length: u32) -> bool {
        self.0.wrapping_sub(start.0) < length
    }
}

impl Add<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline]
    fn add(self, count: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline]
    fn sub(self, count: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_sub(count))
    }
}

impl SubAssign<u32> for SeqNumber {
    #[inline]
    fn sub_assign(&mut self, count: u32) {
        *self = *self - count;
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = SeqNumber(u32::MAX);
        let first = last + 1;
        assert_eq!(first, SeqNumber(0));
        assert!(last.before(first) && first.after(last));
        assert!(last.at_or_before(last) && last.at_or_after(last));
        assert_eq!(first.distance_from(last), 1);
        assert_eq!(last.distance_from(first), -1);
        assert_eq!(last.max(first), first);
        assert_eq!(last.min(first), last);
    }

    #[test]
    fn windows_may_span_the_wrap_and_may_be_empty() {
        let start = SeqNumber(u32::MAX - 1);
        assert!(start.in_window(start, 1));
        assert!(SeqNumber(1).in_window(start, 4));
        assert!(!SeqNumber(2).in_window(start, 4));
        assert!(!start.in_window(start, 0));
        assert!(!(start - 1).in_window(start, 4));
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(start: u32, count in 0..1_u32 << 31) {
            let start = SeqNumber(start);
            prop_assert_eq!((start + count).distance_from(start), count as i32);
            prop_assert_eq!(start + count - count, start);
            prop_assert!((start + count).at_or_after(start));
        }
    }
}
