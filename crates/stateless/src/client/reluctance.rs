//! Holding back where connections come to nothing.
//!
//! Where one connection follows another, a server that refuses them is asked as fast as it refuses:
//! a million SYNs in ten seconds, for nothing. So after failures with no answer between them nothing
//! is begun for a time that doubles, as long as that goes on. A load with a rate does not ask: it is
//! what was wanted.

use super::Counters;

/// The first pause, in nanoseconds.
const FIRST_NS: u64 = 1_000_000;
/// The longest.
const LONGEST_NS: u64 = 1_000_000_000;

/// What has been seen, and how long to wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reluctance {
    failed: u64,
    succeeded: u64,
    pause_ns: u64,
    until_ns: u64,
}

impl Reluctance {
    /// Whether nothing is to be begun at `now_ns`, `succeeded` having come to something so far.
    pub(super) fn holds(&mut self, counters: &Counters, succeeded: u64, now_ns: u64) -> bool {
        let failed =
            counters.refused + counters.reset + counters.unanswered + counters.lost_opening;
        if succeeded > self.succeeded {
            *self = Self {
                failed,
                succeeded,
                ..Self::default()
            };
        } else if failed > self.failed {
            self.failed = failed;
            if now_ns >= self.until_ns {
                self.pause_ns = (self.pause_ns * 2).clamp(FIRST_NS, LONGEST_NS);
                self.until_ns = now_ns + self.pause_ns;
            }
        }
        now_ns < self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_something_is_answered() {
        let mut reluctance = Reluctance::default();
        let mut counters = Counters::default();
        let mut answered = 0;
        assert!(!reluctance.holds(&counters, answered, 0));
        let mut now = 0;
        for expected in [1, 2, 4, 8] {
            counters.refused += 3;
            assert!(reluctance.holds(&counters, answered, now));
            // More of the same within the pause does not lengthen it.
            counters.reset += 1;
            now += expected * FIRST_NS;
            assert!(reluctance.holds(&counters, answered, now - 1));
            assert!(!reluctance.holds(&counters, answered, now));
        }
        counters.lost_opening += 1;
        assert!(reluctance.holds(&counters, answered, now));
        answered += 1;
        assert!(!reluctance.holds(&counters, answered, now));
        counters.unanswered += 1;
        assert!(reluctance.holds(&counters, answered, now));
        assert!(!reluctance.holds(&counters, answered, now + FIRST_NS));
        for _ in 0..20 {
            counters.refused += 1;
            now += 2 * LONGEST_NS;
            assert!(reluctance.holds(&counters, answered, now));
        }
        assert!(!reluctance.holds(&counters, answered, now + LONGEST_NS));
    }
}
