//! ICMP errors about TCP segments that were sent from here (RFC 792, RFC 4443).
//!
//! An error quotes the packet that it is about: the IP header, and at least the first eight bytes
//! behind it, which are the ports and the sequence number. Nothing else in it says whom it
//! concerns, and anybody may have made it up: who acts upon it checks the sequence number
//! (RFC 5927 §4).

use core::net::IpAddr;

use crate::bytes::{array_at, u16_at, u32_at};
use crate::checksum::{self, Sum};
use crate::ethernet::{self, EtherType};
use crate::flow::FlowKey;
use crate::ip::{Ecn, PROTOCOL_TCP};
use crate::segment::{ChecksumPolicy, Malformed};
use crate::seq::SeqNumber;
use crate::{ipv4, ipv6};

/// The protocol number of ICMP.
const PROTOCOL_ICMP: u8 = 1;
/// The protocol number of ICMPv6.
const PROTOCOL_ICMPV6: u8 = 58;
/// Type, code, checksum, and four bytes that depend on the type.
const HEADER_LEN: usize = 8;
/// Of the TCP header, what is quoted at least.
const QUOTED_LEN: usize = 8;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was larger than the next link carries, in bytes of the IP packet; 0 from a router that
    /// does not say (RFC 1191 §5).
    TooBig {
        /// The largest packet that would have passed.
        mtu: u32,
    },
    /// No route to the network.
    NetUnreachable,
    /// The host does not answer on its link.
    HostUnreachable,
    /// Somebody forbids it.
    Prohibited,
    /// The host speaks no TCP.
    ProtocolUnreachable,
    /// The host has no use for the port.
    PortUnreachable,
    /// Its hop limit was used up, or its fragments did not come together.
    TimeExceeded,
    /// A header was not understood.
    ParameterProblem,
    /// The path is congested: nobody says so any more, and nobody may listen (RFC 6633).
    SourceQuench,
}

/// An error about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpError {
    /// The flow that the segment belongs to, as its sender names it.
    pub flow: FlowKey,
    /// The segment's sequence number.
    pub seq: SeqNumber,
    /// The length of the packet that it was in, in bytes from the IP header on.
    pub packet_len: u32,
    /// What became of it.
    pub reason: Reason,
}

/// Reads the ICMP error in an Ethernet frame. With [`ChecksumPolicy::Ignore`] its checksum is not
/// looked at; it is never partial.
///
/// # Errors
/// [`Malformed::Icmp`] for ICMP that is no error about a TCP segment sent from the address that it
/// was sent to; other reasons as for segments.
pub fn parse(frame: &[u8], policy: ChecksumPolicy) -> Result<TcpError, Malformed> {
    let (header, bytes) = ethernet::Header::parse(frame)?;
    let error = match header.ether_type {
        EtherType::IPV4 => parse_v4(bytes, policy)?,
        EtherType::IPV6 => parse_v6(bytes, policy)?,
        _ => return Err(Malformed::NotIp),
    };
    error.ok_or(Malformed::Icmp)
}

/// The longest frame that [`unreachable()`] writes.
pub const MAX_UNREACHABLE_LEN: usize =
    ethernet::MAX_HEADER_LEN + ipv6::HEADER_LEN + HEADER_LEN + MAX_QUOTED_LEN;
/// Of the packet that an error is about, so much is quoted at most: all headers of a SYN.
const MAX_QUOTED_LEN: usize = 120;

/// Writes to the front of `buffer` a frame that tells the sender of `frame` that where its packet was to go
/// is unreachable, by this code (RFC 792, RFC 4443 §3.1); returns its length. `None` for what is no IP packet,
/// and if the buffer is shorter than [`MAX_UNREACHABLE_LEN`].
pub fn unreachable(frame: &[u8], code: u8, hop_limit: u8, buffer: &mut [u8]) -> Option<usize> {
    let buffer = buffer.get_mut(..MAX_UNREACHABLE_LEN)?;
    let (header, bytes) = ethernet::Header::parse(frame).ok()?;
    let back = ethernet::Header {
        src: header.dst,
        dst: header.src,
        ..header
    };
    let ip_at = back.emit(buffer);
    // What a short frame is filled up with is not quoted.
    let quoted = |len: usize| bytes.get(..len.min(MAX_QUOTED_LEN));
    let (quoted, icmp_at, pseudo, kind) = match header.ether_type {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new(bytes).ok()?;
            let quoted = quoted(packet.header().len() + packet.payload().len())?;
            let ip = ipv4::Repr {
                src: packet.dst(),
                dst: packet.src(),
                protocol: PROTOCOL_ICMP,
                hop_limit,
                dscp: 0,
                ecn: Ecn::NotCapable,
                identification: 0,
                dont_fragment: true,
                payload_len: (HEADER_LEN + quoted.len()) as u16,
            };
            let len = ip.emit(&mut buffer[ip_at..]);
            (quoted, ip_at + len, Sum::ZERO, 3)
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new(bytes).ok()?;
            let quoted = quoted(ipv6::HEADER_LEN + packet.payload().len())?;
            let payload_len = (HEADER_LEN + quoted.len()) as u16;
            let ip = ipv6::Repr {
                src: packet.dst(),
                dst: packet.src(),
                protocol: PROTOCOL_ICMPV6,
                hop_limit,
                dscp: 0,
                ecn: Ecn::NotCapable,
                flow_label: 0,
                payload_len,
            };
            let len = ip.emit(&mut buffer[ip_at..]);
            let (src, dst, length) = (ip.src, ip.dst, payload_len.into());
            let pseudo = checksum::pseudo_header_v6(src, dst, PROTOCOL_ICMPV6, length);
            (quoted, ip_at + len, pseudo, 1)
        }
        _ => return None,
    };
    let end = icmp_at + HEADER_LEN + quoted.len();
    let message = &mut buffer[icmp_at..end];
    message[..HEADER_LEN].copy_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
    message[HEADER_LEN..].copy_from_slice(quoted);
    let sum = pseudo.combine(Sum::of(message)).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(end)
}

fn parse_v4(bytes: &[u8], policy: ChecksumPolicy) -> Result<Option<TcpError>, Malformed> {
    let packet = ipv4::Packet::new(bytes)?;
    if policy != ChecksumPolicy::Ignore && !packet.is_checksum_valid() {
        return Err(Malformed::Ipv4Checksum);
    }
    if packet.is_fragment() {
        return Err(Malformed::Fragment);
    }
    if packet.protocol() != PROTOCOL_ICMP {
        return Err(Malformed::NotTcp);
    }
    let message = packet.payload();
    if policy != ChecksumPolicy::Ignore && !Sum::of(message).is_valid() {
        return Err(Malformed::IcmpChecksum);
    }
    let Some((icmp, quoted)) = message.split_at_checked(HEADER_LEN) else {
        return Ok(None);
    };
    let reason = match (icmp[0], icmp[1]) {
        (3, 0 | 6 | 11) => Reason::NetUnreachable,
        (3, 1 | 5 | 7 | 8 | 12) => Reason::HostUnreachable,
        (3, 2) => Reason::ProtocolUnreachable,
        (3, 3) => Reason::PortUnreachable,
        (3, 4) => Reason::TooBig {
            mtu: u16_at(icmp, 6).into(),
        },
        (3, 9 | 10 | 13..=15) => Reason::Prohibited,
        (4, _) => Reason::SourceQuench,
        (11, _) => Reason::TimeExceeded,
        (12, _) => Reason::ParameterProblem,
        _ => return Ok(None),
    };
    let header_len = match quoted.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
        _ => return Ok(None),
    };
    if header_len < ipv4::HEADER_LEN || quoted.len() < header_len + QUOTED_LEN {
        return Ok(None);
    }
    let is_first = u16_at(quoted, 6) & 0x1fff == 0;
    let src = IpAddr::from(array_at::<4>(quoted, 12));
    if quoted[9] != PROTOCOL_TCP || !is_first || src != IpAddr::V4(packet.dst()) {
        return Ok(None);
    }
    let dst = IpAddr::from(array_at::<4>(quoted, 16));
    let len = u16_at(quoted, 2).into();
    Ok(Some(error((src, dst), len, &quoted[header_len..], reason)))
}

fn parse_v6(bytes: &[u8], policy: ChecksumPolicy) -> Result<Option<TcpError>, Malformed> {
    let packet = ipv6::Packet::new(bytes)?;
    if packet.protocol() != PROTOCOL_ICMPV6 {
        return Err(Malformed::NotTcp);
    }
    let message = packet.payload();
    if policy != ChecksumPolicy::Ignore {
        // A packet's payload is shorter than 2^32 bytes by far.
        let length = message.len() as u32;
        let pseudo =
            checksum::pseudo_header_v6(packet.src(), packet.dst(), PROTOCOL_ICMPV6, length);
        if !pseudo.combine(Sum::of(message)).is_valid() {
            return Err(Malformed::IcmpChecksum);
        }
    }
    let Some((icmp, quoted)) = message.split_at_checked(HEADER_LEN) else {
        return Ok(None);
    };
    let reason = match (icmp[0], icmp[1]) {
        (1, 0) => Reason::NetUnreachable,
        (1, 1 | 5 | 6) => Reason::Prohibited,
        (1, 2 | 3) => Reason::HostUnreachable,
        (1, 4) => Reason::PortUnreachable,
        (2, _) => Reason::TooBig {
            mtu: u32_at(icmp, 4),
        },
        (3, _) => Reason::TimeExceeded,
        // The next header is not one that the host knows.
        (4, 1) => Reason::ProtocolUnreachable,
        (4, _) => Reason::ParameterProblem,
        _ => return Ok(None),
    };
    // What was sent from here has no extension headers.
    let Some((ip, tcp)) = quoted.split_at_checked(ipv6::HEADER_LEN) else {
        return Ok(None);
    };
    let src = IpAddr::from(array_at::<16>(ip, 8));
    if ip[0] >> 4 != 6 || ip[6] != PROTOCOL_TCP || tcp.len() < QUOTED_LEN {
        return Ok(None);
    }
    if src != IpAddr::V6(packet.dst()) {
        return Ok(None);
    }
    let dst = IpAddr::from(array_at::<16>(ip, 24));
    let len = u32::from(u16_at(ip, 4)) + ipv6::HEADER_LEN as u32;
    Ok(Some(error((src, dst), len, tcp, reason)))
}

fn error(
    (local, remote): (IpAddr, IpAddr),
    packet_len: u32,
    tcp: &[u8],
    reason: Reason,
) -> TcpError {
    TcpError {
        flow: FlowKey {
            local,
            remote,
            local_port: u16_at(tcp, 0),
            remote_port: u16_at(tcp, 2),
        },
        seq: SeqNumber(u32_at(tcp, 4)),
        packet_len,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OURS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
    const PEER: [&str; 2] = ["198.51.100.7", "2001:db8:1::7"];

    /// An error of the given kind to our address, about a segment of ours.
    fn frame(v6: bool, kind: u8, code: u8, argument: u32) -> Vec<u8> {
        let index = usize::from(v6);
        let (ours, peer): (IpAddr, IpAddr) =
            (OURS[index].parse().unwrap(), PEER[index].parse().unwrap());
        let mut upper = std::vec![kind, code, 0, 0];
        upper.extend(argument.to_be_bytes());
        upper.extend(ip(ours, peer, PROTOCOL_TCP, 1480));
        upper.extend([0, 80, 0x9c, 0x40, 1, 2, 3, 4]);
        let protocol = if v6 { PROTOCOL_ICMPV6 } else { PROTOCOL_ICMP };
        let mut sum = Sum::ZERO;
        if v6 {
            sum = checksum::pseudo_header(peer, ours, protocol, upper.len()).unwrap();
        }
        let sum = sum.combine(Sum::of(&upper)).finish();
        upper[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut frame = std::vec![2; 12];
        frame.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        frame.extend(ip(peer, ours, protocol, upper.len()));
        frame.extend(upper);
        frame
    }

    fn ip(src: IpAddr, dst: IpAddr, protocol: u8, payload: usize) -> Vec<u8> {
        let payload_len = payload as u16;
        let mut bytes = std::vec![0; 40];
        let len = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::Repr {
                src,
                dst,
                protocol,
                hop_limit: 64,
                dscp: 0,
                ecn: crate::ip::Ecn::NotCapable,
                identification: 0,
                dont_fragment: true,
                payload_len,
            }
            .emit(&mut bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Repr {
                src,
                dst,
                protocol,
                hop_limit: 64,
                dscp: 0,
                ecn: crate::ip::Ecn::NotCapable,
                flow_label: 0,
                payload_len,
            }
            .emit(&mut bytes),
            _ => unreachable!("of one family"),
        };
        bytes.truncate(len);
        bytes
    }

    fn read(frame: &[u8]) -> Result<TcpError, Malformed> {
        parse(frame, ChecksumPolicy::Verify)
    }

    #[test]
    fn errors_are_told_apart() {
        let cases = [
            (false, 3, 0, 0, Reason::NetUnreachable),
            (false, 3, 1, 0, Reason::HostUnreachable),
            (false, 3, 2, 0, Reason::ProtocolUnreachable),
            (false, 3, 3, 0, Reason::PortUnreachable),
            (false, 3, 4, 1400, Reason::TooBig { mtu: 1400 }),
            (false, 3, 4, 0, Reason::TooBig { mtu: 0 }),
            (false, 3, 13, 0, Reason::Prohibited),
            (false, 4, 0, 0, Reason::SourceQuench),
            (false, 11, 0, 0, Reason::TimeExceeded),
            (false, 12, 0, 0, Reason::ParameterProblem),
            (true, 1, 0, 0, Reason::NetUnreachable),
            (true, 1, 1, 0, Reason::Prohibited),
            (true, 1, 3, 0, Reason::HostUnreachable),
            (true, 1, 4, 0, Reason::PortUnreachable),
            (true, 2, 0, 1280, Reason::TooBig { mtu: 1280 }),
            (true, 3, 0, 0, Reason::TimeExceeded),
            (true, 4, 1, 0, Reason::ProtocolUnreachable),
            (true, 4, 0, 0, Reason::ParameterProblem),
        ];
        for (v6, kind, code, argument, reason) in cases {
            let error = read(&frame(v6, kind, code, argument)).unwrap();
            assert_eq!(error.reason, reason);
            assert_eq!(error.seq, SeqNumber(0x0102_0304));
            assert_eq!(error.packet_len, 1480 + if v6 { 40 } else { 20 });
            let index = usize::from(v6);
            assert_eq!(error.flow.local, OURS[index].parse::<IpAddr>().unwrap());
            assert_eq!(error.flow.remote, PEER[index].parse::<IpAddr>().unwrap());
            assert_eq!(
                (error.flow.local_port, error.flow.remote_port),
                (80, 40_000)
            );
        }
        for (v6, kind) in [(false, 0), (false, 8), (false, 5), (true, 128), (true, 135)] {
            assert_eq!(read(&frame(v6, kind, 0, 0)), Err(Malformed::Icmp), "{kind}");
        }
    }

    #[test]
    fn who_sent_a_packet_is_told_that_nobody_is_there() {
        for v6 in [false, true] {
            let index = usize::from(v6);
            let (ours, peer) = (OURS[index].parse().unwrap(), PEER[index].parse().unwrap());
            // From us to a peer that answers so, with what fills up a short frame.
            let mut segment = std::vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1];
            segment.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
            segment.extend(ip(ours, peer, PROTOCOL_TCP, 20));
            segment.extend([0x9c, 0x40, 0, 80, 1, 2, 3, 4]);
            segment.extend([0; 12]);
            let len = segment.len();
            segment.extend([0xee; 6]);
            let mut buffer = [0; MAX_UNREACHABLE_LEN];
            let code = if v6 { 4 } else { 3 };
            let written = unreachable(&segment, code, 64, &mut buffer).expect("it fits");
            let overhead = HEADER_LEN
                + if v6 {
                    ipv6::HEADER_LEN
                } else {
                    ipv4::HEADER_LEN
                };
            assert_eq!(written, len + overhead, "the filling is not quoted");
            assert_eq!(buffer[..6], segment[6..12]);
            let told = read(&buffer[..written]).expect("an error");
            assert_eq!(told.reason, Reason::PortUnreachable);
            assert_eq!(told.seq, SeqNumber(0x0102_0304));
            assert_eq!((told.flow.local, told.flow.remote), (ours, peer));
            // The largest packet is quoted in part, and nothing is written that does not fit.
            let long = [
                &segment[..14],
                &ip(ours, peer, PROTOCOL_TCP, 1400),
                &[0; 1400],
            ]
            .concat();
            let written = unreachable(&long, code, 64, &mut buffer).expect("it fits");
            assert!(written <= MAX_UNREACHABLE_LEN);
            assert_eq!(unreachable(&long, code, 64, &mut buffer[1..]), None);
        }
        assert_eq!(unreachable(&[0; 60], 3, 64, &mut [0; 256]), None, "no IP");
    }

    #[test]
    fn what_is_quoted_must_be_a_segment_of_ours() {
        // Where the quoted source address, the protocol and the version stand.
        for (v6, at) in [(false, [54, 51, 42]), (true, [70, 68, 62])] {
            for at in at {
                let mut frame = frame(v6, if v6 { 2 } else { 3 }, 4 * u8::from(!v6), 1400);
                frame[at] ^= 0x11;
                let ignoring = parse(&frame, ChecksumPolicy::Ignore);
                assert_eq!(ignoring, Err(Malformed::Icmp), "byte {at}");
                assert_eq!(read(&frame), Err(Malformed::IcmpChecksum));
            }
        }
    }

    /// What is not the first fragment has no header of TCP's: its payload would be taken for one.
    #[test]
    fn a_quoted_fragment_is_refused() {
        let whole = frame(false, 3, 4, 1400);
        for (offset, taken) in [(0, true), (1, false), (185, false), (0x1fff, false)] {
            let mut frame = whole.clone();
            let field: u16 = offset;
            frame[48..50].copy_from_slice(&field.to_be_bytes());
            let read = parse(&frame, ChecksumPolicy::Ignore);
            assert_eq!(read.is_ok(), taken, "{offset}");
        }
    }

    #[test]
    fn a_quoted_packet_that_ends_early_is_refused() {
        for v6 in [false, true] {
            let whole = frame(v6, if v6 { 2 } else { 3 }, 4 * u8::from(!v6), 1400);
            for cut in 1..=36 {
                let mut frame = whole[..whole.len() - cut].to_vec();
                // The IP header's length goes with it.
                let at = if v6 { 18 } else { 16 };
                let length = u16_at(&frame, at) - cut as u16;
                frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
                assert!(parse(&frame, ChecksumPolicy::Ignore).is_err(), "{cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            v6: bool, kind in 0..14_u8, at in 14..100_usize, bytes in any::<[u8; 4]>(), cut in 0..80_usize,
        ) {
            let mut frame = frame(v6, kind, 4, 1400);
            for (i, byte) in bytes.into_iter().enumerate() {
                if let Some(place) = frame.get_mut(at + i) {
                    *place = byte;
                }
            }
            frame.truncate(frame.len() - cut.min(frame.len()));
            let _ = parse(&frame, ChecksumPolicy::Ignore);
        }
    }
}
