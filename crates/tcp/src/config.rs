//! What can be set, with the limits on everything that a peer or an owner can make us hold.

use core::net::IpAddr;
use core::time::Duration;

use crate::congestion::Algorithm;

/// Settings of a [`Stack`](crate::Stack). The defaults are Linux's where Linux has the setting.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest IP datagram that the interface carries, in bytes. Bounds the MSS that we announce
    /// and the segments that we send.
    pub mtu: u16,
    /// The least that an IPv4 path's MTU is taken for, whatever ICMP says, in bytes: smaller links
    /// are rarer than forged messages about them (RFC 5927 §7.2).
    pub min_path_mtu: u16,
    /// Peers whose path's MTU is remembered.
    pub max_path_mtus: u32,
    /// Flows for which the table has room from the beginning: up to that many it never has to be
    /// rebuilt, which holds up everything else for a moment.
    pub expected_flows: u32,
    /// Connections at once, orphans included, half-open ones and TIME-WAIT not.
    pub max_connections: u32,
    /// Listeners at once.
    pub max_listeners: u32,
    /// Half-open connections at once, of all listeners together.
    pub max_half_open: u32,
    /// Pairs in TIME-WAIT at once; the oldest makes room for a new one.
    pub max_time_wait: u32,
    /// Orphaned connections (closed by the owner, not yet by the protocol) at once; beyond that
    /// closing is by RST.
    pub max_orphans: u32,
    /// Pieces of unacknowledged send memory that a connection may hold.
    pub max_send_extents: u32,
    /// Separate ranges that a connection may hold out of order.
    pub max_out_of_order_ranges: u16,
    /// The same of all connections together.
    pub max_out_of_order_ranges_in_total: u32,
    /// Segments that belong to no connection and wait for room to leave (RST, challenge ACK,
    /// SYN-ACK).
    pub max_control_segments: u16,
    /// Challenge acknowledgements a second, of all connections together (RFC 5961 §7). Each second
    /// some of them, up to half, are withheld, so that no peer can learn from their number what has
    /// been sent on connections of others.
    pub challenge_acks_per_second: u32,
    /// RSTs a second for segments that belong to nothing.
    pub resets_per_second: u32,
    /// The largest window that a connection may come to offer: fixes the window scale (RFC 7323
    /// 2.3), and is the limit of receive buffers that tune themselves.
    pub max_receive_buffer: u32,
    /// What [`send_buffer`](crate::ConnUpdate::send_buffer) begins with, in bytes.
    pub send_buffer: u32,
    /// What it may come to, in bytes.
    pub max_send_buffer: u32,
    /// Offer and accept window scaling.
    pub window_scaling: bool,
    /// Offer and accept timestamps.
    pub timestamps: bool,
    /// Offer and accept selective acknowledgement.
    pub selective_acks: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: EcnPolicy,
    /// Segments that may leave at once before their pace is held to the window a round trip, at least two;
    /// on fast paths as much as the pace sends in a quarter of a round trip, and two milliseconds at most. 0 to
    /// send as fast as the window allows, which BBR never does.
    pub pacing_burst: u16,
    /// Send what fits one segment by a path of its own. It saves time and changes nothing else: without it
    /// the same segments leave, which tests compare.
    pub one_segment_path: bool,
    /// Tail loss probes (TLP, RFC 8985 §7).
    pub tail_loss_probes: bool,
    /// When the SYN queue is full, answer by cookies (RFC 4987 §3.6) instead of not at all.
    pub syn_cookies: bool,
    /// Try TCP Fast Open (RFC 7413) where a connection [asks for it](ConnOptions::fast_open).
    pub fast_open_client: bool,
    /// Accept it where a [listener](ConnOptions::fast_open) does.
    pub fast_open_server: bool,
    /// Connections opened by Fast Open whose handshake is not complete, at once.
    pub max_fast_opens: u32,
    /// Servers whose Fast Open cookies are remembered.
    pub max_fast_open_cookies: u32,
    /// Retransmissions of our SYN before an active open fails.
    pub syn_retries: u8,
    /// Retransmissions of a SYN-ACK before a half-open connection is forgotten.
    pub syn_ack_retries: u8,
    /// Consecutive retransmissions or unanswered zero-window probes before a connection fails.
    pub retries: u8,
    /// The same for an orphan, which also may not be kept waiting by a closed window.
    pub orphan_retries: u8,
    /// How long a pair stays in TIME-WAIT.
    pub time_wait: Duration,
    /// Delayed ACK: how long an acknowledgement may wait for data that carries it, or for more to acknowledge
    /// (RFC 9293 3.8.6.3: below 0.5 s).
    pub delayed_ack: Duration,
    /// The same while a connection is young and its peer may be waiting for the ACK.
    pub early_delayed_ack: Duration,
    /// How many full segments a young connection acknowledges without waiting for a second.
    pub quick_acks: u8,
    /// How long a cork or `more` may hold back a segment.
    pub cork_ceiling: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 1500,
            min_path_mtu: 552,
            max_path_mtus: 4096,
            expected_flows: 0,
            max_connections: 1 << 20,
            max_listeners: 1024,
            max_half_open: 65_536,
            max_time_wait: 131_072,
            max_orphans: 65_536,
            max_send_extents: 16_384,
            max_out_of_order_ranges: 1024,
            max_out_of_order_ranges_in_total: 1 << 18,
            max_control_segments: 4096,
            challenge_acks_per_second: 1000,
            resets_per_second: 10_000,
            max_receive_buffer: 6 << 20,
            send_buffer: 256 << 10,
            max_send_buffer: 4 << 20,
            window_scaling: true,
            timestamps: true,
            selective_acks: true,
            ecn: EcnPolicy::Accept,
            pacing_burst: 10,
            one_segment_path: true,
            tail_loss_probes: true,
            syn_cookies: true,
            fast_open_client: false,
            fast_open_server: false,
            max_fast_opens: 1024,
            max_fast_open_cookies: 4096,
            syn_retries: 6,
            syn_ack_retries: 5,
            retries: 15,
            orphan_retries: 8,
            time_wait: Duration::from_secs(60),
            //= RFC 9293 MUST-40
            delayed_ack: Duration::from_millis(40),
            early_delayed_ack: Duration::from_millis(2),
            quick_acks: 16,
            cork_ceiling: Duration::from_millis(200),
        }
    }
}

impl Config {
    /// Ranges out of order that may come to those held.
    pub(crate) fn ranges_left(&self, held: u32) -> u32 {
        self.max_out_of_order_ranges_in_total.saturating_sub(held)
    }
}

/// Whether connections use explicit congestion notification (RFC 3168), as Linux's `tcp_ecn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EcnPolicy {
    /// Never (0).
    Off,
    /// If the peer that connects asks for it (2, as the kernel does).
    #[default]
    Accept,
    /// Also ask for it when connecting (1).
    On,
}

/// Keep-alives (RFC 9293 3.8.4): SO_KEEPALIVE and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Whether to send keep-alive probes at all.
    pub enabled: bool,
    /// Idle seconds before the first keepalive probe, 1 to 32,767.
    pub idle: u16,
    /// Seconds between keepalive probes, 1 to 32,767.
    pub interval: u16,
    /// Unanswered keepalive probes until the connection fails, 1 to 127.
    pub count: u8,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            //= RFC 9293 MUST-25
            enabled: false,
            //= RFC 9293 MUST-28
            idle: 7200,
            interval: 75,
            count: 9,
        }
    }
}

/// What a connection starts with. Most can be changed later by
/// [`ConnOption`](crate::ConnOption).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnOptions {
    /// Congestion control.
    pub congestion: Algorithm,
    /// Switches Nagle's algorithm off.
    pub no_delay: bool,
    /// Bytes of the peer's stream that may wait for the owner.
    pub receive_buffer: u32,
    /// That is only what it begins with: it grows, up to [`Config::max_receive_buffer`], as far as
    /// the owner consumes what comes (`tcp_moderate_rcvbuf`).
    pub tune_receive_buffer: bool,
    /// Largest IP datagram towards this peer, if smaller than [`Config::mtu`].
    pub mtu: Option<u16>,
    /// Upper bound of the MSS both announced and used (TCP_MAXSEG).
    pub max_segment: Option<u16>,
    /// Keepalive.
    pub keep_alive: KeepAlive,
    /// How long sent data may stay unacknowledged; `None` counts retransmissions instead.
    pub user_timeout: Option<Duration>,
    /// How long an orphan waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_wait_2_timeout: Duration,
    /// TCP Fast Open (RFC 7413), if [`Config`] allows it; 0 for none. Of a connection to be opened: what is
    /// handed over before its SYN leaves may leave with it. Of a listener: so many connections of the stack
    /// may be opened by SYNs alone and not have completed their handshake, for this one to open another
    /// (TCP_FASTOPEN). Its owner then accepts connections before their handshake, and may see one twice
    /// (RFC 7413 §2.1).
    pub fast_open: u32,
    /// Of a listener: how many times a SYN-ACK has to have waited in vain, each time twice as long as before, until
    /// an acknowledgement alone completes a handshake; before, data or a FIN does (TCP_DEFER_ACCEPT). No more
    /// than a SYN-ACK is sent again ([`Config::syn_ack_retries`]). 0: the first acknowledgement does.
    pub defer_accept: u8,
    /// Of a connection to be opened with [`fast_open`](Self::fast_open): where a cookie is known its SYN waits
    /// for the first data, and leaves with that (TCP_FASTOPEN_CONNECT).
    /// [`Stack::syn_room`](crate::Stack::syn_room) says whether it does.
    pub hold_syn: bool,
}

impl Default for ConnOptions {
    fn default() -> Self {
        Self {
            congestion: Algorithm::Cubic,
            no_delay: false,
            receive_buffer: 256 << 10,
            tune_receive_buffer: false,
            mtu: None,
            max_segment: None,
            keep_alive: KeepAlive::default(),
            user_timeout: None,
            fin_wait_2_timeout: Duration::from_secs(60),
            fast_open: 0,
            defer_accept: 0,
            hold_syn: false,
        }
    }
}

/// What to listen on.
#[derive(Clone, Copy, Debug)]
pub struct ListenSpec {
    /// The address, or `None` for any address. `Some` of an unspecified address means any address
    /// of that family (and of IPv4 too, for IPv6 without `v6_only`).
    pub addr: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Connections that may wait to be accepted; as in the kernel, one more than this is.
    pub backlog: u32,
    /// Half-open connections of this listener at once.
    pub max_half_open: u32,
    /// With an unspecified IPv6 address: not IPv4 as well.
    pub v6_only: bool,
    /// What accepted connections start with.
    pub options: ConnOptions,
}
