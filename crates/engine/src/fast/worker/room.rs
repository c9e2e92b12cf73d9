//! How much is done before somebody looks at the clock, and whether the time of a turn is over.

use crate::clock::Clock;

/// What is sent between two looks at the clock, in segments: 16 of them, or one large send, which takes the
/// kernel as long and longer.
pub(super) const STEP: usize = 16;

/// Submissions taken from one session in a turn.
pub(super) const BUDGET: usize = 256;

/// Submissions between two looks at the clock.
pub(super) const TAKEN: usize = 16;

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

/// Until when a turn takes what others hand to it, and until when it sends, in nanoseconds since it began.
const TAKES_NS: u64 = 60_000;
const SENDS_NS: u64 = 100_000;
/// What each has of a turn that is late.
const TAKES_LEAST_NS: u64 = 30_000;
const SENDS_LEAST_NS: u64 = 40_000;

/// Until when something goes on in a turn: what is begun when that is over is done, the rest is the next turn's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    turn: Clock,
    /// In nanoseconds since the turn began; `None`: there is no end.
    end: Option<u64>,
}

impl Until {
    /// Takes what others hand to it, in a turn that began with this clock and has lasted so long.
    pub fn taking(turn: Clock, so_far: u64) -> Self {
        Self::within(turn, TAKES_NS.max(so_far + TAKES_LEAST_NS))
    }

    /// Sends.
    pub fn sending(turn: Clock, so_far: u64) -> Self {
        Self::within(turn, SENDS_NS.max(so_far + SENDS_LEAST_NS))
    }

    /// Does all that there is.
    pub fn done() -> Self {
        Self {
            turn: Clock::default(),
            end: None,
        }
    }

    fn within(turn: Clock, end: u64) -> Self {
        Self {
            turn,
            end: Some(end),
        }
    }

    /// Whether it has had its time in this turn.
    pub fn is_over(&self) -> bool {
        self.end
            .is_some_and(|end| self.turn.now().as_nanos() >= end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn who_begins_late_has_a_little_all_the_same() {
        let time: &AtomicU64 = Box::leak(Box::default());
        let turn = Clock::told(time);
        let at = |ns| time.store(ns, Ordering::Relaxed);
        let taking = Until::taking(turn, 0);
        at(TAKES_NS - 1);
        assert!(!taking.is_over());
        at(TAKES_NS);
        assert!(taking.is_over());
        let sending = Until::sending(turn, TAKES_NS);
        assert!(!sending.is_over());
        at(SENDS_NS);
        assert!(sending.is_over(), "it has had as much as the turn");
        let late = Until::sending(turn, SENDS_NS);
        at(SENDS_NS + SENDS_LEAST_NS - 1);
        assert!(!late.is_over());
        at(SENDS_NS + SENDS_LEAST_NS);
        assert!(late.is_over());
        at(u64::MAX);
        assert!(!Until::done().is_over());
    }
}
