//! When what is due: an open-loop schedule, which goes on whether the server keeps up or not.

/// A rate that rises in a straight line to its full height, and stays there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    per_second: f64,
    ramp_seconds: f64,
}

impl Pace {
    /// `per_second` events a second, reached after `ramp_ns` nanoseconds.
    ///
    /// # Panics
    /// If the rate is not above 0.
    pub fn new(per_second: f64, ramp_ns: u64) -> Self {
        assert!(per_second.is_finite() && per_second > 0.0, "{per_second}/s");
        Self {
            per_second,
            ramp_seconds: ramp_ns as f64 / 1e9,
        }
    }

    /// How many events are due until `elapsed_ns` nanoseconds after the beginning. The first is
    /// due at the beginning.
    pub fn due_by(&self, elapsed_ns: u64) -> u64 {
        let elapsed = elapsed_ns as f64 / 1e9;
        let area = if elapsed < self.ramp_seconds {
            self.per_second * elapsed * elapsed / (2.0 * self.ramp_seconds)
        } else {
            self.per_second * (elapsed - self.ramp_seconds / 2.0)
        };
        area as u64 + 1
    }

    /// When event `index`, from 0, is due, in nanoseconds after the beginning.
    pub fn due_at(&self, index: u64) -> u64 {
        let count = index as f64;
        let at_full_height = self.per_second * self.ramp_seconds / 2.0;
        let seconds = if count < at_full_height {
            (2.0 * count * self.ramp_seconds / self.per_second).sqrt()
        } else {
            count / self.per_second + self.ramp_seconds / 2.0
        };
        (seconds * 1e9) as u64
    }
}

/// How many may be outstanding `elapsed_ns` after the beginning, of `limit` after `ramp_ns`.
pub fn ramped(limit: u64, elapsed_ns: u64, ramp_ns: u64) -> u64 {
    if elapsed_ns >= ramp_ns {
        return limit;
    }
    let share = (u128::from(limit) * u128::from(elapsed_ns)).div_ceil(u128::from(ramp_ns));
    (share as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_second_holds_what_is_due_in_a_second() {
        let pace = Pace::new(1000.0, 0);
        assert_eq!(pace.due_by(0), 1);
        assert_eq!(pace.due_by(1_000_000_000), 1001);
        assert_eq!(pace.due_at(1), 1_000_000);
        let ramped = Pace::new(1000.0, 2_000_000_000);
        assert_eq!(ramped.due_by(1_000_000_000), 251);
        assert_eq!(ramped.due_by(2_000_000_000), 1001);
        assert_eq!(ramped.due_by(3_000_000_000), 2001);
    }

    #[test]
    fn limits_rise_in_a_straight_line() {
        assert_eq!(ramped(100, 0, 10), 1);
        assert_eq!(ramped(100, 5, 10), 50);
        assert_eq!(ramped(100, 10, 10), 100);
        assert_eq!(ramped(100, 0, 0), 100);
    }

    proptest! {
        #[test]
        fn counting_and_timing_agree(
            per_second in 0.1..1e7_f64, ramp in 0..5_000_000_000_u64, index in 0..10_000_000_u64,
        ) {
            let pace = Pace::new(per_second, ramp);
            let at = pace.due_at(index);
            // Rounding is worth less than a nanosecond and an event.
            prop_assert!(pace.due_by(at + 2) > index.saturating_sub(1));
            prop_assert!(pace.due_by(at.saturating_sub(2)) <= index + 2);
            prop_assert!(pace.due_at(index + 1) >= at);
        }
    }
}
