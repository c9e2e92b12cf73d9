//! Flows: the four numbers that name a TCP connection, and a keyed hash of them.
//!
//! Whoever sends us packets chooses the addresses and ports in them. The hash has a secret key, so
//! that nobody can choose them to collide.

use core::net::IpAddr;

use siphasher::sip::{SipHasher13, SipHasher24};

/// The two ends of a TCP connection, as seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Our address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl FlowKey {
    /// The same flow as the peer sees it.
    #[must_use]
    pub const fn reversed(self) -> FlowKey {
        FlowKey {
            local: self.remote,
            remote: self.local,
            local_port: self.remote_port,
            remote_port: self.local_port,
        }
    }
}

/// A keyed hash of flows: SipHash-1-3.
#[derive(Clone, Copy)]
pub struct FlowHasher(SipHasher13);

impl FlowHasher {
    /// A hash with the given secret key.
    pub fn new(key: [u8; 16]) -> FlowHasher {
        FlowHasher(SipHasher13::new_with_key(&key))
    }

    /// The hash of `flow`.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> u64 {
        let mut bytes = [0; MAX_FLOW_BYTES];
        let len = write_flow(flow, &mut bytes);
        self.0.hash(&bytes[..len])
    }
}

/// Length of the longest flow, in bytes.
const MAX_FLOW_BYTES: usize = 36;

/// Writes a flow to the front of `bytes`; returns its length.
#[inline(always)]
fn write_flow(flow: &FlowKey, bytes: &mut [u8; MAX_FLOW_BYTES]) -> usize {
    bytes[0..2].copy_from_slice(&flow.local_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&flow.remote_port.to_be_bytes());
    // The input's length, which is part of the hash, tells the families apart; a flow never
    // mixes them, and one that did would merely be hashed as two IPv6 addresses.
    match (flow.local, flow.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            bytes[4..8].copy_from_slice(&local.octets());
            bytes[8..12].copy_from_slice(&remote.octets());
            12
        }
        (local, remote) => {
            bytes[4..20].copy_from_slice(&as_v6_octets(local));
            bytes[20..36].copy_from_slice(&as_v6_octets(remote));
            36
        }
    }
}

/// A keyed tag on a flow and a few bits that belong to it: SipHash-2-4, for what a stranger would
/// gain by forging.
#[derive(Clone, Copy)]
pub struct FlowMac(SipHasher24);

impl FlowMac {
    /// Tags by the given secret key.
    pub fn new(key: [u8; 16]) -> FlowMac {
        FlowMac(SipHasher24::new_with_key(&key))
    }

    /// The tag of `flow` with `bits`.
    #[inline]
    pub fn tag(&self, flow: &FlowKey, bits: u64) -> u64 {
        let mut bytes = [0; MAX_FLOW_BYTES];
        let len = write_flow(flow, &mut bytes);
        let mut input = [0; MAX_FLOW_BYTES + 8];
        input[..len].copy_from_slice(&bytes[..len]);
        input[len..len + 8].copy_from_slice(&bits.to_be_bytes());
        self.0.hash(&input[..len + 8])
    }

    /// Tags by a key of its own that follows from this one and a number: who has it can tell neither
    /// this key nor that of any other number.
    #[must_use]
    pub fn derive(&self, number: u64) -> FlowMac {
        let mut key = [0; 16];
        for (half, bytes) in key.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.number(half as u8, number).to_be_bytes());
        }
        FlowMac::new(key)
    }

    /// A number that nobody without the key can tell, for each pair of arguments another.
    pub fn number(&self, domain: u8, number: u64) -> u64 {
        let mut input = [0; 9];
        input[0] = domain;
        input[1..].copy_from_slice(&number.to_be_bytes());
        self.0.hash(&input)
    }
}

impl core::fmt::Debug for FlowMac {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The key stays secret.
        f.write_str("FlowMac")
    }
}

impl core::fmt::Debug for FlowHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The key stays secret.
        f.write_str("FlowHasher")
    }
}

fn as_v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn flow() -> FlowKey {
        FlowKey {
            local: Ipv4Addr::new(10, 0, 0, 1).into(),
            remote: Ipv4Addr::new(10, 0, 0, 2).into(),
            local_port: 80,
            remote_port: 40_000,
        }
    }

    #[test]
    fn every_part_of_the_flow_and_the_key_matter() {
        let hasher = FlowHasher::new([7; 16]);
        let hash = hasher.hash(&flow());
        assert_eq!(hash, FlowHasher::new([7; 16]).hash(&flow()));
        let others = [
            flow().reversed(),
            FlowKey {
                local_port: 81,
                ..flow()
            },
            FlowKey {
                remote_port: 81,
                ..flow()
            },
            FlowKey {
                local: Ipv4Addr::new(10, 0, 0, 3).into(),
                ..flow()
            },
            FlowKey {
                remote: Ipv4Addr::new(10, 0, 0, 3).into(),
                ..flow()
            },
            FlowKey {
                local: Ipv6Addr::LOCALHOST.into(),
                remote: Ipv6Addr::LOCALHOST.into(),
                ..flow()
            },
        ];
        for other in others {
            assert_ne!(hasher.hash(&other), hash, "{other:?}");
        }
        assert_ne!(FlowHasher::new([8; 16]).hash(&flow()), hash);
        assert_eq!(flow().reversed().reversed(), flow());
    }

    #[test]
    fn a_tag_is_of_flow_bits_and_key() {
        let mac = FlowMac::new([7; 16]);
        let tag = mac.tag(&flow(), 5);
        assert_eq!(tag, FlowMac::new([7; 16]).tag(&flow(), 5));
        assert_ne!(tag, mac.tag(&flow(), 6));
        assert_ne!(tag, mac.tag(&flow().reversed(), 5));
        assert_ne!(tag, FlowMac::new([8; 16]).tag(&flow(), 5));
        let derived = mac.derive(1).tag(&flow(), 5);
        assert_eq!(derived, mac.derive(1).tag(&flow(), 5));
        assert!(derived != tag && derived != mac.derive(2).tag(&flow(), 5));
    }
}
