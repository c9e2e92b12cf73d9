//! What the stack tells its owner.
//!
//! Events are states, not deltas: however much happens between two polls, a connection has at most
//! one event waiting, and it says where things stand. So the list of events is bounded by the
//! number of connections, and an owner that polls late loses nothing.

use crate::{ConnId, ListenerId};

/// Something worth the owner's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// [`accept`](crate::Stack::accept) would give a connection. Said once per change; accept until
    /// there are none left.
    Acceptable(ListenerId),
    /// Where a connection stands now. Of one that its owner has closed, only `acked` moves: what it
    /// has passed may be freed.
    Connection(ConnId, ConnUpdate),
    /// The stack has forgotten the connection: its name is void, its send memory is free.
    Released(ConnId),
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnUpdate {
    /// Bytes of the peer's stream that have arrived in order, in total.
    pub received: u64,
    /// Bytes of our stream that the peer has acknowledged, in total. FIN is not counted.
    pub acked: u64,
    /// Bytes that are worth handing over before they are acknowledged: what the congestion window
    /// lets go in two round trips, from [`Config::send_buffer`](crate::Config::send_buffer) up to
    /// [`Config::max_send_buffer`](crate::Config::max_send_buffer). Goes up and down with it.
    pub send_buffer: u32,
    /// The handshake is complete.
    pub connected: bool,
    /// The peer's FIN has arrived and everything before it: `received` is final.
    pub peer_closed: bool,
    /// The connection has ended without the consent of both sides. Nothing follows.
    pub failed: Option<Failure>,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Our SYN was answered by RST (ECONNREFUSED).
    Refused,
    /// The peer sent RST, or what nobody would read after the owner had shut down both directions
    /// (ECONNRESET).
    Reset,
    /// The peer stopped answering: retransmissions, window probes, keepalive probes or the user timeout
    /// ran out (ETIMEDOUT).
    TimedOut,
    /// The owner was told that the host cannot be reached (EHOSTUNREACH).
    HostUnreachable,
    /// The owner was told that the network cannot be reached (ENETUNREACH).
    NetworkUnreachable,
    /// The owner itself aborted it (ECONNABORTED); the last thing said before `Released`.
    Aborted,
}
