//! What was taken for loss and was none: finding out, and taking the response back.
//!
//! Three witnesses, in the order of their speed:
//!
//! - *Timestamps* (Eifel detection, RFC 3522 §3.2): the first acknowledgement of new data echoes a
//!   time before the first retransmission, so it answers the original.
//! - *What was never sent again* (F-RTO, RFC 5682): after a timeout, something is acknowledged that
//!   had been given up and that no retransmission carried. It serves where there are no timestamps.
//!   So that there is something of the kind, the first acknowledgement after the timeout lets new
//!   data go instead of what was given up. Without SACK only the second acknowledgement counts:
//!   the first may jump over what the peer had kept, and says nothing of when that arrived.
//! - *DSACK* (RFC 2883, RFC 3708 §3): the peer has received twice all that was sent again.
//!
//! The response is that of RFC 9438 §4.9 and RFC 4015 §3.2: the congestion control is again what it
//! was, and the bursts that this would allow are for pacing to smooth.

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use super::Phase;
use crate::Instant;
use crate::congestion::Before;

/// The beginning of a recovery, to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The congestion control as it was.
    pub(super) congestion: Before,
    /// What was in doubt: from SND.UNA to SND.NXT when it began.
    start: SeqNumber,
    end: SeqNumber,
    /// When something was first sent again.
    retransmitted_at: Option<Instant>,
    /// Bytes sent again of which no DSACK has told that the peer received them twice.
    unexplained: u32,
    /// Timestamps and F-RTO have decided, one way or the other.
    decided: bool,
    /// F-RTO is under way: the timeout's retransmission is acknowledged, and new data is to tell what
    /// became of the rest.
    frto: bool,
    /// The recovery is over; beyond this number a DSACK is too late.
    until: Option<SeqNumber>,
}

impl Undo {
    pub(super) fn new(congestion: Before, start: SeqNumber, end: SeqNumber) -> Undo {
        Undo {
            congestion,
            start,
            end,
            retransmitted_at: None,
            unexplained: 0,
            decided: false,
            frto: false,
            until: None,
        }
    }

    pub(super) fn on_retransmitted(&mut self, bytes: u32, now: Instant) {
        self.retransmitted_at.get_or_insert(now);
        self.unexplained = self.unexplained.saturating_add(bytes);
        self.stop_frto();
    }

    /// Whether new data should leave rather than what was given up (RFC 5682 §2.1, step 2b).
    pub(super) fn is_frto(&self) -> bool {
        self.frto
    }

    /// An answer will not come, or would say nothing any more.
    pub(super) fn stop_frto(&mut self) {
        self.decided |= core::mem::take(&mut self.frto);
    }

    /// A duplicate acknowledgement: what was given up is missing indeed (RFC 5682 §2.1, step 3a).
    /// Before any progress it says so, too, if the peer does not SACK. Returns whether
    /// new data had been sent to find out.
    pub(super) fn on_duplicate_ack(&mut self, phase: Phase, selective: bool) -> bool {
        let frto = self.frto;
        self.decided |= phase == Phase::Loss && !selective && self.retransmitted_at.is_some();
        self.stop_frto();
        frto
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
    pub(super) fn on_dsack(&mut self, block: SackBlock) -> bool {
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
    //= RFC 5682 §2.1, §3.1
    pub(super) fn on_progress(
        &mut self,
        (phase, selective): (Phase, bool),
        ack: SeqNumber,
        echo: Option<u64>,
        unlost: bool,
        clear: bool,
    ) -> bool {
        let Some(retransmitted_at) = self.retransmitted_at else {
            return false;
        };
        if core::mem::replace(&mut self.decided, true) {
            return false;
        }
        let first = !core::mem::take(&mut self.frto);
        match (phase, echo) {
            (Phase::Open, _) => false,
            (_, Some(echo)) => {
                echo < retransmitted_at.as_millis() && (phase == Phase::Loss || clear)
            }
            (Phase::Loss, None) if unlost && (selective || !first) => true,
            (Phase::Loss, None) => {
                self.frto = first && ack.before(self.end);
                self.decided = !self.frto;
                false
            }
            (Phase::Fast, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Algorithm, Controller};

    /// A recovery in which the first of ten segments was sent again after 100 ms.
    fn undo() -> Undo {
        let congestion = Controller::new(Algorithm::Reno, 1_000).before();
        let mut undo = Undo::new(congestion, SeqNumber(0), SeqNumber(10_000));
        undo.on_retransmitted(1_000, Instant::from_millis(100));
        undo
    }

    //~ RFC 3522 §3.2
    #[test]
    fn an_original_that_came_late_says_nothing_of_what_else_is_lost() {
        let fast = (Phase::Fast, true);
        let early = Some(50);
        assert!(undo().on_progress(fast, SeqNumber(1_000), early, false, true));
        assert!(!undo().on_progress(fast, SeqNumber(1_000), early, false, false));
        // An echo of the retransmission proves nothing.
        assert!(!undo().on_progress(fast, SeqNumber(1_000), Some(100), false, true));
    }
}
