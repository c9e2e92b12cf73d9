//! What can be asked about a connection: enough to fill `TCP_INFO` and a line of `ss`.

use core::net::SocketAddr;
use core::time::Duration;

use wire::flow::FlowKey;

use crate::congestion::Algorithm;
use crate::event::Failure;
use crate::time::Nanos;

/// The state of a connection (RFC 9293 3.3.2). LISTEN is a listener, not a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Our SYN is out.
    SynSent,
    /// Both SYNs are out, ours is not acknowledged.
    SynReceived,
    /// Open.
    Established,
    /// Our FIN is out, the peer's has not come.
    FinWait1,
    /// Our FIN is acknowledged, the peer's has not come.
    FinWait2,
    /// The peer's FIN has come, ours has not gone.
    CloseWait,
    /// Both FINs are out, ours is not acknowledged.
    Closing,
    /// As CLOSING, but the peer was first.
    LastAck,
    /// Done, waiting for stray segments to die.
    TimeWait,
    /// Ended; the owner has not let go of it.
    Closed,
}

/// What is known of two ends that have no connection yet, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairInfo {
    /// [`State::SynReceived`] or [`State::TimeWait`].
    pub state: State,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Timeouts that the peer has not answered.
    pub unanswered: u8,
    /// What is waited for, as [`ConnInfo::timer`] has it.
    pub timer: (&'static str, Duration),
}

impl PairInfo {
    pub(crate) fn new(state: State, key: &FlowKey, unanswered: u8, left: Nanos) -> Self {
        let what = if state == State::TimeWait {
            "timewait"
        } else {
            "on"
        };
        Self {
            state,
            local: SocketAddr::new(key.local, key.local_port),
            remote: SocketAddr::new(key.remote, key.remote_port),
            unanswered,
            timer: (what, left.into()),
        }
    }
}

/// What BBR makes of a path (`struct tcp_bbr_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BbrInfo {
    /// BBR.bw: the rate of the bottleneck, bytes a second; 0 before the first sample.
    pub bandwidth: u64,
    /// BBR.min_rtt: the round trip without a queue; zero before the first.
    pub min_rtt: Duration,
    /// BBR.pacing_gain, in percent.
    pub pacing_gain: u16,
    /// BBR.cwnd_gain, in percent.
    pub cwnd_gain: u16,
}

/// A snapshot of one connection.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// State.
    pub state: State,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// The owner has closed it.
    pub orphaned: bool,
    /// Congestion control.
    pub congestion: Algorithm,
    /// What BBR makes of the path, if that is the congestion control.
    pub bbr: Option<BbrInfo>,
    /// The connection agreed on timestamps.
    pub timestamps: bool,
    /// The connection agreed on selective acknowledgement.
    pub selective_acks: bool,
    /// Data of a SYN was taken (Fast Open, RFC 7413).
    pub fast_open: bool,
    /// Shifts of the peer's and of our windows, if agreed on.
    pub window_scales: Option<(u8, u8)>,
    /// Payload of a full segment that we send.
    pub send_mss: u16,
    /// Payload of a full segment that we receive, as observed.
    pub receive_mss: u16,
    /// The largest IP datagram that is sent, in bytes.
    pub path_mtu: u16,
    /// What routers, or the owner, have said of the path without ending the connection.
    pub soft_error: Option<Failure>,
    /// SRTT: the smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// RTTVAR: its variation.
    pub rttvar: Option<Duration>,
    /// The smallest round trip of the last five minutes.
    pub min_rtt: Option<Duration>,
    /// RTO: the retransmission timeout, back-off included.
    pub rto: Duration,
    /// Consecutive timeouts without progress.
    pub backoff: u8,
    /// cwnd: the congestion window, bytes.
    pub cwnd: u32,
    /// ssthresh: the slow start threshold, bytes; `None` until the first loss.
    pub ssthresh: Option<u32>,
    /// Window that the peer offers, bytes.
    pub send_window: u32,
    /// Window that we offer, bytes.
    pub receive_window: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight: u32,
    /// Bytes accepted from the owner and not acknowledged, sent or not.
    pub send_queue: u64,
    /// Bytes received in order and not consumed.
    pub receive_queue: u64,
    /// Bytes held out of order.
    pub out_of_order: u32,
    /// Bytes acknowledged in total.
    pub bytes_acked: u64,
    /// Bytes received in order in total.
    pub bytes_received: u64,
    /// Segments retransmitted in total.
    pub retransmits: u32,
    /// Timeouts and zero-window probes that the peer has not answered.
    pub unanswered: u8,
    /// Keepalive probes that the peer has not answered.
    pub keep_alive_probes: u8,
    /// What was lost is being repaired.
    pub recovering: bool,
    /// Bytes in flight that are lost and not yet sent again.
    pub lost: u32,
    /// Bytes in flight that the peer has SACKed (RFC 2018).
    pub sacked: u32,
    /// Bytes in flight that were sent again.
    pub retransmitted: u32,
    /// The MSS that we announce, in bytes.
    pub announced_mss: u16,
    /// How many segments later one may come without being taken for lost.
    pub reordering: u32,
    /// Segments received, wrapping at 2^32.
    pub segments_in: u32,
    /// Segments sent, retransmissions included, wrapping at 2^32.
    pub segments_out: u32,
    /// Segments with payload among those received, wrapping at 2^32.
    pub data_segments_in: u32,
    /// Segments with payload among those sent, wrapping at 2^32.
    pub data_segments_out: u32,
    /// Bytes of payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes of payload sent again; counts up to 4 GiB.
    pub bytes_retransmitted: u64,
    /// How fast the peer acknowledged in its latest round trip, bytes a second.
    pub delivery_rate: u64,
    /// The rate at which a window is spread over its round trip, bytes a second; `None` where it
    /// is not: before the first measurement, and where the round trip is too short to matter.
    pub pacing_rate: Option<u64>,
    /// Time until the next timer, if one runs.
    pub next_timer: Option<Duration>,
    /// What is waited for, in the words of ss(8), and for how long: `on` (a retransmission),
    /// `persist`, `keepalive`, `timewait`.
    pub timer: Option<(&'static str, Duration)>,
    /// Bytes that may wait to be read.
    pub receive_buffer: u32,
    /// Since the last payload was sent.
    pub since_sent: Duration,
    /// Since the last segment arrived.
    pub since_received: Duration,
}
