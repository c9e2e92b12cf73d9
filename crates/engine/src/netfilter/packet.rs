//! The packet that is asked about: what is known of it before it comes.

use std::net::IpAddr;

use super::octet::{Address, FIRST_PORT, Octet};
use super::rules::{Header, Load, Side, Test};
use super::truth::Truth;

const IPPROTO_TCP: u8 = 6;
/// `NFPROTO_*`.
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
/// `NFT_META_*`, as far as they are known here.
const META_PROTOCOL: u32 = 1;
const META_MARK: u32 = 3;
const META_IIF: u32 = 4;
const META_OIF: u32 = 5;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_IIFTYPE: u32 = 8;
const META_OIFTYPE: u32 = 9;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const META_PKTTYPE: u32 = 19;
/// `NFT_CT_*`.
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;
const CT_MARK: u32 = 3;
/// `NFT_FIB_RESULT_*` and `NFTA_FIB_F_*`.
const FIB_OIF: u32 = 1;
const FIB_ADDRTYPE: u32 = 3;
const FIB_SADDR: u32 = 1;
const FIB_IIF: u32 = 8;
const FIB_PRESENT: u32 = 32;
/// `RTN_*`.
const UNICAST: u16 = 1;
const LOCAL: u16 = 2;
/// The bits of `NFT_CT_STATE`.
pub const ESTABLISHED: u32 = 2;
/// For the first packet of a connection.
pub const NEW: u32 = 8;
/// Bits of `NFT_CT_STATUS` that no connection of the engine's has: expected, and rewritten.
const NEVER: u32 = 1 | 1 << 4 | 1 << 5;
const ARPHRD_ETHER: u16 = 1;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ALL_BUT_ECN: u8 = 0x3f;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// Which segment of a connection a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// The first: the connection is new.
    Syn,
    /// The answer to that.
    SynAck,
    /// All that follow.
    Other,
}

/// An interface of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// There are others: what comes by it may be answered by another.
    pub has_others: bool,
}

/// A segment between the engine and any peer.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// By this interface.
    pub interface: &'a Interface,
    /// Which way.
    pub way: Way,
    /// Which segment.
    pub segment: Segment,
    /// One of these is this end's address: of one family, and at least one.
    pub own: &'a [IpAddr],
    /// This end's port; any that is not privileged where it is not known.
    pub own_port: Option<u16>,
}

impl Packet<'_> {
    /// Of IPv6.
    pub fn is_v6(&self) -> bool {
        self.own.first().is_some_and(IpAddr::is_ipv6)
    }

    /// The bits of an address.
    pub fn bits(&self) -> u32 {
        if self.is_v6() { 128 } else { 32 }
    }

    /// This end's addresses, as bytes.
    pub fn own_bytes(&self) -> impl Iterator<Item = Vec<u8>> {
        self.own.iter().map(|address| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        })
    }

    /// What a step loads: so many bytes if nothing is known of it. `marked` says that other rules may have marked it.
    pub fn load(&self, what: Load, len: usize, marked: bool) -> Vec<Octet> {
        let number = |value: u32| known(&value.to_ne_bytes());
        let bytes = match what {
            Load::Header(header, from) => {
                let header = self.header(header);
                let byte = |at| header.get(from + at).copied().unwrap_or(Octet::UNKNOWN);
                (0..len).map(byte).collect()
            }
            Load::Meta(META_MARK) | Load::Ct(CT_MARK) if !marked => number(0),
            Load::Meta(key) => self.meta(key),
            Load::Ct(CT_STATE) if !marked => number(self.state()),
            Load::Ct(CT_STATUS) => NEVER
                .to_ne_bytes()
                .map(|known| Octet::Bits { value: 0, known })
                .to_vec(),
            Load::Ct(_) => Vec::new(),
            Load::Fib { result, flags } => self.fib(result, flags),
        };
        if bytes.is_empty() {
            vec![Octet::UNKNOWN; len]
        } else {
            bytes
        }
    }

    /// Whether what an older extension asks for holds. `marked` as above.
    pub fn test(&self, test: &Test, marked: bool) -> Truth {
        match test {
            Test::State(_) if marked => Truth::Maybe,
            Test::State(states) => Truth::is(states & self.state() != 0),
            Test::Port { side, ranges } => {
                let lies = |from: u16, to: u16| {
                    let (mut all, mut any) = (false, false);
                    for (first, last) in ranges {
                        all |= *first <= from && to <= *last;
                        any |= *first <= to && from <= *last;
                    }
                    match (all, any) {
                        (true, _) => Truth::Yes,
                        (false, true) => Truth::Maybe,
                        (false, false) => Truth::No,
                    }
                };
                let own = match self.own_port {
                    Some(port) => lies(port, port),
                    None => lies(FIRST_PORT, u16::MAX),
                };
                let peers = lies(0, u16::MAX);
                match (side, self.way) {
                    (Side::Source, Way::Out) | (Side::Destination, Way::In) => own,
                    (Side::Source, Way::In) | (Side::Destination, Way::Out) => peers,
                    (Side::Either, _) => own.or(peers),
                }
            }
            Test::Flags(mask, set) => match self.flags() {
                Octet::Bits { value, known } => {
                    let differ = (value ^ set) & mask;
                    match () {
                        () if differ & known != 0 => Truth::No,
                        () if mask & !known != 0 => Truth::Maybe,
                        () => Truth::Yes,
                    }
                }
                Octet::Address { .. } | Octet::Port(_) => Truth::Maybe,
            },
            Test::AddressKind { destination, kinds } => {
                let own = *destination == (self.way == Way::In);
                let kind = 1 << if own { LOCAL } else { UNICAST };
                Truth::is(kinds & kind != 0)
            }
            Test::Not(test) => self.test(test, marked).not(self.bits()),
            Test::All(tests) => tests.iter().fold(Truth::Yes, |so_far, test| {
                so_far.and(self.test(test, marked))
            }),
        }
    }

    /// The first of its connection.
    pub fn opens(&self) -> bool {
        self.segment == Segment::Syn
    }

    fn state(&self) -> u32 {
        if self.opens() { NEW } else { ESTABLISHED }
    }

    fn flags(&self) -> Octet {
        // The two bits of ECN may be set in each (RFC 3168 section 6.1.1).
        let (value, known) = match self.segment {
            Segment::Syn => (SYN, ALL_BUT_ECN),
            Segment::SynAck => (SYN | ACK, ALL_BUT_ECN),
            Segment::Other => (ACK, SYN | ACK),
        };
        Octet::Bits { value, known }
    }

    fn header(&self, header: Header) -> Vec<Octet> {
        let mut bytes = Vec::new();
        let skip_to = |bytes: &mut Vec<Octet>, at| bytes.resize(at, Octet::UNKNOWN);
        let addresses = |bytes: &mut Vec<Octet>| {
            let source_is_peer = self.way == Way::In;
            for peer in [source_is_peer, !source_is_peer] {
                let whose = if peer { Address::Peer } else { Address::Own };
                bytes.extend((0..self.bits() as u8 / 8).map(|at| Octet::Address {
                    whose,
                    at,
                    mask: 0xff,
                }));
            }
        };
        match header {
            Header::Link => {}
            Header::Network if self.is_v6() => {
                // Extension headers are not expected; who sends some is asked about by another packet.
                skip_to(&mut bytes, 8);
                addresses(&mut bytes);
            }
            Header::Network => {
                skip_to(&mut bytes, 9);
                bytes.extend(known(&[IPPROTO_TCP]));
                skip_to(&mut bytes, 12);
                addresses(&mut bytes);
            }
            Header::Transport => {
                let own = match self.own_port {
                    Some(port) => known(&port.to_be_bytes()),
                    None => vec![Octet::Port(0), Octet::Port(1)],
                };
                let peers = vec![Octet::UNKNOWN; 2];
                bytes = match self.way {
                    Way::In => [peers, own].concat(),
                    Way::Out => [own, peers].concat(),
                };
                skip_to(&mut bytes, 13);
                bytes.push(self.flags());
            }
        }
        bytes
    }

    fn meta(&self, key: u32) -> Vec<Octet> {
        let (nfproto, ethertype) = match self.is_v6() {
            true => (NFPROTO_IPV6, 0x86dd_u16),
            false => (NFPROTO_IPV4, 0x0800),
        };
        let here = match key {
            META_IIF | META_IIFNAME | META_IIFTYPE | META_PKTTYPE => self.way == Way::In,
            META_OIF | META_OIFNAME | META_OIFTYPE => self.way == Way::Out,
            _ => true,
        };
        match key {
            _ if !here => Vec::new(),
            META_PROTOCOL => known(&ethertype.to_be_bytes()),
            META_NFPROTO => known(&[nfproto]),
            META_L4PROTO => known(&[IPPROTO_TCP]),
            META_IIF | META_OIF => known(&self.interface.index.to_ne_bytes()),
            META_IIFNAME | META_OIFNAME => {
                let mut name = [0; 16];
                let len = self.interface.name.len().min(name.len());
                name[..len].copy_from_slice(&self.interface.name.as_bytes()[..len]);
                known(&name)
            }
            META_IIFTYPE | META_OIFTYPE => known(&ARPHRD_ETHER.to_ne_bytes()),
            // To this machine: PACKET_HOST.
            META_PKTTYPE => known(&[0]),
            _ => Vec::new(),
        }
    }

    fn fib(&self, result: u32, flags: u32) -> Vec<Octet> {
        let of_source = flags & FIB_SADDR != 0;
        let own = of_source == (self.way == Way::Out);
        match result {
            FIB_ADDRTYPE => {
                let kind = if own { LOCAL } else { UNICAST };
                known(&u32::from(kind).to_ne_bytes())
            }
            // Whether the peer is reached by the interface: who is not gets no answer from the engine, which
            // asks the kernel for just that route. With several it asks for any.
            FIB_OIF if self.interface.has_others => Vec::new(),
            FIB_OIF if !own && flags & FIB_IIF != 0 && self.way == Way::In => {
                if flags & FIB_PRESENT != 0 {
                    known(&[1])
                } else {
                    known(&self.interface.index.to_ne_bytes())
                }
            }
            _ => Vec::new(),
        }
    }
}

/// Bytes all of which are known.
pub fn known(bytes: &[u8]) -> Vec<Octet> {
    let octet = |value: &u8| Octet::Bits {
        value: *value,
        known: 0xff,
    };
    bytes.iter().map(octet).collect()
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
