//! The Internet checksum (RFC 1071).
//!
//! A [`Sum`] is a partial ones-complement sum that remembers whether it has covered an odd number
//! of bytes. So a message can be summed piece by piece, at whatever offsets the pieces begin, and
//! sums that were taken elsewhere (during a copy, of a payload that stays as it is) can be joined.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A partial sum over the bytes seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The folded sum of the big-endian 16-bit words.
    folded: u16,
    /// Whether an odd number of bytes was summed: the next byte is the low half of its word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum {
        folded: 0,
        odd: false,
    };

    /// The sum of `bytes`.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        Sum {
            folded: sum_bytes(bytes),
            odd: bytes.len() % 2 == 1,
        }
    }

    /// A sum taken elsewhere over `len` bytes: `folded` is what [`Sum::fold`] would return.
    #[inline]
    pub const fn from_folded(folded: u16, len: usize) -> Sum {
        Sum {
            folded,
            odd: len % 2 == 1,
        }
    }

    /// Sums `bytes`, which follow what was summed before.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        *self = self.combine(Sum::of(bytes));
    }

    /// Sums one 16-bit word, which follows what was summed before.
    #[inline]
    pub fn add_u16(&mut self, word: u16) {
        *self = self.combine(Sum {
            folded: word,
            odd: false,
        });
    }

    /// The sum over what `self` covers followed by what `next` covers.
    #[inline]
    #[must_use]
    pub const fn combine(self, next: Sum) -> Sum {
        // Bytes at an odd offset fall into the other half of their word; the ones-complement sum
        // of swapped words is the swapped sum (RFC 1071 section 2(B)).
        let shifted = if self.odd {
            next.folded.swap_bytes()
        } else {
            next.folded
        };
        Sum {
            folded: add_folded(self.folded, shifted),
            odd: self.odd ^ next.odd,
        }
    }

    /// The sum folded to 16 bits, not complemented: what a checksum field holds whose completion
    /// is left to a device.
    #[inline]
    pub const fn fold(self) -> u16 {
        self.folded
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.folded
    }

    /// Whether a message with its checksum inside is right, this being the sum over all of it.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.folded == 0xffff
    }
}

/// The sum of the pseudo-header of RFC 9293 section 3.1 for IPv4; `length` is that of the TCP
/// header and payload.
#[inline]
pub fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    let mut sum = Sum::of(&src.octets());
    sum.add(&dst.octets());
    sum.add_u16(u16::from(protocol));
    sum.add_u16(length);
    sum
}

/// The sum of the pseudo-header of RFC 8200 section 8.1; `length` is that of the upper-layer
/// header and payload.
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    let mut sum = Sum::of(&src.octets());
    sum.add(&dst.octets());
    sum.add_u16((length >> 16) as u16);
    sum.add_u16(length as u16);
    sum.add_u16(u16::from(protocol));
    sum
}

/// The pseudo-header's sum for either family; `None` if the families differ, or if the length
/// does not fit the family.
#[inline]
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> Option<Sum> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_header_v4(
            src,
            dst,
            protocol,
            u16::try_from(length).ok()?,
        )),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_header_v6(
            src,
            dst,
            protocol,
            u32::try_from(length).ok()?,
        )),
        _ => None,
    }
}

/// The ones-complement sum of two folded sums.
#[inline]
const fn add_folded(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The folded sum of the big-endian words of `bytes`, the last padded with zero.
///
/// The sum does not depend on the order of bytes within a word except that the result comes out
/// swapped (RFC 1071 section 2(B)), so words are read as the machine likes them, eight bytes at a
/// time. Their halves go to a 64-bit sum, which 2^32 of them cannot overflow, and which needs no
/// carry from one to the next, so that the compiler can vectorise the loop.
#[inline]
fn sum_bytes(bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut sum = 0_u64;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        let last = u64::from_ne_bytes(last);
        sum += (last & 0xffff_ffff) + (last >> 32);
    }
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::from_be(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, a word at a time.
    fn by_definition(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
        assert_eq!(Sum::of(&bytes).finish(), 0x220d);
    }

    #[test]
    fn a_message_with_its_checksum_inside_is_valid() {
        let mut bytes = [1, 2, 0, 0, 5, 6, 7];
        let checksum = Sum::of(&bytes).finish();
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        assert!(Sum::of(&bytes).is_valid());
        bytes[6] ^= 1;
        assert!(!Sum::of(&bytes).is_valid());
    }

    #[test]
    fn pseudo_headers_are_the_sums_of_their_bytes() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 168, 7, 255));
        let bytes = [10, 0, 0, 1, 192, 168, 7, 255, 0, 6, 0x12, 0x34];
        assert_eq!(pseudo_header_v4(a, b, 6, 0x1234), Sum::of(&bytes));

        let (a, b) = (
            Ipv6Addr::LOCALHOST,
            Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4),
        );
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&a.octets());
        bytes[16..32].copy_from_slice(&b.octets());
        bytes[32..36].copy_from_slice(&0x0001_2345_u32.to_be_bytes());
        bytes[39] = 6;
        assert_eq!(pseudo_header_v6(a, b, 6, 0x0001_2345), Sum::of(&bytes));

        assert_eq!(
            pseudo_header(IpAddr::V4(Ipv4Addr::LOCALHOST), a.into(), 6, 20),
            None
        );
        let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(pseudo_header(v4, v4, 6, 65_536), None);
    }

    proptest! {
        #[test]
        fn fast_agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // A sum of zeros may be written 0 or 0xffff; both ways of computing agree even there.
            prop_assert_eq!(Sum::of(&bytes).fold(), by_definition(&bytes));
        }

        #[test]
        fn pieces_sum_to_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            first: prop::sample::Index,
            second: prop::sample::Index,
        ) {
            let a = first.index(bytes.len() + 1);
            let b = a + second.index(bytes.len() - a + 1);
            let mut sum = Sum::ZERO;
            sum.add(&bytes[..a]);
            sum.add(&bytes[a..b]);
            sum.add(&bytes[b..]);
            prop_assert_eq!(sum, Sum::of(&bytes));
            let elsewhere = Sum::from_folded(Sum::of(&bytes[a..]).fold(), bytes.len() - a);
            prop_assert_eq!(Sum::of(&bytes[..a]).combine(elsewhere), Sum::of(&bytes));
        }
    }
}
