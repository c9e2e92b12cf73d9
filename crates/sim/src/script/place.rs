//! Where scripts take place: the addresses and ports of both ends, the same on every stack.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ast::Version;

/// Where the stack under test listens, unless a script says otherwise.
pub const LISTENING_PORT: u16 = 8080;
/// Where the script's end connects from, unless it says otherwise.
pub const CLIENT_PORT: u16 = 40_000;
/// Where the script's end is connected to, unless it says otherwise.
pub const SERVICE_PORT: u16 = 80;

/// The address of the stack under test: one set aside for documentation (RFC 5737, RFC 3849).
pub fn local(version: Version) -> IpAddr {
    match version {
        Version::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        Version::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// The address of the script's end. It is on the same link.
pub fn remote(version: Version) -> IpAddr {
    match version {
        Version::V4 => Ipv4Addr::new(192, 0, 2, 2).into(),
        Version::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// Where `bind` binds to when a script leaves it open.
pub fn listening(version: Version, port: Option<u16>) -> SocketAddr {
    SocketAddr::new(local(version), port.unwrap_or(LISTENING_PORT))
}

/// Where `connect` connects to when a script leaves it open.
pub fn service(version: Version, port: Option<u16>) -> SocketAddr {
    SocketAddr::new(remote(version), port.unwrap_or(SERVICE_PORT))
}
