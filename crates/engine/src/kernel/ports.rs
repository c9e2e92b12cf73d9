//! Local ports for connections that the engine opens. The kernel must never use the same port for
//! one of its own, so each is leased from it: a socket bound there, on the wildcard of both
//! families, that never listens.
//!
//! SO_REUSEADDR stays off on the lease: a bound socket that does not listen keeps nobody out if
//! both sides set it. The kernel's own connects skip a port that is bound, and a program's bind to
//! it fails with EADDRINUSE.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, getsockname, socket_with,
};

/// A pool of leased ports that grows as connections need it, up to its limit.
#[derive(Debug)]
pub struct Ports {
    leases: Vec<Lease>,
    limit: usize,
    next: usize,
}

#[derive(Debug)]
struct Lease {
    port: u16,
    /// Held open for the kernel's sake alone.
    _socket: OwnedFd,
}

impl Ports {
    /// An empty pool that will lease at most `limit` ports.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            leases: Vec::new(),
            limit,
            next: 0,
        }
    }

    /// Leases one port more: any, or exactly `wanted`.
    ///
    /// Errors: `ADDRNOTAVAIL` if the pool is at its limit, `ADDRINUSE` if the kernel has given
    /// the port to somebody else.
    pub fn lease(&mut self, wanted: Option<u16>) -> Result<u16> {
        if let Some(port) = wanted
            && self.contains(port)
        {
            return Ok(port);
        }
        if self.leases.len() >= self.limit {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let socket = bound(wanted.unwrap_or(0))?;
        let port = local_port(&socket)?;
        self.leases.push(Lease {
            port,
            _socket: socket,
        });
        Ok(port)
    }

    /// Whether `port` is leased.
    pub fn contains(&self, port: u16) -> bool {
        self.leases.iter().any(|lease| lease.port == port)
    }

    /// How many ports are leased.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether no port is leased.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// A leased port, another one at each call: so that consecutive connections to one destination
    /// use different ports.
    pub fn rotate(&mut self) -> Option<u16> {
        self.next = (self.next + 1) % self.leases.len().max(1);
        self.leases.get(self.next).map(|lease| lease.port)
    }

    /// The leased ports.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.leases.iter().map(|lease| lease.port)
    }
}

fn bound(port: u16) -> Result<OwnedFd> {
    let both = socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    match both {
        Ok(socket) => {
            set_ipv6_v6only(&socket, false)?;
            bind(
                &socket,
                &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0),
            )?;
            Ok(socket)
        }
        // A kernel without IPv6.
        Err(Errno::AFNOSUPPORT) => {
            let socket = socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            bind(
                &socket,
                &std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, port),
            )?;
            Ok(socket)
        }
        Err(error) => Err(error),
    }
}

fn local_port(socket: &OwnedFd) -> Result<u16> {
    let address = getsockname(socket)?;
    std::net::SocketAddr::try_from(address)
        .map(|address: std::net::SocketAddr| address.port())
        .map_err(|_: <std::net::SocketAddr as TryFrom<SocketAddrAny>>::Error| Errno::AFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_leased_port_is_nobody_elses() {
        let mut ports = Ports::with_limit(2);
        let port = ports.lease(None).expect("the kernel has ports");
        // std sets SO_REUSEADDR, as servers do.
        let error = TcpListener::bind(("0.0.0.0", port)).expect_err("the port is taken");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut ports = Ports::with_limit(1);
        let port = ports.lease(None).expect("the kernel has ports");
        assert_eq!(ports.lease(None), Err(Errno::ADDRNOTAVAIL));
        assert_eq!(ports.lease(Some(port)), Ok(port), "leased already");
    }

    #[test]
    fn consecutive_connections_use_different_ports() {
        let mut ports = Ports::with_limit(3);
        assert_eq!(ports.rotate(), None);
        for _ in 0..3 {
            ports.lease(None).expect("the kernel has ports");
        }
        let used: std::collections::BTreeSet<_> = (0..3).filter_map(|_| ports.rotate()).collect();
        assert_eq!(used, ports.iter().collect());
    }
}
