//! What the path did to the segments, as far as it can be told from this end.

use wire::segment::Segment;

/// Most kinds of SYN-ACK that are told apart.
const MAX_KINDS: usize = 32;

/// What a SYN-ACK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// The largest segment that may be sent, if it says so.
    pub mss: Option<u16>,
    /// The shift of its windows.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements are permitted.
    pub sack: bool,
    /// Whether it has timestamps.
    pub timestamps: bool,
    /// The window.
    pub window: u16,
    /// The hops that it could still have taken.
    pub hop_limit: u8,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Path {
    kinds: Vec<(Handshake, u64)>,
    others: u64,
    /// Hop limits of segments after the handshake: the least and the greatest.
    later: Option<(u8, u8)>,
}

impl Path {
    #[inline]
    pub(super) fn handshake(&mut self, segment: &Segment<'_>) {
        let options = &segment.tcp.options;
        let seen = Handshake {
            mss: options.mss,
            window_scale: options.window_scale,
            sack: options.sack_permitted,
            timestamps: options.timestamps.is_some(),
            window: segment.tcp.window,
            hop_limit: segment.hop_limit,
        };
        if let Some((_, count)) = self.kinds.iter_mut().find(|(kind, _)| *kind == seen) {
            *count += 1;
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.push((seen, 1));
        } else {
            self.others += 1;
        }
    }

    #[inline]
    pub(super) fn later(&mut self, segment: &Segment<'_>) {
        let hops = segment.hop_limit;
        self.later = Some(match self.later {
            None => (hops, hops),
            Some((least, most)) => (least.min(hops), most.max(hops)),
        });
    }

    /// The kinds of SYN-ACK that came, and how many of each.
    pub fn handshakes(&self) -> &[(Handshake, u64)] {
        &self.kinds
    }

    /// SYN-ACKs of further kinds.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// The least and the greatest hop limit after the handshake.
    pub const fn hop_limits(&self) -> Option<(u8, u8)> {
        self.later
    }
}

/// How many routers a packet passed that arrives with this hop limit, if its sender began with one
/// of the usual numbers.
pub const fn hops(hop_limit: u8) -> u8 {
    match hop_limit {
        0..=32 => 32 - hop_limit,
        33..=64 => 64 - hop_limit,
        65..=128 => 128 - hop_limit,
        _ => 255 - hop_limit,
    }
}
