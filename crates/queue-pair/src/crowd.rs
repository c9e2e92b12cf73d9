//! Whether to yield a core is worth it. A host and its engine yield to each other before they sleep,
//! since one of them has the other's next piece of work. On a core where strangers run, it is they who get
//! the core, for milliseconds: then it is better to sleep and be woken.

use crate::sync::{AtomicU64, Ordering};

/// A yield that took so many nanoseconds let a stranger run: neither side works for so long at once.
const STRANGER_NS: u64 = 500_000;
/// For so many nanoseconds nobody yields then.
const CROWDED_NS: u64 = 50_000_000;

/// Who else is on the core, as the last yields have shown. Times are in nanoseconds of any one clock.
#[derive(Debug, Default)]
pub struct Crowd {
    until: AtomicU64,
}

impl Crowd {
    /// Whether strangers were met lately, at the time `now`.
    pub fn is_met(&self, now: u64) -> bool {
        // Relaxed: threads that see it late yield once more.
        now < self.until.load(Ordering::Relaxed)
    }

    /// Somebody yielded from `before` to `after`.
    pub fn yielded(&self, before: u64, after: u64) {
        if after.saturating_sub(before) >= STRANGER_NS {
            let until = after.saturating_add(CROWDED_NS);
            self.until.store(until, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_yield_is_the_last_for_a_while() {
        let crowd = Crowd::default();
        assert!(!crowd.is_met(0));
        crowd.yielded(1_000, 1_000 + STRANGER_NS - 1);
        assert!(
            !crowd.is_met(2_000 + STRANGER_NS),
            "a partner may take that long"
        );
        crowd.yielded(1_000, 1_000 + STRANGER_NS);
        let over = 1_000 + STRANGER_NS + CROWDED_NS;
        assert!(crowd.is_met(over - 1) && !crowd.is_met(over));
        crowd.yielded(9, 3);
        assert!(!crowd.is_met(over), "a clock that stands is no stranger");
    }
}
