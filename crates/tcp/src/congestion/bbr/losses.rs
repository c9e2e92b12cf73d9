//! How much loss is too much.

/// More than one in so many lost is too much (BBR.LossThresh is two percent).
const LOSS_THRESHOLD: u64 = 50;

/// The longest run of losses that chance explains, in segments.
const LONGEST_RUN: u64 = 10;

/// What was lost of what was sent, in bytes, and in how many places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) places: u32,
}

impl Losses {
    pub(super) const NONE: Self = Self {
        sent: 0,
        lost: 0,
        places: 0,
    };

    /// What has come to it since it was `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            lost: self.lost - before.lost,
            places: self.places.wrapping_sub(before.places),
        }
    }

    /// Whether it is too much: beyond the threshold by more than chance explains. In a window of 172
    /// segments two percent are three, and where one in a hundred is lost at random some sample of each
    /// round has more than that; so what counts is three standard deviations above it.
    pub(super) fn are_too_much(&self, mss: u32) -> bool {
        self.exceed(mss.max(1).into())
    }

    /// The same where losses come in runs: then it is the runs that are so many by chance, and not the
    /// segments.
    pub(super) fn are_too_much_in_runs(&self, mss: u32) -> bool {
        let mss = u64::from(mss.max(1));
        let run = self.lost / u64::from(self.places.max(1));
        self.exceed(run.clamp(mss, LONGEST_RUN * mss))
    }

    fn exceed(&self, run: u64) -> bool {
        let expected = self.sent / LOSS_THRESHOLD;
        let chance = (3 * (expected / run).isqrt() + 2) * run;
        self.lost > expected + chance
    }
}
