//! How many FINs of ours are on their way, about.
//!
//! When the server has closed a connection, our FIN is all that is still to be said, and the
//! connection is over here; but the FIN and its acknowledgement take their place in the queues of
//! the path like everything else. Who keeps `n` connections outstanding means to have no more than
//! `n` frames under way, so these count as well: until they are acknowledged, or, since both can be
//! lost and nobody says so, for a short time.

/// Microseconds after which FINs are taken for lost; until twice that.
const PATIENCE_US: u32 = 10_000;

/// FINs under way: those of this period, and those of the last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Finishing {
    this: u64,
    last: u64,
    began_us: u32,
}

impl Finishing {
    #[inline]
    pub(super) const fn sent(&mut self) {
        self.this += 1;
    }

    #[inline]
    pub(super) const fn acknowledged(&mut self) {
        if self.last > 0 {
            self.last -= 1;
        } else {
            self.this = self.this.saturating_sub(1);
        }
    }

    /// The time is now `now_us`.
    #[inline]
    pub(super) const fn pass(&mut self, now_us: u32) {
        let elapsed_us = now_us.wrapping_sub(self.began_us);
        if elapsed_us >= PATIENCE_US {
            self.last = if elapsed_us < 2 * PATIENCE_US {
                self.this
            } else {
                0
            };
            self.this = 0;
            self.began_us = now_us;
        }
    }

    #[inline]
    pub(super) const fn count(&self) -> u64 {
        self.this + self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_acknowledged_is_forgotten() {
        let mut finishing = Finishing::default();
        finishing.pass(5);
        (0..5).for_each(|_| finishing.sent());
        finishing.acknowledged();
        assert_eq!(finishing.count(), 4);
        finishing.pass(10_005);
        finishing.sent();
        assert_eq!(finishing.count(), 5);
        finishing.acknowledged();
        finishing.pass(20_005);
        assert_eq!(finishing.count(), 1);
        finishing.pass(90_000);
        finishing.acknowledged();
        assert_eq!(finishing.count(), 0);
    }
}
