//! IP datagrams: what a script's packets are on the wire. Headers are written by hand, because a
//! script may ask for what no stack would send.

use core::net::{IpAddr, SocketAddr};

use wire::checksum::{self, Sum};
use wire::ip::{Ecn, PROTOCOL_TCP};
use wire::seq::SeqNumber;
use wire::tcp::Flags;
use wire::{ipv4, ipv6, tcp};

use super::options;
use super::packet::{Segment, Unreachable};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMP_V6: u8 = 58;
const HOP_LIMIT: u8 = 64;

/// A TCP segment in its datagram, with the numbers that are on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// The mark in the IP header.
    pub ecn: Ecn,
    /// The byte of that mark without it: DSCP.
    pub tos: u8,
    /// The header.
    pub segment: Segment,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// Writes a segment, its numbers as they stand.
pub fn segment(
    src: SocketAddr,
    dst: SocketAddr,
    ecn: Ecn,
    segment: &Segment,
    payload: &[u8],
) -> Vec<u8> {
    let options = options::encode(segment.options.as_deref().unwrap_or_default());
    let mut bytes = Vec::with_capacity(tcp::HEADER_LEN + options.len() + payload.len());
    bytes.extend(src.port().to_be_bytes());
    bytes.extend(dst.port().to_be_bytes());
    bytes.extend(segment.seq.to_be_bytes());
    bytes.extend(segment.ack.unwrap_or(0).to_be_bytes());
    bytes.push((((tcp::HEADER_LEN + options.len()) / 4) as u8) << 4);
    bytes.push(segment.flags.bits());
    bytes.extend(segment.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(segment.urgent.unwrap_or(0).to_be_bytes());
    bytes.extend(options);
    bytes.extend(payload);
    let pseudo =
        checksum::pseudo_header(src.ip(), dst.ip(), PROTOCOL_TCP, bytes.len()).unwrap_or(Sum::ZERO);
    let sum = pseudo.combine(Sum::of(&bytes)).finish();
    bytes[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    datagram(src.ip(), dst.ip(), PROTOCOL_TCP, ecn, &bytes)
}

/// Writes an ICMP error of `reporter` about a segment from `src` to `dst` that had `len` bytes and
/// began at `seq`; `None` where the family has no word for it.
pub fn error(
    reporter: IpAddr,
    says: Unreachable,
    mtu: Option<u32>,
    (src, dst): (SocketAddr, SocketAddr),
    (seq, len): (SeqNumber, u16),
) -> Option<Vec<u8>> {
    let (kind, code) = match (reporter, says) {
        (IpAddr::V4(_), Unreachable::Net) => (3, 0),
        (IpAddr::V4(_), Unreachable::Host) => (3, 1),
        (IpAddr::V4(_), Unreachable::Protocol) => (3, 2),
        (IpAddr::V4(_), Unreachable::Port) => (3, 3),
        (IpAddr::V4(_), Unreachable::TooBig) => (3, 4),
        (IpAddr::V4(_), Unreachable::Prohibited) => (3, 13),
        (IpAddr::V4(_), Unreachable::TimeExceeded) => (11, 0),
        (IpAddr::V6(_), Unreachable::Net) => (1, 0),
        (IpAddr::V6(_), Unreachable::Host) => (1, 3),
        (IpAddr::V6(_), Unreachable::Protocol) => return None,
        (IpAddr::V6(_), Unreachable::Port) => (1, 4),
        (IpAddr::V6(_), Unreachable::TooBig) => (2, 0),
        (IpAddr::V6(_), Unreachable::Prohibited) => (1, 1),
        (IpAddr::V6(_), Unreachable::TimeExceeded) => (3, 0),
    };
    let about = Segment {
        flags: Flags::ACK,
        seq: seq.0,
        len,
        ack: Some(0),
        window: None,
        urgent: None,
        options: None,
    };
    // The datagram as it was, cut after the TCP header.
    let payload = vec![0; len.into()];
    let mut quoted = segment(src, dst, Ecn::NotCapable, &about, &payload);
    quoted.truncate(quoted.len() - usize::from(len));
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(mtu.unwrap_or(0).to_be_bytes());
    bytes.extend(quoted);
    let dst = src.ip();
    let (protocol, pseudo) = match reporter {
        IpAddr::V4(_) => (PROTOCOL_ICMP, Sum::ZERO),
        IpAddr::V6(_) => (
            PROTOCOL_ICMP_V6,
            checksum::pseudo_header(reporter, dst, PROTOCOL_ICMP_V6, bytes.len())?,
        ),
    };
    let sum = pseudo.combine(Sum::of(&bytes)).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(datagram(reporter, dst, protocol, Ecn::NotCapable, &bytes))
}

fn datagram(src: IpAddr, dst: IpAddr, protocol: u8, ecn: Ecn, payload: &[u8]) -> Vec<u8> {
    // Longer than this no script can ask for: a segment has at most 65,535 bytes and its header.
    let payload_len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let mut bytes;
    match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes = vec![0; ipv6::HEADER_LEN];
            ipv6::Repr {
                src,
                dst,
                protocol,
                hop_limit: HOP_LIMIT,
                dscp: 0,
                ecn,
                flow_label: 0,
                payload_len,
            }
            .emit(&mut bytes);
        }
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes = vec![0; ipv4::HEADER_LEN];
            ipv4::Repr {
                src,
                dst,
                protocol,
                hop_limit: HOP_LIMIT,
                dscp: 0,
                ecn,
                identification: 0,
                dont_fragment: true,
                payload_len,
            }
            .emit(&mut bytes);
        }
        _ => return Vec::new(),
    }
    bytes.extend(payload);
    bytes
}

/// Reads the TCP segment in a datagram; `None` if there is none, or its checksum is wrong.
pub fn read(datagram: &[u8]) -> Option<Received> {
    let (src, dst, class, bytes): (IpAddr, IpAddr, _, &[u8]) = match datagram.first()? >> 4 {
        4 => {
            let packet = ipv4::Packet::new(datagram).ok()?;
            let repr = packet.repr();
            if repr.protocol != PROTOCOL_TCP || packet.is_fragment() {
                return None;
            }
            let class = (repr.dscp << 2, repr.ecn);
            (repr.src.into(), repr.dst.into(), class, packet.payload())
        }
        6 => {
            let packet = ipv6::Packet::new(datagram).ok()?;
            let repr = packet.repr();
            if repr.protocol != PROTOCOL_TCP {
                return None;
            }
            let class = (repr.dscp << 2, repr.ecn);
            (repr.src.into(), repr.dst.into(), class, packet.payload())
        }
        _ => return None,
    };
    let (tos, ecn) = class;
    let pseudo = checksum::pseudo_header(src, dst, PROTOCOL_TCP, bytes.len())?;
    if !pseudo.combine(Sum::of(bytes)).is_valid() {
        return None;
    }
    let header = tcp::Header::new(bytes).ok()?;
    let repr = header.repr();
    let payload = header.payload();
    let options = &bytes[tcp::HEADER_LEN..bytes.len() - payload.len()];
    let urgent = u16::from_be_bytes([bytes[18], bytes[19]]);
    Some(Received {
        src: SocketAddr::new(src, repr.src_port),
        dst: SocketAddr::new(dst, repr.dst_port),
        ecn,
        tos,
        segment: Segment {
            flags: repr.flags,
            seq: repr.seq.0,
            len: u16::try_from(payload.len()).ok()?,
            ack: repr.ack.map(|ack| ack.0),
            window: Some(repr.window),
            urgent: repr.flags.contains(Flags::URG).then_some(urgent),
            options: Some(options::decode(options)?),
        },
        payload: payload.to_vec(),
    })
}
