//! What an acknowledgement says, and what it means to congestion control.

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use crate::Instant;
use crate::congestion::Before;
use crate::time::Nanos;

/// DupThresh: duplicate acknowledgements that tell loss from reordering (RFC 5681 §3.2).
pub(super) const DUP_THRESH: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery: loss was told by acknowledgements.
    Fast,
    /// Loss was told by a timeout.
    Loss,
}

/// An acknowledgement, as far as recovery is concerned, and what the connection knows of its path.
pub(crate) struct Arrival<'a> {
    pub(crate) now: Instant,
    pub(crate) ack: SeqNumber,
    pub(crate) blocks: &'a [SackBlock],
    /// The time that it echoes, in whole milliseconds of our clock, if there are timestamps.
    pub(crate) echo: Option<u64>,
    /// It is a duplicate acknowledgement of RFC 5681 §2.
    pub(crate) duplicate: bool,
    pub(crate) min_rtt: Nanos,
    pub(crate) srtt: Nanos,
    pub(crate) mss: u16,
}

/// What is lost, to congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A recovery begins.
    Entered,
    /// What a recovery had sent again is lost again: a second sign of congestion (RFC 5681 §4.3).
    Again,
    /// A tail was lost, and a TLP has repaired it already.
    Tail,
}

/// What an acknowledgement means.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Bytes that it newly acknowledges or SACKs.
    pub(crate) delivered: u32,
    /// Of those that were sent only once, when the latest was sent.
    pub(crate) sent_at: Option<Instant>,
    /// Where that ends.
    pub(crate) newest: Option<SeqNumber>,
    /// Some of them had been sent again.
    pub(crate) retransmitted: bool,
    /// DSACK: the peer has received something twice.
    pub(crate) dsack: bool,
    /// The repair goes well: new data is acknowledged, and nothing more is lost.
    pub(crate) safe: bool,
    pub(crate) loss: Option<Loss>,
    /// The last response to loss was for nothing: the congestion control as it was before.
    pub(crate) spurious: Option<Before>,
}
