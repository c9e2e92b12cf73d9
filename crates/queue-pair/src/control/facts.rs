//! What the engine tells people about itself.

use super::placed::Placed;
use crate::{ConnRef, Profile};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The facts of a connection, as the kernel's TCP_INFO has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnInfo {
    /// The state's name in RFC 9293, such as `ESTABLISHED`.
    pub state: String,
    /// The smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Its variation in microseconds.
    pub rtt_var_us: u32,
    /// The retransmission timeout in microseconds.
    pub rto_us: u32,
    /// The largest segment that is sent, in bytes.
    pub send_mss: u32,
    /// The congestion window in bytes.
    pub congestion_window: u32,
    /// The slow-start threshold in bytes.
    pub slow_start_threshold: u32,
    /// The window that the peer offers, in bytes.
    pub send_window: u32,
    /// The window that is offered to the peer, in bytes.
    pub receive_window: u32,
    /// Bytes sent and not yet acknowledged.
    pub in_flight: u64,
    /// Bytes submitted and not yet acknowledged.
    pub unacked: u64,
    /// Bytes received in order and not yet consumed.
    pub unread: u64,
    /// All bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// All bytes received in order.
    pub bytes_received: u64,
    /// All segments sent again.
    pub retransmits: u64,
    /// The least round-trip time seen, in microseconds; 0 if none was measured.
    pub min_rtt_us: u32,
    /// The largest segment that the peer was seen to send, in bytes.
    pub receive_mss: u32,
    /// The MSS announced to the peer, in bytes.
    pub announced_mss: u32,
    /// The largest packet that the path is known to carry, in bytes.
    pub path_mtu: u32,
    /// Congestion control: `reno`, `cubic` or `bbr`.
    pub congestion: String,
    /// What BBR makes of the path, if that is the congestion control. Since version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bbr: Option<BbrInfo>,
    /// Timestamps are in use.
    pub timestamps: bool,
    /// Selective acknowledgements are in use.
    pub selective_acks: bool,
    /// Data of the SYN was taken (Fast Open).
    pub fast_open: bool,
    /// The shifts of the peer's and of our windows, if they are scaled.
    pub window_scales: Option<(u8, u8)>,
    /// Consecutive timeouts: the exponent of the back-off.
    pub backoff: u8,
    /// Timeouts and probes that the peer has not answered.
    pub unanswered: u8,
    /// Keepalive probes among them.
    pub probes: u8,
    /// What was lost is being repaired.
    pub recovering: bool,
    /// Bytes in flight that are lost and not yet sent again.
    pub lost: u32,
    /// Bytes in flight that the peer has reported.
    pub reported: u32,
    /// Bytes in flight that were sent again.
    pub resent: u32,
    /// Bytes held out of order.
    pub out_of_order: u32,
    /// How many segments later a segment may come without being taken for lost.
    pub reordering: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent, retransmissions included.
    pub segments_out: u32,
    /// Segments with payload among those received.
    pub data_segments_in: u32,
    /// Segments with payload among those sent.
    pub data_segments_out: u32,
    /// Bytes of payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes of payload sent again.
    pub bytes_resent: u64,
    /// How fast the peer acknowledged in its latest round trip, in bytes a second.
    pub delivery_rate: u64,
    /// How fast a window may leave, in bytes a second; `None` if that is not limited.
    pub pacing_rate: Option<u64>,
    /// Milliseconds since payload was last sent.
    pub since_sent_ms: u32,
    /// Milliseconds since a segment last arrived.
    pub since_received_ms: u32,
    /// Nanoseconds since the engine first had to do with it.
    pub age_ns: u64,
    /// What is waited for, in the words of ss(8) (`on`, `persist`, `keepalive`, `timewait`), and for how
    /// many milliseconds still.
    pub timer: Option<(String, u32)>,
    /// Bytes that may wait to be read.
    pub receive_buffer: u32,
}

/// What BBR makes of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BbrInfo {
    /// The rate of the bottleneck, in bytes a second; 0 before it was measured.
    pub bandwidth: u64,
    /// The round trip without a queue, in microseconds; 0 before it was measured.
    pub min_rtt_us: u32,
    /// The factor on the rate at which it sends, in percent.
    pub pacing_gain: u16,
    /// The factor on what it has in flight, in percent.
    pub cwnd_gain: u16,
}

/// An offloaded socket, as `outboard ss` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRow {
    /// Names the connection; `None` for a listener.
    pub conn: Option<ConnRef>,
    /// Whose it is; `None` while it waits to be accepted or outlives its process.
    pub session: Option<u32>,
    /// The process of the session.
    pub pid: Option<u32>,
    /// The program's name.
    pub program: String,
    /// This end.
    pub local: SocketAddr,
    /// The other end; `None` for a listener.
    pub peer: Option<SocketAddr>,
    /// The other end is on this machine, and the engine's too.
    pub within: bool,
    /// Its state; for a listener, `receive_queue` is what waits to be accepted and `send_queue`
    /// the backlog.
    pub state: String,
    /// Bytes received and not read.
    pub receive_queue: u64,
    /// Bytes submitted and not acknowledged; the FIN of a connection that is closed is one.
    pub send_queue: u64,
    /// More about a connection.
    pub info: Option<ConnInfo>,
    /// The core that the program last ran on, as it says, and that of the worker which serves it.
    #[serde(default)]
    pub cores: Option<(u32, u32)>,
    /// How the program wants to be waited for, if it has said.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// Of a listener: where its new connections go, if that was to be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Box<Placed>>,
    /// A listener at every address of both families.
    #[serde(default)]
    pub both_families: bool,
    /// The interface by which a connection leaves, of an engine that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// What became of a socket of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Its number in the process; [`Explanation::NO_DESCRIPTOR`] where the engine speaks of what it
    /// has of the process.
    pub fd: i32,
    /// What it is, in a word or two.
    pub kind: String,
    /// Why it is not offloaded, or empty if it is.
    pub reason: String,
    /// What the engine has of one that is offloaded, in a few words; empty where there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Explanation {
    /// In place of a descriptor that only the process knows.
    pub const NO_DESCRIPTOR: i32 = -1;

    /// The kind of what a process says of the program that it becomes.
    pub const EXECUTED: &str = "executed program";

    /// The kind of a listener at an address, as both sides write it. An IPv4 address that is mapped
    /// into IPv6 is the IPv4 address.
    pub fn listener(local: SocketAddr) -> String {
        match local.ip().to_canonical() {
            IpAddr::V4(ip) => format!("listener {ip}:{}", local.port()),
            IpAddr::V6(_) => format!("listener {local}"),
        }
    }

    /// Whether it speaks of a listener that the engine has.
    pub fn is_offloaded_listener(&self) -> bool {
        self.reason.is_empty() && self.kind.starts_with("listener ")
    }
}

/// A counter, a gauge or a histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name: snake_case, with its unit, such as `rx_dropped_frames`.
    pub name: String,
    /// What distinguishes it from others of the name, such as `("reason", "bad_checksum")`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its value; of a histogram, how many there were.
    pub value: f64,
    /// What it counts, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// How they are distributed, if it is a histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// How what a metric counts is distributed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// All of them together, in the unit that the metric's name ends in.
    pub sum: f64,
    /// The largest.
    pub longest: f64,
    /// How many were at most so large, and larger than the limit before. What is beyond the last limit
    /// only the metric's value counts.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// The limit that a part `share` of all `count` does not exceed, from 0 to 1; beyond the last one the
    /// largest of all.
    pub fn quantile(&self, share: f64, count: f64) -> f64 {
        let mut so_far = 0.0;
        let holds = |(_, within): &&(f64, u64)| {
            so_far += *within as f64;
            so_far >= share * count
        };
        let limit = self.buckets.iter().find(holds).map(|(limit, _)| *limit);
        limit.unwrap_or(self.longest).min(self.longest)
    }
}

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts by size, and only grows.
    Histogram,
}
