//! Ethernet II frames, with up to two VLAN tags (802.1Q inside 802.1ad).

use core::fmt;

use crate::bytes::{array_at, u16_at};

/// Length of a header without tags, in bytes.
pub const HEADER_LEN: usize = 14;
/// Length of one VLAN tag, in bytes.
pub const TAG_LEN: usize = 4;
/// Length of the longest header, in bytes.
pub const MAX_HEADER_LEN: usize = HEADER_LEN + 2 * TAG_LEN;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of every station.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether this addresses a group of stations (or all of them).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address resolution.
    pub const ARP: EtherType = EtherType(0x0806);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// A service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_tag(self) -> bool {
        self.0 == Self::VLAN.0 || self.0 == Self::SERVICE_VLAN.0
    }
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Which kind of tag: [`EtherType::VLAN`] or [`EtherType::SERVICE_VLAN`].
    pub kind: EtherType,
    /// Priority (3 bits), drop eligibility (1 bit) and VLAN identifier (12 bits).
    pub control: u16,
}

impl Tag {
    /// The VLAN identifier, 0–4095.
    #[inline]
    pub const fn id(self) -> u16 {
        self.control & 0x0fff
    }
}

/// The VLAN tags of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Vlan {
    /// Untagged.
    #[default]
    None,
    /// One tag.
    Single(Tag),
    /// A tag within a tag (QinQ).
    Double {
        /// The tag that comes first on the wire.
        outer: Tag,
        /// The tag that comes second.
        inner: Tag,
    },
}

impl Vlan {
    /// The tags' length, in bytes.
    #[inline]
    pub const fn len(self) -> usize {
        match self {
            Vlan::None => 0,
            Vlan::Single(_) => TAG_LEN,
            Vlan::Double { .. } => 2 * TAG_LEN,
        }
    }

    /// Whether the frame is untagged.
    #[inline]
    pub const fn is_empty(self) -> bool {
        matches!(self, Vlan::None)
    }
}

/// Why a frame's header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The frame ends within the header.
    Truncated,
    /// More than two VLAN tags.
    TooManyTags,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The station that sent the frame.
    pub src: MacAddr,
    /// The station or group that it is for.
    pub dst: MacAddr,
    /// Its VLAN tags.
    pub vlan: Vlan,
    /// What it carries, after the tags.
    pub ether_type: EtherType,
}

impl Header {
    /// Reads the header of `frame`; returns it and what follows it.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Header, &[u8]), Error> {
        if frame.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let (dst, src) = (MacAddr(array_at(frame, 0)), MacAddr(array_at(frame, 6)));
        let mut ether_type = EtherType(u16_at(frame, 12));
        let mut rest = &frame[HEADER_LEN..];
        let mut vlan = Vlan::None;
        while ether_type.is_tag() {
            if rest.len() < TAG_LEN {
                return Err(Error::Truncated);
            }
            let tag = Tag {
                kind: ether_type,
                control: u16_at(rest, 0),
            };
            vlan = match vlan {
                Vlan::None => Vlan::Single(tag),
                Vlan::Single(outer) => Vlan::Double { outer, inner: tag },
                Vlan::Double { .. } => return Err(Error::TooManyTags),
            };
            ether_type = EtherType(u16_at(rest, 2));
            rest = &rest[TAG_LEN..];
        }
        Ok((
            Header {
                src,
                dst,
                vlan,
                ether_type,
            },
            rest,
        ))
    }

    /// The header's length, in bytes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.vlan.len()
    }

    /// Writes the header to the front of `buffer`; returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Header::header_len`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        buffer[0..6].copy_from_slice(&self.dst.0);
        buffer[6..12].copy_from_slice(&self.src.0);
        let mut at = 12;
        let mut put = |word: u16| {
            buffer[at..at + 2].copy_from_slice(&word.to_be_bytes());
            at += 2;
        };
        let mut put_tag = |tag: Tag| {
            put(tag.kind.0);
            put(tag.control);
        };
        match self.vlan {
            Vlan::None => {}
            Vlan::Single(tag) => put_tag(tag),
            Vlan::Double { outer, inner } => {
                put_tag(outer);
                put_tag(inner);
            }
        }
        put(self.ether_type.0);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag() -> impl Strategy<Value = Tag> {
        (any::<bool>(), any::<u16>()).prop_map(|(service, control)| Tag {
            kind: if service {
                EtherType::SERVICE_VLAN
            } else {
                EtherType::VLAN
            },
            control,
        })
    }

    fn vlan() -> impl Strategy<Value = Vlan> {
        prop_oneof![
            Just(Vlan::None),
            tag().prop_map(Vlan::Single),
            (tag(), tag()).prop_map(|(outer, inner)| Vlan::Double { outer, inner }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(
            src: [u8; 6], dst: [u8; 6], vlan in vlan(), ether_type in any::<u16>(),
        ) {
            let ether_type = EtherType(ether_type);
            prop_assume!(!ether_type.is_tag());
            let header = Header { src: MacAddr(src), dst: MacAddr(dst), vlan, ether_type };
            let mut buffer = [0xee; MAX_HEADER_LEN + 3];
            let len = header.emit(&mut buffer);
            prop_assert_eq!(len, header.header_len());
            let (parsed, rest) = Header::parse(&buffer).unwrap();
            prop_assert_eq!(parsed, header);
            prop_assert_eq!(rest, &buffer[len..]);
            for short in 0..len {
                prop_assert_eq!(Header::parse(&buffer[..short]), Err(Error::Truncated));
            }
        }
    }

    #[test]
    fn a_third_tag_is_refused() {
        let mut frame = [0; 30];
        for at in [12, 16, 20] {
            frame[at] = 0x81;
        }
        assert_eq!(Header::parse(&frame), Err(Error::TooManyTags));
    }

    #[test]
    fn addresses_print_as_people_write_them() {
        let mac = MacAddr([2, 0, 0xab, 0, 0, 0x1f]);
        assert_eq!(std::format!("{mac}"), "02:00:ab:00:00:1f");
        assert!(!mac.is_multicast() && MacAddr::BROADCAST.is_multicast());
    }
}
