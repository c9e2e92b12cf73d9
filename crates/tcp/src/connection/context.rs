//! What a connection is told when it is worked on, and what it shares with the others.

use crate::config::Config;
use crate::counters::Counters;
use crate::fast_open::FastOpens;
use crate::{ConnId, Extent, Instant};

/// What all connections of a stack share.
pub(crate) struct Common {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    /// Records of data in flight that are not in use.
    pub(crate) flights: crate::recovery::Pool,
    /// Challenge acknowledgements left in this second.
    pub(crate) challenges: crate::stack::RateLimit,
    /// Fast Open: cookies, and who is pending.
    pub(crate) fast_opens: FastOpens,
    /// What has been found out of paths.
    pub(crate) path_mtus: crate::path_mtus::PathMtus,
    /// Ranges held out of order.
    pub(crate) out_of_order_ranges: u32,
    /// Where the pieces of a segment are gathered; empty between calls.
    pub(crate) parts: Vec<Extent>,
}

/// What a connection is told when it is worked on.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) id: ConnId,
    pub(crate) common: &'a mut Common,
}

/// The low bits of the clock in milliseconds: enough for what is asked of within weeks.
pub(super) fn milliseconds(now: Instant) -> u32 {
    now.as_millis() as u32
}

/// The low bits of the clock in microseconds: for spans far below the 65 ms in which they go round.
pub(super) fn microseconds(now: Instant) -> u16 {
    now.as_micros() as u16
}

/// The clock in whole seconds, for what is compared in days.
pub(super) fn seconds(now: Instant) -> u32 {
    now.seconds()
}
