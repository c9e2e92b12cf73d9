//! Settings of TCP.

use serde::{Deserialize, Serialize};

use super::{OutOfRange, in_range};

/// TCP's settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Congestion control of new connections.
    pub congestion: Congestion,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Segments that may leave at once on paths of more than half a millisecond, before they are paced
    /// to the window a round trip, at least two; 0 to send as fast as the window allows, which BBR never
    /// does.
    pub pacing_burst: u16,
    /// Receive buffer that a connection begins with, in bytes: the largest window that it offers.
    pub receive_buffer: u32,
    /// What it may grow to as a program consumes what comes, in bytes, and the most that a program may
    /// choose. No more than `receive_buffer` is for no growth.
    pub receive_buffer_limit: u32,
    /// Bytes that a program may have handed over unacknowledged, whatever the path is like.
    pub send_buffer: u32,
    /// What that may grow to with the congestion window, in bytes. No more than `send_buffer` is for no
    /// growth.
    pub send_buffer_limit: u32,
    /// Longest time between the first and the last SYN that a connect sends, in seconds.
    pub connect_timeout_seconds: u32,
    /// What packets start with as their hop limit (TTL).
    pub hop_limit: u8,
    /// The least that an IPv4 path's MTU is taken for, whatever ICMP says, in bytes.
    pub min_path_mtu: u16,
    /// Which SYNs may carry data (TCP Fast Open).
    pub fast_open: FastOpen,
    /// Answer SYNs by cookies when `limits.half_open` is reached, instead of not at all.
    pub syn_cookies: bool,
    /// How long TIME-WAIT lasts, in seconds.
    pub time_wait_seconds: u32,
}

/// Congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// RFC 5681.
    Reno,
    /// Version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// TCP Fast Open (RFC 7413).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FastOpen {
    /// None.
    Off,
    /// Those of clients, to listeners whose program has asked for it (`TCP_FASTOPEN`).
    Accept,
    /// Our own, of programs that ask for it (`TCP_FASTOPEN_CONNECT`, `MSG_FASTOPEN`).
    Connect,
    /// Both.
    Both,
}

impl FastOpen {
    /// Whether SYNs of clients may carry data.
    pub fn accepts(self) -> bool {
        matches!(self, Self::Accept | Self::Both)
    }

    /// Whether our own may.
    pub fn connects(self) -> bool {
        matches!(self, Self::Connect | Self::Both)
    }
}

/// Explicit congestion notification (RFC 3168), as Linux's `tcp_ecn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Never.
    Off,
    /// If the peer that connects asks for it.
    Accept,
    /// Also ask for it when connecting.
    On,
}

impl From<Ecn> for tcp::EcnPolicy {
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::Off => Self::Off,
            Ecn::Accept => Self::Accept,
            Ecn::On => Self::On,
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            congestion: Congestion::Cubic,
            ecn: Ecn::Accept,
            pacing_burst: 10,
            receive_buffer: 128 << 10,
            receive_buffer_limit: 32 << 20,
            send_buffer: 256 << 10,
            send_buffer_limit: 32 << 20,
            connect_timeout_seconds: 127,
            hop_limit: 64,
            min_path_mtu: 552,
            fast_open: FastOpen::Off,
            syn_cookies: true,
            time_wait_seconds: 60,
        }
    }
}

impl Tcp {
    /// How often a SYN is sent again, the first time after a second and then each time after twice
    /// as long, so that the last one is given up within the connect timeout.
    pub fn syn_retries(&self) -> u8 {
        // n SYNs take 2^n - 1 seconds; the timeout is at most 600.
        (self.connect_timeout_seconds.saturating_add(1).ilog2() as u8).saturating_sub(1)
    }

    /// The largest receive buffer that a connection may come to, in bytes.
    pub fn most_receive_buffer(&self) -> u32 {
        self.receive_buffer.max(self.receive_buffer_limit)
    }

    pub(super) fn check(&self) -> Result<(), OutOfRange> {
        let of = |key, value: u32, low, high| in_range("tcp", key, value.into(), low, high);
        of("receive_buffer", self.receive_buffer, 4096, 1 << 28)?;
        let limit = self.receive_buffer_limit;
        of("receive_buffer_limit", limit, 0, 1 << 28)?;
        of("send_buffer", self.send_buffer, 4096, 1 << 28)?;
        of("send_buffer_limit", self.send_buffer_limit, 0, 1 << 28)?;
        of(
            "connect_timeout_seconds",
            self.connect_timeout_seconds,
            1,
            600,
        )?;
        of("time_wait_seconds", self.time_wait_seconds, 1, 240)?;
        of("pacing_burst", self.pacing_burst.into(), 0, 1000)?;
        of("min_path_mtu", self.min_path_mtu.into(), 68, 1500)?;
        of("hop_limit", self.hop_limit.into(), 1, 255)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_fit_into_the_connect_timeout() {
        for (seconds, retries) in [(1, 0), (2, 0), (3, 1), (126, 5), (127, 6), (600, 8)] {
            let tcp = Tcp {
                connect_timeout_seconds: seconds,
                ..Tcp::default()
            };
            assert_eq!(tcp.syn_retries(), retries, "{seconds} s");
        }
    }
}
