//! The deadlines of one connection.
//!
//! The stack's timer wheel knows only the earliest of them, and only lazily: when a deadline moves
//! later the wheel is left alone, and what it then fires too early is put back. A retransmission
//! timer that moves with every segment therefore costs a store.

use core::time::Duration;

use crate::Instant;

/// What a connection may be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Something sent is not acknowledged (RFC 6298), or the window is closed and something waits
    /// (RFC 9293 3.8.6.1): never both.
    Retransmit,
    /// An acknowledgement is owed.
    DelayedAck,
    /// The next keepalive probe.
    KeepAlive,
    /// A corked segment is let go.
    Cork,
    /// An orphan in FIN-WAIT-2 is given up.
    FinWait2,
}

impl Timer {
    pub(crate) const ALL: [Timer; 5] = [
        Timer::Retransmit,
        Timer::DelayedAck,
        Timer::KeepAlive,
        Timer::Cork,
        Timer::FinWait2,
    ];
}

const NEVER: Instant = Instant::MAX;

pub(crate) struct Timers {
    at: [Instant; Timer::ALL.len()],
    /// When the wheel will call, or `NEVER`.
    pub(crate) wheel: Instant,
}

impl Timers {
    pub(crate) const fn new() -> Self {
        Self {
            at: [NEVER; Timer::ALL.len()],
            wheel: NEVER,
        }
    }

    pub(crate) fn set(&mut self, timer: Timer, now: Instant, after: Duration) {
        self.at[timer as usize] = now + after;
    }

    pub(crate) fn set_at(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        self.at[timer as usize] = NEVER;
    }

    pub(crate) fn clear_all(&mut self) {
        self.at = [NEVER; Timer::ALL.len()];
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at[timer as usize] != NEVER
    }

    /// Clears the timer and says whether it was due.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.at[timer as usize] <= now;
        if due {
            self.clear(timer);
        }
        due
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        let at = self.at.iter().copied().min().unwrap_or(NEVER);
        (at != NEVER).then_some(at)
    }
}
