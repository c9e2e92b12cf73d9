//! What the owner asks of a connection.

use core::time::Duration;

use crate::congestion::Algorithm;

/// A piece of the owner's send memory. The address is opaque: it is handed back unread in
/// [`Outgoing::payload`](crate::Outgoing::payload). Adjacent extents merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Where the bytes begin.
    pub addr: u64,
    /// How many there are.
    pub len: u32,
}

/// A request to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send these bytes after all earlier ones. They must not change until
    /// [`acked`](crate::ConnUpdate::acked) has passed them or the connection is released.
    Send {
        /// The bytes.
        extent: Extent,
        /// More will follow at once (MSG_MORE): a segment that is not full waits for it, for at
        /// most the cork time.
        more: bool,
    },
    /// The owner has consumed this many bytes of the peer's stream, in total. Opens the window. Fewer
    /// than before or more than were received are refused.
    Consumed(u64),
    /// Send the SYN now, if it [waits for data](crate::ConnOptions::hold_syn).
    Open,
    /// No more will be sent: FIN after what is pending (SHUT_WR).
    ShutdownWrite,
    /// No more will be read (SHUT_RD). The peer is not told, and what it sends is received as before while
    /// this side may still send, as Linux has it. After [`ShutdownWrite`](Self::ShutdownWrite) the
    /// connection is as good as closed: what comes then fails it ([`Reset`](crate::Failure::Reset)) and is
    /// answered by RST (RFC 1122 4.2.2.13). What was received before may still be consumed.
    ShutdownRead,
    /// Orphan the connection. FIN after what is pending, or RST at once if received data was not
    /// consumed (RFC 2525 2.17). Ends with [`Released`](crate::Event::Released).
    Close,
    /// Drop everything that is pending and send RST (RFC 9293 3.10.5).
    Abort,
    /// Change an option.
    SetOption(ConnOption),
}

/// An option of one connection, and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnOption {
    /// TCP_NODELAY: send segments that are not full at once. Setting it flushes.
    NoDelay(bool),
    /// TCP_CORK: hold back a segment that is not full, for at most the cork time. Clearing it
    /// flushes.
    Cork(bool),
    /// TCP_QUICKACK: `true` acknowledges the next segments at once.
    QuickAck(bool),
    /// SO_KEEPALIVE.
    KeepAlive(bool),
    /// TCP_KEEPIDLE: idle time before the first keepalive probe, 1 to 32,767 seconds.
    KeepAliveIdle(Duration),
    /// TCP_KEEPINTVL: time between keepalive probes, 1 to 32,767 seconds.
    KeepAliveInterval(Duration),
    /// TCP_KEEPCNT: keepalive probes without an answer until the connection fails, 1 to 127.
    KeepAliveCount(u8),
    /// TCP_USER_TIMEOUT: how long sent data may stay unacknowledged; zero for the default, which
    /// counts retransmissions instead.
    UserTimeout(Duration),
    /// TCP_LINGER2: how long an orphan waits in FIN-WAIT-2.
    FinWait2Timeout(Duration),
    /// TCP_CONGESTION. The window starts over from where it stands.
    Congestion(Algorithm),
    /// TCP_MAXSEG: upper bound for the segments that we send, in bytes of payload and options.
    MaxSegment(u16),
}

/// Why a request was refused. The connection is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// There is no such connection (any more).
    UnknownConnection,
    /// The sending side has been shut down (EPIPE).
    SendAfterShutdown,
    /// The connection has failed already; the failure stands in its last update.
    Failed,
    /// The connection is closed already: nothing may follow `Close`.
    AfterClose,
    /// `Consumed` names fewer bytes than before or more than were received.
    BadConsumed,
    /// An extent of no length, or one that runs past the end of addresses.
    BadExtent,
    /// The connection holds [`max_send_extents`](crate::Config::max_send_extents) pieces, or would hold
    /// more than two gigabytes.
    TooManyExtents,
    /// The value of an option is out of its range.
    BadOption,
}

/// Why a listener could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenError {
    /// Another listener has this address and port (EADDRINUSE).
    AddressInUse,
    /// The stack holds [`max_listeners`](crate::Config::max_listeners).
    TooManyListeners,
    /// Port zero, or an address that nobody can connect to.
    BadAddress,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    /// This pair of addresses and ports is in use (EADDRNOTAVAIL).
    AddressInUse,
    /// The stack holds [`max_connections`](crate::Config::max_connections).
    TooManyConnections,
    /// An unspecified or multicast address, port zero, or two address families.
    BadAddress,
}
