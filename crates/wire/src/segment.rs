//! Whole segments: from a frame to what a TCP wants to know of it, and back.

mod emit;
mod malformed;

pub use emit::{EmitError, Headers, TcpChecksum};
pub use malformed::Malformed;

use core::net::IpAddr;

use crate::checksum;
use crate::ethernet::{self, EtherType, MacAddr, Vlan};
use crate::flow::FlowKey;
use crate::ip::{Ecn, PROTOCOL_TCP};
use crate::{ipv4, ipv6, tcp};

/// Length of the longest headers that [`Headers::emit`] writes: two VLAN tags, IPv6, TCP with all
/// the options that fit.
pub const MAX_HEADERS_LEN: usize =
    ethernet::MAX_HEADER_LEN + ipv6::HEADER_LEN + tcp::MAX_HEADER_LEN;

/// Where on its link a segment came from, or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Link {
    /// The station that sends the frame.
    pub src: MacAddr,
    /// The station that it is for.
    pub dst: MacAddr,
    /// Its VLAN tags.
    pub vlan: Vlan,
}

impl Link {
    /// The way back.
    #[must_use]
    pub const fn reversed(self) -> Link {
        Link {
            src: self.dst,
            dst: self.src,
            vlan: self.vlan,
        }
    }
}

/// What is asked of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// They must be right.
    #[default]
    Verify,
    /// They must be right; but TCP's may also be the pseudo-header's sum alone, which is what a
    /// peer on the same machine leaves there for a device to complete. Nobody can tell whether
    /// such a payload is intact, but neither was it ever on a wire.
    AcceptPartial,
    /// They are not looked at: the device has verified them.
    Ignore,
}

/// A TCP segment that arrived, its payload still in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Where it came from on its link.
    pub link: Link,
    /// The sender's address.
    pub src: IpAddr,
    /// The receiver's address; of the same family.
    pub dst: IpAddr,
    /// How many hops it could still have taken.
    pub hop_limit: u8,
    /// What routers said of congestion.
    pub ecn: Ecn,
    /// The TCP header.
    pub tcp: tcp::Repr,
    /// What it carries.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// The flow that this segment belongs to, as its receiver names it.
    #[inline]
    pub const fn flow(&self) -> FlowKey {
        FlowKey {
            local: self.dst,
            remote: self.src,
            local_port: self.tcp.dst_port,
            remote_port: self.tcp.src_port,
        }
    }

    /// How many sequence numbers it occupies.
    #[inline]
    pub fn sequence_len(&self) -> u32 {
        // A frame is shorter than 2^32 bytes by far.
        self.tcp.sequence_len(self.payload.len() as u32)
    }
}

impl FlowKey {
    /// Whether `segment` has arrived on this flow.
    #[inline]
    #[must_use]
    pub fn is_of(&self, segment: &Segment<'_>) -> bool {
        self.remote_port == segment.tcp.src_port
            && self.local_port == segment.tcp.dst_port
            && self.remote == segment.src
            && self.local == segment.dst
    }
}

/// Reads the TCP segment in an Ethernet frame.
///
/// # Errors
/// The reason why the frame is not a TCP segment that may be acted upon.
#[inline]
pub fn parse(frame: &[u8], policy: ChecksumPolicy) -> Result<Segment<'_>, Malformed> {
    let (header, packet) = ethernet::Header::parse(frame)?;
    let link = Link {
        src: header.src,
        dst: header.dst,
        vlan: header.vlan,
    };
    match header.ether_type {
        EtherType::IPV4 => parse_v4(link, packet, policy),
        EtherType::IPV6 => parse_v6(link, packet, policy),
        _ => Err(Malformed::NotIp),
    }
}

#[inline]
fn parse_v4(link: Link, bytes: &[u8], policy: ChecksumPolicy) -> Result<Segment<'_>, Malformed> {
    let packet = ipv4::Packet::new(bytes)?;
    if policy != ChecksumPolicy::Ignore && !packet.is_checksum_valid() {
        return Err(Malformed::Ipv4Checksum);
    }
    if packet.is_fragment() {
        return Err(Malformed::Fragment);
    }
    if packet.protocol() != PROTOCOL_TCP {
        return Err(Malformed::NotTcp);
    }
    let ip = packet.repr();
    if ip.src.is_multicast() || ip.src.is_broadcast() || ip.src.is_unspecified() {
        //= RFC 9293 MUST-63
        return Err(Malformed::SourceAddress);
    }
    if ip.dst.is_multicast() || ip.dst.is_broadcast() || ip.dst.is_unspecified() {
        //= RFC 9293 MUST-57
        return Err(Malformed::DestinationAddress);
    }
    let (src, dst) = (ip.src.into(), ip.dst.into());
    let (tcp, payload) = parse_tcp(packet.payload(), src, dst, policy)?;
    Ok(Segment {
        link,
        src,
        dst,
        hop_limit: ip.hop_limit,
        ecn: ip.ecn,
        tcp,
        payload,
    })
}

#[inline]
fn parse_v6(link: Link, bytes: &[u8], policy: ChecksumPolicy) -> Result<Segment<'_>, Malformed> {
    let packet = ipv6::Packet::new(bytes)?;
    if packet.protocol() != PROTOCOL_TCP {
        return Err(Malformed::NotTcp);
    }
    let ip = packet.repr();
    if ip.src.is_multicast() || ip.src.is_unspecified() {
        return Err(Malformed::SourceAddress);
    }
    if ip.dst.is_multicast() || ip.dst.is_unspecified() {
        return Err(Malformed::DestinationAddress);
    }
    let (src, dst) = (ip.src.into(), ip.dst.into());
    let (tcp, payload) = parse_tcp(packet.payload(), src, dst, policy)?;
    Ok(Segment {
        link,
        src,
        dst,
        hop_limit: ip.hop_limit,
        ecn: ip.ecn,
        tcp,
        payload,
    })
}

#[inline]
fn parse_tcp(
    bytes: &[u8],
    src: IpAddr,
    dst: IpAddr,
    policy: ChecksumPolicy,
) -> Result<(tcp::Repr, &[u8]), Malformed> {
    let header = tcp::Header::new(bytes)?;
    if policy != ChecksumPolicy::Ignore {
        let pseudo = checksum::pseudo_header(src, dst, PROTOCOL_TCP, bytes.len())
            .ok_or(Malformed::TcpChecksum)?;
        let partial = policy == ChecksumPolicy::AcceptPartial && header.checksum() == pseudo.fold();
        //= RFC 9293 MUST-3
        if !partial && !pseudo.combine(checksum::Sum::of(bytes)).is_valid() {
            return Err(Malformed::TcpChecksum);
        }
    }
    Ok((header.repr(), header.payload()))
}

#[cfg(test)]
mod tests;
