//! IPv6 headers and the extension headers that stand before TCP (RFC 8200).

use core::net::Ipv6Addr;

use crate::bytes::{array_at, u16_at};
use crate::ip::Ecn;

/// Length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// How many extension headers are skipped, at most. No sender has a use for more.
pub const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is shorter than its header or its payload length say.
    Truncated,
    /// It is not version 6.
    Version,
    /// An extension header ends outside the packet, or stands where it may not.
    Extension,
    /// More than [`MAX_EXTENSIONS`] extension headers.
    TooManyExtensions,
    /// A routing header with stations still to visit: the packet is not for us to end.
    Routing,
    /// A fragment header.
    Fragment,
}

/// A packet whose lengths and extension headers have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Exactly header and payload: what Ethernet padded is cut off.
    bytes: &'a [u8],
    /// Where the extension headers end.
    upper_at: usize,
    /// The protocol after them.
    protocol: u8,
}

impl<'a> Packet<'a> {
    /// Checks the packet at the front of `bytes`, and skips its hop-by-hop options, destination
    /// options and used-up routing headers.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        if bytes[0] >> 4 != 6 {
            return Err(Error::Version);
        }
        let len = HEADER_LEN + usize::from(u16_at(bytes, 4));
        let bytes = bytes.get(..len).ok_or(Error::Truncated)?;
        let (upper_at, protocol) = skip_extensions(bytes)?;
        Ok(Packet {
            bytes,
            upper_at,
            protocol,
        })
    }

    /// What follows the extension headers.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.upper_at..]
    }

    /// The source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(array_at::<16>(self.bytes, 8))
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(array_at::<16>(self.bytes, 24))
    }

    /// The protocol after the extension headers.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The header's fields, as if there were no extension headers.
    #[inline]
    pub fn repr(&self) -> Repr {
        let traffic_class = (u16_at(self.bytes, 0) >> 4) as u8;
        Repr {
            src: self.src(),
            dst: self.dst(),
            protocol: self.protocol,
            hop_limit: self.bytes[7],
            dscp: traffic_class >> 2,
            ecn: Ecn::from_bits(traffic_class),
            flow_label: u32::from(self.bytes[1] & 0x0f) << 16 | u32::from(u16_at(self.bytes, 2)),
            payload_len: self.payload().len() as u16,
        }
    }
}

/// Where the upper-layer header begins in `packet`, and its protocol. The caller has checked that
/// the fixed header is there.
#[inline]
fn skip_extensions(packet: &[u8]) -> Result<(usize, u8), Error> {
    let mut next = packet[6];
    let mut at = HEADER_LEN;
    for count in 0..=MAX_EXTENSIONS {
        match next {
            FRAGMENT => return Err(Error::Fragment),
            // Only directly after the fixed header (RFC 8200 section 4.1).
            HOP_BY_HOP if count > 0 => return Err(Error::Extension),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                if count == MAX_EXTENSIONS {
                    break;
                }
                let header = packet.get(at..at + 8).ok_or(Error::Extension)?;
                if next == ROUTING && header[3] != 0 {
                    return Err(Error::Routing);
                }
                next = header[0];
                at += 8 + usize::from(header[1]) * 8;
                if at > packet.len() {
                    return Err(Error::Extension);
                }
            }
            upper => return Ok((at, upper)),
        }
    }
    Err(Error::TooManyExtensions)
}

/// A header without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
    /// The protocol that the payload speaks.
    pub protocol: u8,
    /// How many hops the packet may still take.
    pub hop_limit: u8,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Flow label, 20 bits (RFC 6437).
    pub flow_label: u32,
    /// The payload's length, in bytes.
    pub payload_len: u16,
}

impl Repr {
    /// Writes the header to the front of `buffer`; returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let header = &mut buffer[..HEADER_LEN];
        let traffic_class = self.dscp << 2 | self.ecn.bits();
        let first = 6 << 28 | u32::from(traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        header[0..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        header[6] = self.protocol;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.src.octets());
        header[24..40].copy_from_slice(&self.dst.octets());
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    prop_compose! {
        fn repr()(
            src: [u8; 16], dst: [u8; 16], hop_limit: u8, dscp in 0..64_u8, ecn: u8,
            flow_label in 0..1_u32 << 20, payload_len in 0..64_u16,
        ) -> Repr {
            Repr {
                src: src.into(), dst: dst.into(), protocol: 6, hop_limit, dscp,
                ecn: Ecn::from_bits(ecn), flow_label, payload_len,
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
            prop_assert_eq!(packet.payload(), &buffer[HEADER_LEN..len]);
            for short in 0..len {
                prop_assert_eq!(Packet::new(&buffer[..short]).unwrap_err(), Error::Truncated);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 40..200)) {
            bytes[0] = 0x60 | bytes[0] & 0x0f;
            bytes[4] = 0;
            if let Ok(packet) = Packet::new(&bytes) {
                prop_assert!(packet.payload().len() <= bytes.len() - HEADER_LEN);
                let _ = packet.repr();
            }
        }
    }

    /// An extension header: its kind, and its bytes after the first.
    type Extension<'a> = (u8, &'a [u8]);

    /// A packet of the given extension headers and four bytes of TCP.
    fn packet(extensions: &[Extension<'_>]) -> Vec<u8> {
        let mut kinds = extensions.iter().map(|(kind, _)| *kind).chain([6]);
        let mut bytes = std::vec![0; HEADER_LEN];
        bytes[0] = 0x60;
        bytes[6] = kinds.next().unwrap();
        for (_, body) in extensions {
            bytes.push(kinds.next().unwrap());
            bytes.extend_from_slice(body);
        }
        bytes.extend_from_slice(b"tcp!");
        bytes[5] = (bytes.len() - HEADER_LEN) as u8;
        bytes
    }

    #[test]
    fn extension_headers_are_skipped() {
        let options: &[u8] = &[0; 7];
        let long: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bytes = packet(&[(0, options), (60, long), (43, options), (60, options)]);
        let packet = Packet::new(&bytes).unwrap();
        assert_eq!((packet.protocol(), packet.payload()), (6, &b"tcp!"[..]));
    }

    #[test]
    fn extension_headers_that_are_not_ours_to_skip_are_refused() {
        let options: &[u8] = &[0; 7];
        let still_to_go: &[u8] = &[0, 0, 1, 0, 0, 0, 0];
        let too_long: &[u8] = &[9, 0, 0, 0, 0, 0, 0];
        let cases: [(&[Extension<'_>], Error); 5] = [
            (&[(44, options)], Error::Fragment),
            (&[(60, options), (0, options)], Error::Extension),
            (&[(43, still_to_go)], Error::Routing),
            (&[(60, too_long)], Error::Extension),
            (&[(60, options); 9], Error::TooManyExtensions),
        ];
        for (extensions, error) in cases {
            assert_eq!(
                Packet::new(&packet(extensions)).unwrap_err(),
                error,
                "{extensions:?}"
            );
        }
        assert!(Packet::new(&packet(&[(60, options); 8])).is_ok());
    }
}
