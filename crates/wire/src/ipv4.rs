//! IPv4 headers (RFC 791).

use core::net::Ipv4Addr;

use crate::bytes::{array_at, u16_at};
use crate::checksum::Sum;
use crate::ip::Ecn;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is shorter than its header or its total length say.
    Truncated,
    /// It is not version 4.
    Version,
    /// Its header length is below 20 bytes, or above its total length.
    HeaderLength,
}

/// A packet whose lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Exactly the total length: what Ethernet padded is cut off.
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// Checks the lengths of the packet at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        if bytes[0] >> 4 != 4 {
            return Err(Error::Version);
        }
        let header_len = usize::from(bytes[0] & 0x0f) * 4;
        let total_len = usize::from(u16_at(bytes, 2));
        if header_len < HEADER_LEN || total_len < header_len {
            return Err(Error::HeaderLength);
        }
        let bytes = bytes.get(..total_len).ok_or(Error::Truncated)?;
        Ok(Packet { bytes, header_len })
    }

    /// The header with its options.
    #[inline]
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header_len]
    }

    /// What the packet carries.
    #[inline]
    //= RFC 9293 MUST-50
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// Whether the header's checksum is right.
    #[inline]
    pub fn is_checksum_valid(&self) -> bool {
        Sum::of(self.header()).is_valid()
    }

    /// Whether this is a fragment of a larger packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        // More-fragments, or an offset.
        u16_at(self.bytes, 6) & 0x3fff != 0
    }

    /// The source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.bytes, 12))
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.bytes, 16))
    }

    /// The protocol that the payload speaks.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.bytes[9]
    }

    /// The header's fields, its options left out.
    #[inline]
    pub fn repr(&self) -> Repr {
        let fragment = u16_at(self.bytes, 6);
        Repr {
            src: self.src(),
            dst: self.dst(),
            protocol: self.protocol(),
            hop_limit: self.bytes[8],
            dscp: self.bytes[1] >> 2,
            ecn: Ecn::from_bits(self.bytes[1]),
            identification: u16_at(self.bytes, 4),
            dont_fragment: fragment & 0x4000 != 0,
            payload_len: self.payload().len() as u16,
        }
    }
}

/// A header without options, of a packet that is not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The protocol that the payload speaks.
    pub protocol: u8,
    /// Time to live, in hops.
    pub hop_limit: u8,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Identification; means nothing while `dont_fragment` (RFC 6864).
    pub identification: u16,
    /// Whether routers may not fragment the packet.
    pub dont_fragment: bool,
    /// The payload's length, in bytes; at most 65,515.
    pub payload_len: u16,
}

impl Repr {
    /// Writes the header, its checksum included, to the front of `buffer`; returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let header = &mut buffer[..HEADER_LEN];
        header[0] = 0x45;
        header[1] = self.dscp << 2 | self.ecn.bits();
        let total_len = self.payload_len.saturating_add(HEADER_LEN as u16);
        header[2..4].copy_from_slice(&total_len.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6] = if self.dont_fragment { 0x40 } else { 0 };
        header[7] = 0;
        header[8] = self.hop_limit;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&self.src.octets());
        header[16..20].copy_from_slice(&self.dst.octets());
        let checksum = Sum::of(header).finish();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn repr()(
            src: [u8; 4], dst: [u8; 4], protocol: u8, hop_limit: u8, dscp in 0..64_u8, ecn: u8,
            identification: u16, dont_fragment: bool, payload_len in 0..64_u16,
        ) -> Repr {
            Repr {
                src: src.into(), dst: dst.into(), protocol, hop_limit, dscp,
                ecn: Ecn::from_bits(ecn), identification, dont_fragment, payload_len,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(repr in repr(), padding in 0..20_usize) {
            let len = HEADER_LEN + usize::from(repr.payload_len);
            let mut buffer = std::vec![0xee; len + padding];
            prop_assert_eq!(repr.emit(&mut buffer), HEADER_LEN);
            let packet = Packet::new(&buffer).unwrap();
            prop_assert_eq!(packet.repr(), repr);
            prop_assert!(packet.is_checksum_valid() && !packet.is_fragment());
            prop_assert_eq!(packet.payload(), &buffer[HEADER_LEN..len]);
            for short in 0..len {
                prop_assert_eq!(Packet::new(&buffer[..short]).unwrap_err(), Error::Truncated);
            }
            buffer[12] ^= 1;
            prop_assert!(!Packet::new(&buffer).unwrap().is_checksum_valid());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::new(&bytes) {
                prop_assert!(packet.header().len() + packet.payload().len() <= bytes.len());
                let _ = (packet.repr(), packet.is_fragment(), packet.is_checksum_valid());
            }
        }
    }

    //~ RFC 9293 MUST-50
    #[test]
    fn options_are_skipped() {
        let mut bytes = [0_u8; 28];
        bytes[0] = 0x46;
        bytes[3] = 28;
        let packet = Packet::new(&bytes).unwrap();
        assert_eq!((packet.header().len(), packet.payload().len()), (24, 4));
    }

    #[test]
    fn lengths_that_contradict_are_refused() {
        let mut bytes = [0_u8; 28];
        bytes[0] = 0x44;
        bytes[3] = 28;
        assert_eq!(Packet::new(&bytes).unwrap_err(), Error::HeaderLength);
        bytes[0] = 0x46;
        bytes[3] = 20;
        assert_eq!(Packet::new(&bytes).unwrap_err(), Error::HeaderLength);
        bytes[0] = 0x65;
        assert_eq!(Packet::new(&bytes).unwrap_err(), Error::Version);
    }

    #[test]
    fn both_ends_of_a_fragmented_packet_are_fragments() {
        let mut bytes = [0_u8; 20];
        bytes[0] = 0x45;
        bytes[3] = 20;
        for (field, fragment) in [
            (0x2000_u16, true),
            (0x0001, true),
            (0x4000, false),
            (0, false),
        ] {
            bytes[6..8].copy_from_slice(&field.to_be_bytes());
            assert_eq!(
                Packet::new(&bytes).unwrap().is_fragment(),
                fragment,
                "{field:#x}"
            );
        }
    }
}
