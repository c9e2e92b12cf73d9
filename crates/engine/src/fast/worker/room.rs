//! How much is done before somebody looks at the clock, and whether the time of a turn is over.

use crate::clock::Clock;

/// What is sent between two looks at the clock, in segments: 16 of them, or one large send, which takes the
/// kernel as long and longer.
pub(super) const STEP: usize = 16;

/// Bytes of payload that weigh as much as one more segment.
const HEAVY: usize = 4096;

/// What may still be sent before the clock is looked at, in segments.
#[derive(Debug)]
pub(super) struct Room(pub usize);

impl Room {
    /// Nothing more is sent in this step.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    /// What carries so many bytes of payload has been sent.
    #[inline]
    pub fn use_for(&mut self, payload: usize) {
        self.0 = self.0.saturating_sub(1 + payload / HEAVY);
    }

    /// Something took a time that nobody knows.
    #[cold]
    pub fn use_up(&mut self) {
        self.0 = 0;
    }
}

/// How long a turn sends, in nanoseconds, and how long it takes submissions: what is begun when that
/// is over is done, the rest is the next turn's.
const BUDGET_NS: u64 = 100_000;

/// Whether what began with this clock has had its time in this turn.
pub(super) fn is_over(clock: Clock) -> bool {
    clock.now().as_nanos() >= BUDGET_NS
}
