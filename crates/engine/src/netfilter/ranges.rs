//! Sets of addresses: as numbers, IPv4 in the lowest 32 bits.

use std::net::IpAddr;

/// A set of addresses: ranges with both their ends, sorted, and with a gap between each two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// No address.
    pub const NONE: Self = Self(Vec::new());

    /// Every address of so many bits: 32 or 128.
    pub fn all(bits: u32) -> Self {
        Self(vec![(0, u128::MAX >> (128 - bits))])
    }

    /// Those from the first to the second of each pair, in any order.
    pub fn of(pairs: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().filter(|(from, to)| from <= to).collect();
        pairs.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(pairs.len());
        for (from, to) in pairs {
            match ranges.last_mut() {
                Some((_, end)) if end.checked_add(1).is_none_or(|next| from <= next) => {
                    *end = (*end).max(to);
                }
                _ => ranges.push((from, to)),
            }
        }
        Self(ranges)
    }

    /// Those that are in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&(a_from, a_to)), Some(&&(b_from, b_to))) = (a.peek(), b.peek()) {
            let (from, to) = (a_from.max(b_from), a_to.min(b_to));
            if from <= to {
                ranges.push((from, to));
            }
            if a_to < b_to {
                a.next();
            } else {
                b.next();
            }
        }
        Self(ranges)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        self.intersect(&other.complement())
    }

    /// Those that are in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(from, to) in &self.0 {
            if let Some(start) = next
                && start < from
            {
                ranges.push((start, from - 1));
            }
            next = to.checked_add(1);
        }
        ranges.extend(next.map(|start| (start, u128::MAX)));
        Self(ranges)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: u128) -> bool {
        let after = self.0.partition_point(|(from, _)| *from <= address);
        after > 0 && self.0[after - 1].1 >= address
    }

    /// Whether this address is one of them, in a set of addresses of its family.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.contains(u32::from(v4).into()),
            IpAddr::V6(v6) => self.contains(v6.into()),
        }
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(u128, u128)]) -> Ranges {
        Ranges::of(pairs.iter().copied())
    }

    #[test]
    fn what_touches_is_one_range() {
        let ranges = of(&[(7, 9), (1, 3), (4, 5), (8, 12), (20, 10)]);
        assert_eq!(ranges, Ranges(vec![(1, 5), (7, 12)]));
        let ends = of(&[(u128::MAX, u128::MAX), (0, u128::MAX - 1)]);
        assert_eq!(ends, Ranges::all(128));
    }

    #[test]
    fn sets_are_computed_as_if_address_by_address() {
        // Every pair of sets of five addresses, as bits.
        let set = |bits: u32| {
            let there = (0..5).filter(|at| bits >> at & 1 == 1);
            Ranges::of(there.map(|at| (at, at)))
        };
        for a in 0..32 {
            for b in 0..32 {
                assert_eq!(set(a).intersect(&set(b)), set(a & b));
                assert_eq!(set(a).union(&set(b)), set(a | b));
                assert_eq!(set(a).subtract(&set(b)), set(a & !b));
            }
            for at in 0..6 {
                assert_eq!(set(a).contains(at), a >> at & 1 == 1);
            }
            assert_eq!(set(a).is_empty(), a == 0);
        }
    }

    #[test]
    fn all_addresses_but_some() {
        let rest = Ranges::all(32).subtract(&of(&[(0, 9), (20, u128::MAX)]));
        assert_eq!(rest, of(&[(10, 19)]));
        assert!(Ranges::all(128).subtract(&Ranges::all(128)).is_empty());
    }
}
