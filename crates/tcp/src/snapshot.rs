//! A connection as a plain value, to be taken out of one stack and put into another.
//!
//! A stack of another core, of the next version or of another machine may go on with it: so nothing in
//! it is a position in this stack's memory, nothing is a reading of its clock, and nothing follows from
//! its secrets.
//!
//! - *Times are spans*: how long ago something happened, how long something has still to run.
//! - *The flight is a list of pieces*, each with its fate so far and its age. A recovery goes on with
//!   it. What could take the response to a loss back (Eifel, F-RTO) and a tail loss probe that is out
//!   stay behind: that costs a response that might have been undone, and never a byte.
//! - *The timestamp clock* is what it reads: the next stack goes on from there, so that the peer sees
//!   it rise (RFC 7323 §5.4).
//! - *Memory is the owner's.* Extents to be sent and the ranges held out of order name it as before. An
//!   owner that loses what was held out of order empties [`ReceiveSide::held`] first; the peer sends it
//!   again, for it may not forget it (RFC 2018 §8).
//!
//! Congestion control keeps its windows, CUBIC its W_max, and BBR its rate and least round trip; how
//! far each had come in its search for more is forgotten.
//!
//! All spans are nanoseconds unless their name says otherwise, all amounts are bytes, all sequence
//! numbers are those of the wire.

mod unattended;

pub use crate::fast_open::FastOpen;
pub use unattended::{HalfOpen, TimeWait};

use core::net::SocketAddr;

use crate::congestion::Algorithm;
use crate::event::Failure;
use crate::{Extent, KeepAlive, State};

/// Version of [`Snapshot`]: it goes up whenever a field changes its meaning, comes or goes. A better name
/// for the same value leaves it.
pub const VERSION: u16 = 3;

/// A connection between two stacks. See [`Stack::export`](crate::Stack::export).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// [`VERSION`] of whoever wrote it.
    pub version: u16,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Neither CLOSED nor TIME-WAIT.
    pub state: State,
    /// What the SYNs have settled.
    pub agreed: Agreed,
    /// Our stream.
    pub send: SendSide,
    /// The peer's.
    pub receive: ReceiveSide,
    /// What is known of the path.
    pub path: Path,
    /// How much may be in flight.
    pub congestion: Congestion,
    /// What recovery knows.
    pub recovery: RecoveryState,
    /// What is waited for.
    pub waits: Waits,
    /// What the owner has asked for.
    pub owner: Owner,
    /// What has been counted.
    pub totals: Totals,
}

/// What both SYNs have settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How the peer's windows and ours are shifted (RFC 7323 §2), if both sides scale.
    pub window_scales: Option<(u8, u8)>,
    /// Timestamps (RFC 7323 §3), if both sides use them.
    pub timestamps: Option<TimestampClock>,
    /// What the clock of our timestamps reads, whether they are used or not.
    pub timestamp_now: u32,
    /// Selective acknowledgement (RFC 2018).
    pub selective_acks: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Option<Ecn>,
    /// The MSS that the peer announced (RFC 9293 §3.7.1).
    pub peer_mss: u16,
}

/// Timestamps of a connection that uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampClock {
    /// The value to echo (TS.Recent).
    pub recent: u32,
    /// How long ago it was taken, in whole seconds.
    pub recent_age_seconds: u32,
    /// What our clock read at the last retransmission.
    pub retransmitted: u32,
}

/// Where ECN stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecn {
    /// A mark is to be echoed.
    pub echo: bool,
    /// The window has been reduced, and the peer has not been told.
    pub reduced: bool,
    /// A reduction for a mark covers what was sent up to here.
    pub until: u32,
}

/// Our stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendSide {
    /// SND.UNA.
    pub una: u32,
    /// SND.NXT.
    pub nxt: u32,
    /// SND.WND, scaled.
    pub wnd: u32,
    /// The largest SND.WND that there ever was.
    pub max_wnd: u32,
    /// SND.WL1.
    pub wl1: u32,
    /// SND.WL2.
    pub wl2: u32,
    /// SND.SML: after the last segment sent that was not full.
    pub sml: u32,
    /// How much of our stream is acknowledged: where `extents` begins.
    pub acked: u64,
    /// What is to be sent or not acknowledged, in the order of the stream.
    pub extents: Vec<Extent>,
    /// How many of its bytes are pushed: neither Nagle's algorithm (RFC 9293 §3.7.4) nor a cork holds them
    /// back.
    pub pushed: u32,
    /// The sending side is shut down: FIN follows the last byte.
    pub shutdown: bool,
    /// FIN has been sent at least once.
    pub fin_sent: bool,
    /// The SYN is to be sent (again).
    pub syn_due: bool,
    /// Bytes of data that our SYN carried and that are not acknowledged.
    pub syn_data: u16,
    /// Where Fast Open (RFC 7413) stands.
    pub fast_open: FastOpen,
    /// A zero-window probe or a keepalive probe is to be sent.
    pub window_or_keep_alive_probe_due: bool,
}

/// The peer's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveSide {
    /// RCV.NXT.
    pub nxt: u32,
    /// The right edge of the window that was offered (RCV.NXT + RCV.WND).
    pub adv: u32,
    /// Payload of a full segment of the peer's, as observed.
    pub mss: u16,
    /// An acknowledgement is owed.
    pub ack_owed: bool,
    /// Segments still to be acknowledged at once.
    pub quick: u8,
    /// How much may wait for the owner.
    pub buffer: u32,
    /// The buffer follows the path.
    pub tuned: bool,
    /// The sender's round trip in milliseconds, rounded up; 0 while that is not known.
    pub sender_rtt_ms: u16,
    /// How much has arrived in order.
    pub received: u64,
    /// How much of that the owner has consumed.
    pub consumed: u64,
    /// Length of the peer's stream, once its FIN has been seen.
    pub fin_at: Option<u64>,
    /// The owner reads no more of what is yet to come.
    pub shutdown: bool,
    /// What is held out of order: ranges of the peer's stream, in order, that do not touch.
    pub held: Vec<(u64, u64)>,
}

/// What is known of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The largest packet that is sent.
    pub mtu: u16,
    /// The least that is known not to get through; 65,535 if none is.
    pub too_big: u16,
    /// After how many seconds a larger one is tried; negative if that was due.
    pub look_in_seconds: i32,
    /// The MTU is that of a suspected black hole.
    pub guessed: bool,
    /// Bound of our segments by our own link and by TCP_MAXSEG.
    pub local_mss: u16,
    /// SRTT; 0 while nothing was measured.
    pub srtt: u64,
    /// RTTVAR.
    pub rttvar: u64,
    /// The least round trip of the last minutes.
    pub min_rtt: u64,
    /// What an ICMP error or the owner has said of it.
    pub soft_error: Option<Failure>,
}

/// How much may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// cwnd.
    pub cwnd: u32,
    /// ssthresh; `None` while there was no congestion.
    pub ssthresh: Option<u32>,
    /// CUBIC's W_max; 0 if there is none.
    pub w_max: u32,
    /// BBR.max_bw in bytes a second; 0 if the path is not known yet.
    pub max_bw: u64,
    /// BBR.min_rtt; 0 if it is not known.
    pub bbr_min_rtt: u64,
}

/// What recovery knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryState {
    /// Whether a loss is being repaired, and what told of it.
    pub phase: RecoveryPhase,
    /// It is repaired when this is acknowledged.
    pub recover: u32,
    /// Without SACK: duplicate acknowledgements.
    pub duplicate_acks: u16,
    /// Reordering has been seen (RACK.reordering_seen).
    pub reordering_seen: bool,
    /// RACK.reo_wnd_mult.
    pub reo_wnd_mult: u8,
    /// What is in flight, from SND.UNA to SND.NXT.
    pub flight: Vec<FlightPiece>,
}

/// Whether a loss is being repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// None is.
    Open,
    /// Acknowledgements told of one (fast recovery).
    Fast,
    /// A timeout did.
    Loss,
}

/// A piece of the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightPiece {
    /// Its length.
    pub len: u32,
    /// How long ago it was last sent.
    pub age: u64,
    /// What has become of it.
    pub fate: Fate,
}

/// What has become of a piece of the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Sent once; nothing is known of it.
    InFlight,
    /// Sent again; nothing is known of it.
    Retransmitted,
    /// Thought to be lost, to be sent again.
    Lost,
    /// SACKed by the peer (RFC 2018).
    Sacked,
}

/// What is waited for, and for how long still; `None` if it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The retransmission timer (RFC 6298) of a SYN or of data in flight; the persist timer (RFC 9293
    /// 3.8.6.1) if nothing is in flight. PTO, reordering timer and pace stay behind.
    pub rto_or_persist: Option<u64>,
    /// The next keep-alive probe (RFC 9293 3.8.4).
    pub keep_alive: Option<u64>,
    /// The cork's ceiling, or the FIN-WAIT-2 timeout.
    pub cork_or_fin_wait_2: Option<u64>,
    /// Consecutive timeouts without progress.
    pub backoff: u8,
    /// Timeouts and zero-window probes without any answer.
    pub unanswered: u8,
    /// Keepalive probes without an answer.
    pub keep_alive_probes: u8,
    /// For how long what was sent has made no progress.
    pub stalled: u64,
    /// Milliseconds since anything was last sent.
    pub silent_ms: u32,
    /// Milliseconds since anything acceptable was last received.
    pub deaf_ms: u32,
}

/// What the owner has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// It has closed the connection and hears no more.
    pub orphan: bool,
    /// The handshake is complete, or was.
    pub connected: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// The last send said that more would follow.
    pub more: bool,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// Keepalive.
    pub keep_alive: KeepAlive,
    /// TCP_USER_TIMEOUT in milliseconds; 0 if retransmissions are counted instead.
    pub user_timeout_ms: u32,
    /// How long an orphan waits in FIN-WAIT-2, in milliseconds.
    pub fin_wait_2_timeout_ms: u32,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Retransmissions.
    pub retransmits: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments with data received.
    pub data_segments_in: u32,
    /// Segments with data sent.
    pub data_segments_out: u32,
    /// Bytes sent again.
    pub bytes_retransmitted: u32,
}

/// Why a connection could not be exported. It is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// There is no such connection (any more).
    UnknownConnection,
    /// It waits in a listener's queue: accept it first.
    NotAccepted,
    /// It is over: it has failed, been reset, or ended in peace. What is left to be read is its owner's.
    Over,
}

/// Why a connection could not be imported. The stack is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// Another [version](VERSION) of the snapshot.
    Version(u16),
    /// This pair of addresses and ports is in use.
    AddressInUse,
    /// The stack holds [`max_connections`](crate::Config::max_connections), or, of an orphan,
    /// [`max_orphans`](crate::Config::max_orphans).
    TooManyConnections,
    /// Nobody listens where a handshake was begun.
    NoListener,
    /// The parts do not fit one another, for the reason given.
    Inconsistent(&'static str),
}
