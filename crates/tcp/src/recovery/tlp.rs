//! Tail loss probes (TLP): when nothing is heard of the last of what was sent, send something that makes
//! the peer speak (RFC 8985 §7).
//!
//! A flight that loses its end gets no acknowledgement from which the loss would follow, and would
//! wait for the retransmission timeout and begin again by slow start. A TLP after two round trips
//! turns that into a fast recovery, or repairs the loss itself.

use wire::seq::SeqNumber;

use crate::time::Nanos;

/// TLP.max_ack_delay (RFC 8985 §7.2): for how long the peer may delay an ACK.
const MAX_ACK_DELAY: Nanos = Nanos::from_millis(200);

/// A tail loss probe that is out.
//= RFC 8985 §7.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tlp {
    /// SND.NXT after it (TLP.end_seq).
    pub(super) end: SeqNumber,
    /// It carried what had been sent before (TLP.is_retrans).
    pub(super) again: bool,
}

/// What an acknowledgement says of a tail loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing yet.
    Nothing,
    /// It did its work, and nothing had been lost.
    Fine,
    /// It repaired a loss that nobody would have noticed.
    Repaired,
}

impl Tlp {
    /// What an acknowledgement of everything below `ack` says (RFC 8985 §7.4.2). `dsack`: the
    /// peer has told of something that it received twice (DSACK, RFC 2883). `bare`: it is a duplicate
    /// acknowledgement without any SACK block.
    //= RFC 8985 §7.4
    pub(super) fn on_ack(self, ack: SeqNumber, dsack: bool, bare: bool) -> Said {
        if ack.before(self.end) {
            return Said::Nothing;
        }
        if !self.again || dsack {
            return Said::Fine;
        }
        if ack.after(self.end) {
            return Said::Repaired;
        }
        if bare { Said::Fine } else { Said::Nothing }
    }
}

/// PTO: how long to wait before a TLP (RFC 8985 §7.2): two round trips, and if what is in flight is so
/// little that the peer need not acknowledge it at once, the longest delay of a delayed ACK. The RFC
/// has "one segment" for so little; a receiver that counts bytes waits for two full ones.
//= RFC 8985 §7.2
pub(super) fn pto(srtt: Nanos, flight: u32, mss: u16) -> Nanos {
    let twice = srtt.times(2);
    if flight < 2 * u32::from(mss) {
        twice + MAX_ACK_DELAY
    } else {
        twice
    }
}
