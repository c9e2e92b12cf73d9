//! What the two versions of IP have in common.

/// The protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

/// Explicit congestion notification: the two low bits of the traffic class (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand ECN.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0): what a TCP of RFC 3168 sends.
    Capable0 = 2,
    /// Congestion was experienced on the way.
    CongestionExperienced = 3,
}

impl Ecn {
    /// The code point in the two low bits of a traffic class.
    #[inline]
    pub const fn from_bits(traffic_class: u8) -> Ecn {
        match traffic_class & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }

    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}
