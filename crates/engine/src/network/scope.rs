//! Addresses of IPv6 that mean more than their bytes: link-local ones, which are nothing without the link
//! (RFC 4007 §6), and mapped ones, which are IPv4's (RFC 4291 §2.5.5.2).

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Whether an address is only unique on its link (RFC 4291 §2.5.6).
pub fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if of_link(v6))
}

fn of_link(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// The address as a program needs it: a link-local one with the number of its interface.
pub fn scoped(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if of_link(*v6.ip()) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), interface).into()
        }
        other => other,
    }
}

/// What a listener is known by: a socket of IPv6 that is bound to a mapped address takes IPv4, and nothing
/// else.
pub fn canonical(local: SocketAddr) -> SocketAddr {
    match local.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), local.port()),
        IpAddr::V6(_) => local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_link_local_addresses_have_a_scope() {
        for (address, with_scope) in [
            ("[fe80::1]:80", "[fe80::1%7]:80"),
            ("[febf::1]:80", "[febf::1%7]:80"),
            ("[fec0::1]:80", "[fec0::1]:80"),
            ("[fd00::1]:80", "[fd00::1]:80"),
            ("169.254.0.1:80", "169.254.0.1:80"),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(scoped(address, 7).to_string(), with_scope);
            assert_eq!(is_link_local(address.ip()), with_scope.contains('%'));
        }
    }
}
