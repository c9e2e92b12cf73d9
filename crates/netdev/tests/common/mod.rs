//! Frames for tests, byte by byte, so that broken ones can be made too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum;

/// A TCP segment in an Ethernet frame, to be bent into shape and then [built](Self::build).
#[derive(Clone)]
pub struct Frame {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    /// Types and identifiers of VLAN tags, the outer first.
    pub tags: Vec<(u16, u16)>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub src_port: u16,
    pub dst_port: u16,
    pub protocol: u8,
    /// Flags and offset of an IPv4 packet.
    pub fragment: u16,
    /// Extension headers of an IPv6 packet: kind, and everything after the kind of the next.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// Instead of a TCP segment.
    pub upper: Option<Vec<u8>>,
    /// Options of an IPv4 packet.
    pub ip_options: Vec<u8>,
    pub tcp_flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: Vec<u8>,
}

pub const SYN: u8 = 0x02;
#[allow(dead_code, reason = "not every test binary answers")]
pub const ACK: u8 = 0x10;

impl Frame {
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, dst_port: u16) -> Self {
        Self {
            dst_mac: [0x02, 0, 0, 0, 0, 1],
            src_mac: [0x02, 0, 0, 0, 0, 2],
            tags: Vec::new(),
            src: src.into(),
            dst: dst.into(),
            src_port: 40_000,
            dst_port,
            protocol: 6,
            fragment: 0x4000,
            extensions: Vec::new(),
            upper: None,
            ip_options: Vec::new(),
            tcp_flags: SYN,
            seq: 1,
            ack: 0,
            payload: Vec::new(),
        }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend(self.dst_mac);
        frame.extend(self.src_mac);
        for (kind, id) in &self.tags {
            frame.extend(kind.to_be_bytes());
            frame.extend(id.to_be_bytes());
        }
        let segment = self.upper.clone().unwrap_or_else(|| self.segment());
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.ipv4(&mut frame, src, dst, segment.len()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.ipv6(&mut frame, src, dst, segment.len()),
            _ => panic!("addresses of two families"),
        }
        frame.extend(segment);
        frame
    }

    #[allow(dead_code, reason = "not every test binary needs errors")]
    /// An ICMP error about this frame, from a router: to be [built](Self::build) in turn.
    pub fn icmp_error(&self, router: impl Into<IpAddr>, kind: u8, code: u8, argument: u32) -> Self {
        let quoted = &self.build()[14 + 4 * self.tags.len()..];
        let mut upper = vec![kind, code, 0, 0];
        upper.extend(argument.to_be_bytes());
        // What a router of RFC 792 quotes: the IP header and eight bytes.
        let header = if self.src.is_ipv4() { 20 } else { 40 };
        upper.extend(&quoted[..header + self.ip_options.len() + 8]);
        let mut error = Self::new(router, self.src, 0);
        error.tags.clone_from(&self.tags);
        let protocol = if self.src.is_ipv4() { 1 } else { 58 };
        error.protocol = protocol;
        let mut sum = checksum::Sum::ZERO;
        if error.src.is_ipv6() {
            sum = checksum::pseudo_header(error.src, error.dst, protocol, upper.len())
                .expect("addresses of one family");
        }
        let sum = sum.combine(checksum::Sum::of(&upper)).finish();
        upper[2..4].copy_from_slice(&sum.to_be_bytes());
        error.upper = Some(upper);
        error
    }

    fn ipv4(&self, frame: &mut Vec<u8>, src: Ipv4Addr, dst: Ipv4Addr, payload: usize) {
        frame.extend([0x08, 0x00]);
        let start = frame.len();
        let header = 20 + self.ip_options.len();
        frame.extend([0x40 | (header / 4) as u8, 0]);
        frame.extend(((header + payload) as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(self.fragment.to_be_bytes());
        frame.extend([64, self.protocol, 0, 0]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend(&self.ip_options);
        let sum = checksum::Sum::of(&frame[start..]).finish();
        frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn ipv6(&self, frame: &mut Vec<u8>, src: Ipv6Addr, dst: Ipv6Addr, payload: usize) {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        let extensions: usize = self.extensions.iter().map(|(_, body)| 1 + body.len()).sum();
        frame.extend(((payload + extensions) as u16).to_be_bytes());
        let kinds = self.extensions.iter().map(|(kind, _)| *kind);
        let mut kinds = kinds.chain([self.protocol]);
        frame.extend(kinds.next());
        frame.push(64);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        for (_, body) in &self.extensions {
            frame.extend(kinds.next());
            frame.extend(body);
        }
    }

    fn segment(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.src_port.to_be_bytes());
        segment.extend(self.dst_port.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([0x50, self.tcp_flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(&self.payload);
        let pseudo = checksum::pseudo_header(self.src, self.dst, 6, segment.len())
            .expect("addresses of one family");
        let sum = pseudo.combine(checksum::Sum::of(&segment)).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}
