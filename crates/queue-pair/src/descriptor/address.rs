//! Socket addresses as descriptors carry them: 16 bytes of address (IPv4 in the first four), a
//! port, a scope for IPv6, and the family said elsewhere.

use crate::Violation;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address taken apart into words; the family is carried by whoever carries this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) ip: [u64; 2],
    pub(super) port: u16,
    pub(super) scope: u32,
}

impl Packed {
    pub(super) fn new(address: SocketAddr) -> Self {
        let (octets, scope) = match address {
            SocketAddr::V4(v4) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&v4.ip().octets());
                (octets, 0)
            }
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        let [low, high] = halves(octets);
        Self {
            ip: [low, high],
            port: address.port(),
            scope,
        }
    }

    /// The address, if its words mean one of that family.
    pub(super) fn unpack(self, v6: bool) -> Result<SocketAddr, Violation> {
        if v6 {
            let ip = Ipv6Addr::from(octets(self.ip));
            return Ok(SocketAddrV6::new(ip, self.port, 0, self.scope).into());
        }
        let stray = |value| {
            Err(Violation::UndefinedValue {
                field: "IPv4 address",
                value,
            })
        };
        match (self.ip, self.scope) {
            ([_, high], _) if high != 0 => stray(high),
            ([low, _], _) if low > u64::from(u32::MAX) => stray(low),
            (_, scope) if scope != 0 => stray(scope.into()),
            ([low, _], _) => {
                let ip = Ipv4Addr::from((low as u32).to_ne_bytes());
                Ok(SocketAddr::new(IpAddr::V4(ip), self.port))
            }
        }
    }
}

fn halves(octets: [u8; 16]) -> [u64; 2] {
    let mut halves = octets
        .as_chunks::<8>()
        .0
        .iter()
        .map(|half| u64::from_ne_bytes(*half));
    core::array::from_fn(|_| halves.next().unwrap_or(0))
}

fn octets(halves: [u64; 2]) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&halves[0].to_ne_bytes());
    octets[8..].copy_from_slice(&halves[1].to_ne_bytes());
    octets
}
