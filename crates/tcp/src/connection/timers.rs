//! The deadlines of one connection.
//!
//! The stack's timer wheel knows only the earliest of them, and only lazily: when a deadline moves
//! later the wheel is left alone, and what it then fires too early is put back. A retransmission
//! timer that moves with every segment therefore costs a store.

use core::time::Duration;

use crate::Instant;
use crate::time::Nanos;

/// What a connection may be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Something has to leave, for the first time or again. SYN: its RTO. Data in flight: the earliest
    /// of RTO (RFC 6298), PTO (TLP) and reordering timer (RFC 8985), and of its pace. Nothing in flight
    /// and the window closed: the persist timer (RFC 9293 3.8.6.1).
    Transmit,
    /// A delayed ACK (RFC 9293 3.8.6.3): an acknowledgement is owed.
    DelayedAck,
    /// Keep-alive (RFC 9293 3.8.4): the next probe.
    KeepAlive,
    /// The cork's ceiling: a segment that is not full is let go. In FIN-WAIT-2, where nothing is left
    /// to send, the FIN-WAIT-2 timeout of an orphan.
    CorkOrFinWait2,
}

impl Timer {
    pub(crate) const ALL: [Timer; 4] = [
        Timer::Transmit,
        Timer::DelayedAck,
        Timer::KeepAlive,
        Timer::CorkOrFinWait2,
    ];
}

const NEVER: Instant = Instant::MAX;

/// Set in `Timers::wheel` when some deadline may have come to lie before that.
const EARLIER: u64 = 1;
/// `Timers::wheel` if the wheel will not call.
const NO_CALL: u64 = !EARLIER;

pub(crate) struct Timers {
    at: [Instant; Timer::ALL.len()],
    /// When the wheel will call, in nanoseconds, an even number; or `NO_CALL`. The lowest bit is
    /// `EARLIER`.
    wheel: u64,
}

impl Timers {
    pub(crate) const fn new() -> Self {
        Self {
            at: [NEVER; Timer::ALL.len()],
            wheel: NO_CALL,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, now: Instant, after: Duration) {
        self.set_at(timer, now + after);
    }

    #[inline]
    pub(crate) fn set_at(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
        self.wheel |= u64::from(at.as_nanos() < self.wheel) * EARLIER;
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        self.at[timer as usize] = NEVER;
    }

    pub(crate) fn clear_all(&mut self) {
        self.at = [NEVER; Timer::ALL.len()];
    }

    /// How long it has still to run; nothing if it does not.
    pub(crate) fn left(&self, timer: Timer, now: Instant) -> Duration {
        match self.at[timer as usize] {
            NEVER => Duration::ZERO,
            at => at.saturating_duration_since(now),
        }
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at[timer as usize] != NEVER
    }

    #[inline]
    pub(crate) fn set_after(&mut self, timer: Timer, now: Instant, after: Nanos) {
        self.set_at(timer, now + after);
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

    /// When the wheel will call, as far as the connection knows.
    pub(crate) fn wheel(&self) -> Option<Instant> {
        let nanos = self.wheel & !EARLIER;
        (nanos != NO_CALL).then_some(Instant::from_nanos(nanos))
    }

    /// Whether the wheel may have to call earlier than it knows.
    #[inline]
    pub(crate) fn may_be_earlier(&self) -> bool {
        self.wheel & EARLIER != 0
    }

    /// When the wheel has to call, if that is earlier than it knows; it is told now.
    #[inline]
    pub(crate) fn take_earlier(&mut self) -> Option<Instant> {
        if self.wheel & EARLIER == 0 {
            return None;
        }
        self.wheel &= !EARLIER;
        // Up to an even number: a call before the deadline would find nothing due and ask for the same again,
        // for as long as the clock stands there.
        let nanos = self.earliest()?.as_nanos().saturating_add(1) & !EARLIER;
        if nanos >= self.wheel {
            return None;
        }
        self.wheel = nanos;
        Some(Instant::from_nanos(nanos))
    }

    /// The wheel has called, and knows nothing any more. Returns whether something is due.
    pub(crate) fn on_wheel(&mut self, now: Instant) -> bool {
        self.wheel = NO_CALL | EARLIER;
        self.earliest().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_never_calls_before_a_deadline() {
        for nanos in (1 << 20)..(1 << 20) + 4 {
            let mut timers = Timers::new();
            timers.set_at(Timer::Transmit, Instant::from_nanos(nanos));
            let called = timers.take_earlier().expect("it has to call");
            assert!(timers.on_wheel(called), "nothing is due at {nanos}");
        }
    }
}
