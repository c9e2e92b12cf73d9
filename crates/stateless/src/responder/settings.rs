//! What a responder is told at its start.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use super::state::LARGEST;

/// Most ranges of ports.
pub const MAX_RANGES: usize = 8;

/// Longest frame that is looked at, in bytes: a request is one segment.
pub const MAX_FRAME: usize = 2048;

/// Most bytes of one answer in several segments: within the window of a client that does not
/// scale it.
pub const MAX_BURST: usize = 60_000;

/// Room for everything of a response but its body, in bytes.
pub const HEAD_ROOM: usize = 300;

/// Most bytes of body in one.
pub const MAX_BURST_BODY: u32 = (MAX_BURST - HEAD_ROOM) as u32;

/// How connections end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloseStyle {
    /// FIN, and the acknowledgement of the client's.
    #[default]
    Fin,
    /// FIN, and a reset as soon as the client has acknowledged it.
    Reset,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The secret of the hash. Responders with the same one can stand in for each other.
    pub key: [u8; 16],
    /// The ports served; a segment *from* one of them is another responder's, and not answered.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Whether acknowledgements must be in the window.
    pub strict: bool,
    /// How connections end.
    pub close: CloseStyle,
    /// Largest IP packet to send, in bytes.
    pub mtu: u16,
    /// Whether an answer may be several segments.
    pub bursts: bool,
    /// Whether a TCP checksum may be that of the pseudo-header alone.
    pub partial_checksums: bool,
    /// Bytes of body that `/` has.
    pub default_size: u32,
    /// Broadcast addresses of the interface: nobody sends from them.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Whether the interface is the loopback, where 127/8 and ::1 are at home.
    pub loopback: bool,
}

impl Settings {
    /// For some ports, with a secret.
    pub fn new(key: [u8; 16], ports: Vec<RangeInclusive<u16>>) -> Self {
        Self {
            key,
            ports,
            strict: true,
            close: CloseStyle::Fin,
            mtu: 1500,
            bursts: false,
            partial_checksums: false,
            default_size: 64,
            broadcasts: Vec::new(),
            loopback: false,
        }
    }

    /// Largest TCP segment (options included) that is sent to a client of either family, in bytes.
    pub fn segment(&self, ipv6: bool) -> u16 {
        self.announced(ipv6).min(LARGEST)
    }

    /// The MSS that is announced, in bytes: what an Ethernet frame takes, and [`MAX_FRAME`].
    pub fn announced(&self, ipv6: bool) -> u16 {
        let header = if ipv6 { 60 } else { 40 };
        self.mtu.min(1500).saturating_sub(header)
    }

    /// Largest body that is promised, in bytes. A client that takes less gets less.
    pub fn max_body(&self) -> u32 {
        if self.bursts {
            return MAX_BURST_BODY;
        }
        let largest = usize::from(self.segment(true));
        (largest - HEAD_ROOM.min(largest)) as u32
    }
}
