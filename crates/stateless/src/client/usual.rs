//! Reading the frames that nearly all are: IPv4 without options, TCP with timestamps alone, neither
//! SYN nor RST. The headers of these stand at fixed places, so that they can be read where they
//! are; whatever else comes, and whatever is wrong, is for [`wire::segment::parse`].

use std::net::Ipv4Addr;

use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::ip::{Ecn, PROTOCOL_TCP};
use wire::segment::{Link, Segment};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, Timestamps};

/// Where things begin.
const IP: usize = 14;
const TCP: usize = IP + 20;
const OPTIONS: usize = TCP + 20;
const PAYLOAD: usize = OPTIONS + 12;

/// No VLAN tag; IPv4 with a header of five words.
const BEGINNING: [u8; 3] = [0x08, 0x00, 0x45];

/// The TCP header takes eight words.
const DATA_OFFSET: u8 = 8;

/// Two bytes that do nothing, and the timestamps: kind 8, ten bytes (RFC 7323 appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// The segment in a frame, if it is one of these. As with
/// [`ChecksumPolicy::AcceptPartial`](wire::segment::ChecksumPolicy::AcceptPartial) if `partial`.
// Inlined, so that it is made where it is used: to copy it would cost as much as to read it.
#[inline(always)]
pub(super) fn read(frame: &[u8], partial: bool) -> Option<Segment<'_>> {
    let head: &[u8; PAYLOAD] = frame.first_chunk()?;
    let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let end = IP + usize::from(short(IP + 2));
    let is_fragment = short(IP + 6) & 0x3fff != 0;
    let flags = Flags::from_bits(head[TCP + 13]);
    let known = Flags::ACK.bits() | Flags::PSH.bits() | Flags::FIN.bits();
    if head[12..15] != BEGINNING
        || end < PAYLOAD
        || is_fragment
        || head[IP + 9] != PROTOCOL_TCP
        || head[TCP + 12] >> 4 != DATA_OFFSET
        || head[OPTIONS..OPTIONS + 4] != TIMESTAMPS
        || flags.bits() & !known != 0
        || !flags.contains(Flags::ACK)
    {
        return None;
    }
    // Neither unspecified nor multicast nor broadcast, nor near them.
    let is_host = |at: usize| (1..224).contains(&head[at]);
    if !is_host(IP + 12) || !is_host(IP + 16) {
        return None;
    }
    let segment = frame.get(TCP..end)?;
    let mut pseudo = Sum::of(&head[IP + 12..IP + 20]);
    pseudo.add_u16(u16::from(PROTOCOL_TCP));
    pseudo.add_u16(segment.len() as u16);
    let is_right = (partial && short(TCP + 16) == pseudo.fold())
        || pseudo.combine(Sum::of(segment)).is_valid();
    if !is_right || !Sum::of(&head[IP..TCP]).is_valid() {
        return None;
    }
    let station = |at: usize| {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&head[at..at + 6]);
        MacAddr(bytes)
    };
    Some(Segment {
        link: Link {
            src: station(6),
            dst: station(0),
            vlan: Vlan::None,
        },
        src: Ipv4Addr::from_bits(long(IP + 12)).into(),
        dst: Ipv4Addr::from_bits(long(IP + 16)).into(),
        hop_limit: head[IP + 8],
        ecn: Ecn::from_bits(head[IP + 1]),
        tcp: Repr {
            src_port: short(TCP),
            dst_port: short(TCP + 2),
            seq: SeqNumber(long(TCP + 4)),
            ack: Some(SeqNumber(long(TCP + 8))),
            flags,
            window: short(TCP + 14),
            options: Options {
                timestamps: Some(Timestamps {
                    value: long(OPTIONS + 4),
                    echo: long(OPTIONS + 8),
                }),
                ..Options::NONE
            },
        },
        payload: &segment[PAYLOAD - TCP..],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::segment::{ChecksumPolicy, Headers, TcpChecksum, parse};

    fn frame(seq: u32, flags: u8, with: bool, payload: &[u8], partial: bool) -> Vec<u8> {
        let headers = Headers {
            link: Link::default(),
            src: Ipv4Addr::new(10, 0, 0, 1).into(),
            dst: Ipv4Addr::new(10, 0, 0, 2).into(),
            hop_limit: 61,
            dscp: 0,
            ecn: Ecn::Capable0,
            tcp: Repr {
                src_port: 80,
                dst_port: 1024,
                seq: SeqNumber(seq),
                ack: Some(SeqNumber(!seq)),
                flags: Flags::from_bits(flags),
                window: 5000,
                options: Options {
                    timestamps: with.then_some(Timestamps {
                        value: seq ^ 77,
                        echo: 9,
                    }),
                    ..Options::NONE
                },
            },
        };
        let mut frame = vec![0; headers.len()];
        let checksum = if partial {
            TcpChecksum::Partial
        } else {
            TcpChecksum::Complete(Sum::of(payload))
        };
        headers.emit(payload.len(), checksum, &mut frame).unwrap();
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn the_usual_is_read() {
        for flags in [Flags::NONE, Flags::PSH, Flags::FIN] {
            for partial in [false, true] {
                let frame = frame(5, flags.bits(), true, b"HTTP/1.1 200 OK\r\n", partial);
                assert_eq!(read(&frame, false).is_some(), !partial);
                let segment = read(&frame, true).expect("a segment");
                assert_eq!(Ok(segment), parse(&frame, ChecksumPolicy::AcceptPartial));
            }
        }
        for flags in [Flags::SYN, Flags::RST, Flags::URG] {
            assert_eq!(read(&frame(5, flags.bits(), true, b"", false), true), None);
        }
        assert_eq!(read(&frame(5, 0, false, b"text", false), true), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_parser_says(
            seq: u32, flags: u8, with: bool, partial: bool, accept: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..60),
            padding in 0..20_usize,
            bend in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut frame = frame(seq, flags, with, &payload, partial);
            frame.resize(frame.len() + padding, 0);
            if let Some((at, bits)) = bend {
                let at = at.index(frame.len());
                frame[at] ^= bits;
            }
            if let Some(at) = cut {
                frame.truncate(at.index(frame.len()));
            }
            let policy = if accept { ChecksumPolicy::AcceptPartial } else { ChecksumPolicy::Verify };
            if let Some(segment) = read(&frame, accept) {
                prop_assert_eq!(parse(&frame, policy), Ok(segment));
            }
        }
    }
}
