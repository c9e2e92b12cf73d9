//! Where payload goes to and segments leave by: the two traits that the owner implements.

use core::net::IpAddr;

use wire::ip::Ecn;
use wire::segment::Link;
use wire::tcp::Repr;

use crate::{ConnId, Extent, Instant, ListenerId};

/// Where received payload is kept. The stack keeps only the bookkeeping.
pub trait PayloadStore {
    /// A connection has come to a listener: until it is accepted, that is for which its bytes are kept. Said before
    /// anything is placed.
    fn expect(&mut self, conn: ConnId, listener: ListenerId) {
        let _ = (conn, listener);
    }

    /// Places `bytes` at `offset` of the stream that `conn` receives, and says how many of the
    /// leading bytes were taken.
    ///
    /// Every byte lies inside the window that was offered and is offered once, except where an
    /// earlier call took less or [`shed_out_of_order`](crate::Stack::shed_out_of_order) let go of
    /// it. Bytes may come out of order: what lies beyond
    /// [`received`](crate::ConnUpdate::received) is not yet readable. Taking fewer than all says
    /// that there is no memory: the rest is not acknowledged, and counted.
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize;
}

/// Where segments go.
pub trait FrameSink {
    /// The largest payload worth offering in one [`emit`](Self::emit) for this connection: `mss`
    /// for one segment at a time, a multiple of it where something below cuts large segments.
    fn burst_limit(&mut self, conn: ConnId, mss: u16) -> usize;

    /// The largest window that this connection should offer now, in bytes: less than it would when
    /// memory runs short, so that peers send less before anything has to be dropped. What was
    /// offered stays offered.
    fn window_limit(&mut self, conn: ConnId) -> u32 {
        let _ = conn;
        u32::MAX
    }

    /// Whether what was just refused by [`emit`](Self::emit) waits for its payload, which is being
    /// fetched, and not for room: then others may go on, and this connection sends nothing of its stream
    /// until [`payload_is_there`](crate::Stack::payload_is_there).
    ///
    /// It waits for that however long it takes, also as an orphan: what was not sent is not unanswered. It
    /// offers the same again from time to time, at least every two minutes. An owner that will never have
    /// the payload says so ([`payload_is_lost`](crate::Stack::payload_is_lost)).
    fn awaits_payload(&mut self, conn: ConnId) -> bool {
        let _ = conn;
        false
    }

    /// Sends one segment, or one burst that is to be cut into segments.
    ///
    /// # Errors
    /// [`SinkFull`]: nothing was sent, and the stack offers it again in the next
    /// [`poll_transmit`](crate::Stack::poll_transmit).
    fn emit(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull>;
}

/// There is no room for another frame now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkFull;

/// A segment, or a burst of segments, on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Whose it is; `None` for answers to what belongs to no connection, for SYN-ACKs, and for
    /// TIME-WAIT.
    pub conn: Option<ConnId>,
    /// Of an answer to what belongs to no connection, or to a SYN: the link that it came by. The way
    /// back along it needs no look at routes and neighbours, which would be expensive in a flood from
    /// made-up addresses.
    pub answers: Option<Link>,
    /// Our address.
    pub src: IpAddr,
    /// The peer's.
    pub dst: IpAddr,
    /// The TCP header. Of a burst: the header of its first segment, with the flags of its last
    /// (FIN and PSH belong on the last segment only).
    pub tcp: Repr,
    /// The payload, in pieces of the owner's send memory.
    pub payload: &'a [Extent],
    /// The sum of the pieces' lengths.
    pub payload_len: usize,
    /// Payload of each segment of a burst but the last; 0 when this is a single segment.
    pub gso_size: u16,
    /// How to mark the IP header.
    pub ecn: Ecn,
}
