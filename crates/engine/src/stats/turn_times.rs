//! How long the turns of a worker took: what a frame waits for at most that has just missed one.

/// The limits of the classes, in microseconds; one more class is for what took longer.
const LIMITS: [u64; 10] = [1, 10, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000];

/// Turns by their length. It includes what the core was taken away for meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnTimes {
    classes: [u64; LIMITS.len() + 1],
    longest_ns: u64,
}

impl TurnTimes {
    /// One that took so many nanoseconds.
    #[inline]
    pub fn took(&mut self, ns: u64) {
        let class = LIMITS.iter().position(|limit| ns <= limit * 1_000);
        self.classes[class.unwrap_or(LIMITS.len())] += 1;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// The longest, in nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// How many took at most so many microseconds, and more than the class before; those beyond all
    /// limits have none.
    pub fn classes(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let limits = LIMITS.iter().copied().map(Some).chain([None]);
        limits.zip(self.classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_in_one_class_and_the_longest_is_kept() {
        let mut times = TurnTimes::default();
        for ns in [0, 1_000, 1_001, 200_000, 200_001, 3_000_000_000] {
            times.took(ns);
        }
        let counted: Vec<_> = times.classes().filter(|(_, count)| *count != 0).collect();
        let wanted = [
            (Some(1), 2),
            (Some(10), 1),
            (Some(200), 1),
            (Some(500), 1),
            (None, 1),
        ];
        assert_eq!(counted, wanted);
        assert_eq!(times.longest_ns(), 3_000_000_000);
    }
}
