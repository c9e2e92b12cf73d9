//! What was taken for loss and was none: finding out, and taking the response back.
//!
//! Three witnesses, in the order of their speed:
//!
//! - *Timestamps* (Eifel detection, RFC 3522 §3.2): the first acknowledgement of new data echoes a
//!   time before the first retransmission, so it answers the original.
//! - *What was never sent again* (the idea of F-RTO, RFC 5682 §3.1): after a timeout, something is
//!   acknowledged that had been given up and that no retransmission carried. It serves where there
//!   are no timestamps, but needs reports: without them, an acknowledgement that jumps says nothing
//!   of when what it covers arrived.
//! - *Duplicate reports* (RFC 2883, RFC 3708 §3): the peer has received twice all that was sent
//!   again.
//!
//! The response is that of RFC 9438 §4.9 and RFC 4015 §3.2: the congestion control is again what it
//! was, and the bursts that this would allow are for pacing to smooth.

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use super::Phase;
use crate::Instant;
use crate::congestion::Controller;

/// The beginning of a recovery, to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The congestion control as it was.
    pub(super) congestion: Controller,
    /// What was in doubt: from SND.UNA to SND.NXT when it began.
    start: SeqNumber,
    end: SeqNumber,
    /// When something was first sent again.
    resent_at: Option<Instant>,
    /// Bytes sent again that the peer has not reported to have received twice.
    unexplained: u32,
    /// Timestamps and F-RTO have had their say.
    decided: bool,
    /// The recovery is over; beyond this number a duplicate report is too late.
    until: Option<SeqNumber>,
}

impl Undo {
    pub(super) fn new(congestion: Controller, start: SeqNumber, end: SeqNumber) -> Undo {
        Undo {
            congestion,
            start,
            end,
            resent_at: None,
            unexplained: 0,
            decided: false,
            until: None,
        }
    }

    pub(super) fn on_resent(&mut self, bytes: u32, now: Instant) {
        self.resent_at.get_or_insert(now);
        self.unexplained = self.unexplained.saturating_add(bytes);
    }

    /// The recovery has ended; `max` is SND.NXT.
    pub(super) fn on_recovered(&mut self, max: SeqNumber) {
        self.until = Some(max);
    }

    /// Whether it is too late for any witness.
    pub(super) fn is_stale(&self, una: SeqNumber) -> bool {
        self.until.is_some_and(|until| una.after(until))
    }

    /// The peer has received `block` twice. Returns whether that explains all that was sent again.
    //= RFC 3708 §3
    pub(super) fn on_duplicate(&mut self, block: SackBlock) -> bool {
        let inside = block.left.at_or_after(self.start) && block.right.at_or_before(self.end);
        if self.unexplained == 0 || !inside {
            return false;
        }
        let bytes = block.right.distance_from(block.left).max(0) as u32;
        self.unexplained = self.unexplained.saturating_sub(bytes);
        self.unexplained == 0
    }

    /// New data is acknowledged. `echo` is the time that the acknowledgement echoes, in whole
    /// milliseconds of our clock; `unlost` says that it covers what had been given up and not sent
    /// again, `clear` that nothing is left that was lost or sent again. Returns whether the original
    /// has arrived.
    //= RFC 3522 §3.2
    //= RFC 5682 §3.1
    pub(super) fn on_progress(
        &mut self,
        phase: Phase,
        echo: Option<u64>,
        unlost: bool,
        clear: bool,
    ) -> bool {
        let Some(resent_at) = self.resent_at else {
            return false;
        };
        if core::mem::replace(&mut self.decided, true) {
            return false;
        }
        match (phase, echo) {
            (Phase::Open, _) => false,
            (_, Some(echo)) => echo < resent_at.as_millis() && (phase == Phase::Loss || clear),
            (Phase::Loss, None) => unlost,
            (Phase::Fast, None) => false,
        }
    }
}
