//! Spans of time, counted by their length.

use core::time::Duration;

/// The limit of the first class is two to this power, in nanoseconds: about a microsecond.
const FIRST: u32 = 10;
/// Classes with a limit; each limit is twice the one before. The last is 17 seconds.
const LIMITED: usize = 25;

/// A histogram of spans of time: how many there were of each class of length, since the beginning.
///
/// Limits are powers of two, so that to find a span's class is to count zeros: it costs a few
/// instructions and no memory but the class itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    limited: [u64; LIMITED],
    beyond: u64,
    sum_ns: u64,
    longest_ns: u64,
}

impl Histogram {
    /// One more span, in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let class = u64::BITS - (ns.saturating_sub(1) >> FIRST).leading_zeros();
        match self.limited.get_mut(class as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Those of another, too.
    pub fn add(&mut self, other: &Self) {
        let Self {
            limited,
            beyond,
            sum_ns,
            longest_ns,
        } = other;
        for (count, more) in self.limited.iter_mut().zip(limited) {
            *count += more;
        }
        self.beyond += beyond;
        self.sum_ns = self.sum_ns.saturating_add(*sum_ns);
        self.longest_ns = self.longest_ns.max(*longest_ns);
    }

    /// The longest.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns)
    }

    /// All of them together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.limited.iter().sum::<u64>() + self.beyond
    }

    /// How many were at most so long, and longer than the limit before. Those beyond the last limit
    /// are in [`count`](Self::count) alone.
    pub fn classes(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let limit = |class: usize| Duration::from_nanos(1 << (FIRST as usize + class));
        let counts = self.limited.iter().enumerate();
        counts.map(move |(class, count)| (limit(class), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_is_in_the_first_class_that_holds_it() {
        let mut h = Histogram::default();
        let last = 1 << (FIRST as usize + LIMITED - 1);
        for ns in [0, 1, 1024, 1025, 2048, 2049, last, last + 1, u64::MAX] {
            h.record(ns);
        }
        let counted: Vec<(u128, u64)> = h
            .classes()
            .filter(|(_, count)| *count != 0)
            .map(|(limit, count)| (limit.as_nanos(), count))
            .collect();
        assert_eq!(counted, [(1024, 3), (2048, 2), (4096, 1), (last.into(), 1)]);
        assert_eq!(h.count(), 9, "two are beyond all limits");
        assert_eq!(h.longest(), Duration::from_nanos(u64::MAX));
        assert_eq!(h.sum(), Duration::from_nanos(u64::MAX), "it saturates");
    }

    #[test]
    fn what_two_have_counted_is_counted_together() {
        let (mut one, mut two, mut both) = <(Histogram, Histogram, Histogram)>::default();
        for (index, ns) in [0, 1024, 5000, 1 << 40, 3000].into_iter().enumerate() {
            [&mut one, &mut two][index % 2].record(ns);
            both.record(ns);
        }
        one.add(&two);
        assert_eq!(one, both);
    }
}
