//! What a stack holds for nobody yet, or for nobody any more, as plain values: handshakes that a peer
//! has begun, and pairs in TIME-WAIT. They go with the addresses and ports that they are about.

use core::net::SocketAddr;

use wire::segment::Link;

/// A handshake that a peer has begun and our SYN-ACK has answered. See
/// [`Stack::export_half_open`](crate::Stack::export_half_open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpen {
    /// [`VERSION`](super::VERSION) of whoever wrote it.
    pub version: u16,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Our initial sequence number (ISS).
    pub iss: u32,
    /// The peer's (IRS).
    pub irs: u32,
    /// How the peer's windows and ours are shifted (RFC 7323 §2), if both sides scale.
    pub window_scales: Option<(u8, u8)>,
    /// The peer's timestamp (RFC 7323 §3), if both sides use them.
    pub timestamp: Option<u32>,
    /// What the clock of our timestamps reads.
    pub timestamp_now: u32,
    /// Selective acknowledgement (RFC 2018).
    pub selective_acks: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The MSS that the peer announced (RFC 9293 §3.7.1).
    pub peer_mss: u16,
    /// The one that we did.
    pub mss: u16,
    /// The window that we offered, which is not scaled.
    pub window: u16,
    /// How the SYN came, and the SYN-ACK goes.
    pub link: Link,
    /// How often the SYN-ACK has left.
    pub syn_acks: u8,
    /// How long ago, if it has left once.
    pub sent_ago: Option<u64>,
    /// How often it was said to be due again.
    pub retries: u8,
    /// When it is due again.
    pub retransmit_in: u64,
}

/// A pair of addresses and ports in TIME-WAIT. See
/// [`Stack::export_time_wait`](crate::Stack::export_time_wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWait {
    /// [`VERSION`](super::VERSION) of whoever wrote it.
    pub version: u16,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// SND.NXT.
    pub snd_nxt: u32,
    /// RCV.NXT.
    pub rcv_nxt: u32,
    /// What an acknowledgement says of our window.
    pub window: u16,
    /// TS.Recent, and what the clock of our timestamps reads, if the connection used them.
    pub timestamps: Option<(u32, u32)>,
    /// How long ago it began.
    pub age: u64,
    /// How long it has still to wait.
    pub left: u64,
}
