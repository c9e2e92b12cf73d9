//! What a filter looks at in a frame.
//!
//! This is more lenient than [`wire`]: a malformed packet is what captures are made for, so each
//! field is there if it can be read, whatever else is wrong.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ethernet::{EtherType, Header};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// What a filter looks at; everything is absent that the frame does not have.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    /// The addresses: source, destination.
    pub(super) hosts: [Option<IpAddr>; 2],
    /// The ports of TCP or UDP: source, destination.
    pub(super) ports: [Option<u16>; 2],
}

impl Headers {
    pub(super) fn read(frame: &[u8]) -> Self {
        match Header::parse(frame) {
            Ok((link, packet)) if link.ether_type == EtherType::IPV4 => Self::of_ipv4(packet),
            Ok((link, packet)) if link.ether_type == EtherType::IPV6 => Self::of_ipv6(packet),
            _ => Self::default(),
        }
    }

    fn of_ipv4(packet: &[u8]) -> Self {
        let host = |at| array(packet, at).map(|octets: [u8; 4]| Ipv4Addr::from(octets).into());
        // A later fragment has no ports.
        let is_first = array(packet, 6).is_some_and(|b| u16::from_be_bytes(b) & 0x1fff == 0);
        let protocol = packet.get(9).copied().filter(|_| is_first);
        let header_len = packet.first().map_or(0, |byte| usize::from(byte & 0xf) * 4);
        Self {
            hosts: [host(12), host(16)],
            ports: ports(packet, protocol, header_len),
        }
    }

    fn of_ipv6(packet: &[u8]) -> Self {
        let host = |at| array(packet, at).map(|octets: [u8; 16]| Ipv6Addr::from(octets).into());
        // Packets with extension headers are the kernel's and do not come here.
        Self {
            hosts: [host(8), host(24)],
            ports: ports(packet, packet.get(6).copied(), 40),
        }
    }
}

fn ports(packet: &[u8], protocol: Option<u8>, at: usize) -> [Option<u16>; 2] {
    match protocol {
        Some(TCP | UDP) => [at, at + 2].map(|at| array(packet, at).map(u16::from_be_bytes)),
        _ => [None; 2],
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame from 10.0.0.1 port 1000 to 10.0.0.2 port 80 behind `link`.
    fn ipv4(link: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend_from_slice(link);
        frame.extend_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0]);
        frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend_from_slice(&[1000u16.to_be_bytes(), 80u16.to_be_bytes()].concat());
        frame
    }

    fn expected() -> Headers {
        let host = |last| Some(IpAddr::from([10, 0, 0, last]));
        Headers {
            hosts: [host(1), host(2)],
            ports: [Some(1000), Some(80)],
        }
    }

    #[test]
    fn tagged_or_not() {
        assert_eq!(Headers::read(&ipv4(&[8, 0])), expected());
        assert_eq!(Headers::read(&ipv4(&[0x81, 0, 0, 7, 8, 0])), expected());
    }

    #[test]
    fn every_truncation_has_what_is_left() {
        let whole = ipv4(&[8, 0]);
        for len in 0..whole.len() {
            let found = Headers::read(&whole[..len]);
            assert_eq!(found.hosts[0].is_some(), len >= 30, "{len}");
            assert_eq!(found.hosts[1].is_some(), len >= 34, "{len}");
            assert_eq!(found.ports[0].is_some(), len >= 36, "{len}");
            assert_eq!(found.ports[1], None, "{len}");
        }
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut frame = ipv4(&[8, 0]);
        frame[14 + 7] = 8;
        assert_eq!(
            Headers::read(&frame),
            Headers {
                ports: [None; 2],
                ..expected()
            }
        );
    }
}
