//! What BBR is told.

use wire::seq::SeqNumber;

use crate::Instant;
use crate::time::Nanos;

/// What an acknowledgement, or the passing of time, has told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) now: Instant,
    /// Bytes that have arrived, acknowledged or SACKed.
    pub(crate) bytes: u32,
    /// Of those that were sent only once, where the latest ends.
    pub(crate) newest: Option<SeqNumber>,
    /// SND.UNA.
    pub(crate) una: SeqNumber,
    /// Bytes that were found lost.
    pub(crate) lost: u32,
    /// The round trip of the latest.
    pub(crate) rtt: Option<Nanos>,
    /// Bytes that the network holds now.
    pub(crate) in_flight: u32,
    /// The window was filled in the last round trip.
    pub(crate) cwnd_limited: bool,
    /// It echoes a mark.
    pub(crate) marked: bool,
    /// A loss is being repaired.
    pub(crate) recovering: bool,
}
