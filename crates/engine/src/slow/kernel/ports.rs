//! Local ports for connections that the engine opens. The kernel must never use the same port for
//! one of its own, so each is leased from it: a socket bound there, on the wildcard of both
//! families, that never listens.
//!
//! SO_REUSEADDR stays off on the lease: a bound socket that does not listen keeps nobody out if
//! both sides set it. The kernel's own connects skip a port that is bound, and a program's bind to
//! it fails with EADDRINUSE.

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, Result};
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, getsockname, socket_with,
};
use tcp::Instant;

/// A pool of leased ports that grows as connections need it, up to its limit.
#[derive(Debug)]
pub struct Ports {
    /// In the order in which they were used last.
    leases: VecDeque<Lease>,
    limit: usize,
    /// The kernel, or the steering, had no place for another one.
    exhausted: bool,
}

/// A pool that goes round in less than this has hardly any port to spare: a pair in TIME-WAIT can be
/// used again after a second (RFC 6191), and some must be left while programs learn of it.
const SCARCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Lease {
    port: u16,
    used_at: Instant,
    /// Held open for the kernel's sake alone.
    _socket: OwnedFd,
}

impl Ports {
    /// An empty pool that will lease at most `limit` ports.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            leases: VecDeque::new(),
            limit,
            exhausted: false,
        }
    }

    /// Leases one port more, to be used now: any, or exactly `wanted`.
    ///
    /// Errors: `ADDRNOTAVAIL` if the pool is at its limit, `ADDRINUSE` if the kernel has given
    /// the port to somebody else.
    pub fn lease(&mut self, now: Instant, wanted: Option<u16>) -> Result<u16> {
        if let Some(port) = wanted
            && let Some(at) = self.leases.iter().position(|lease| lease.port == port)
        {
            self.use_now(at, now);
            return Ok(port);
        }
        if self.leases.len() >= self.limit {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let socket = hold(wanted.unwrap_or(0));
        if wanted.is_none() {
            self.exhausted = socket.is_err();
        }
        let socket = socket?;
        let port = local_port(&socket)?;
        self.leases.push_back(Lease {
            port,
            used_at: now,
            _socket: socket,
        });
        Ok(port)
    }

    /// Gives back the port that was leased last, which nobody can be reached on.
    pub fn give_back(&mut self) {
        self.leases.pop_back();
        self.exhausted = true;
    }

    /// Whether the pool cannot grow, and its ports have all been used within two seconds.
    pub fn is_scarce(&self, now: Instant) -> bool {
        if self.leases.len() < self.limit && !self.exhausted {
            return false;
        }
        let oldest = self.leases.front();
        oldest.is_none_or(|lease| now.saturating_duration_since(lease.used_at) < SCARCE)
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

    /// The port that was used least recently, to be used now, if it has not been used for `rest`:
    /// a peer may remember the connection that used it.
    pub fn reuse(&mut self, now: Instant, rest: Duration) -> Option<u16> {
        let lease = self.leases.front()?;
        if now.saturating_duration_since(lease.used_at) < rest {
            return None;
        }
        let port = lease.port;
        self.use_now(0, now);
        Some(port)
    }

    fn use_now(&mut self, at: usize, now: Instant) {
        if let Some(mut lease) = self.leases.remove(at) {
            lease.used_at = now;
            self.leases.push_back(lease);
        }
    }

    /// The leased ports.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.leases.iter().map(|lease| lease.port)
    }
}

/// Keeps a port, or any, from everybody else until this is closed.
///
/// # Errors
/// `ADDRINUSE`: somebody else has it.
pub fn hold(port: u16) -> Result<OwnedFd> {
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

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn a_leased_port_is_nobody_elses() {
        let mut ports = Ports::with_limit(2);
        let port = ports.lease(NOW, None).expect("the kernel has ports");
        // std sets SO_REUSEADDR, as servers do.
        let error = TcpListener::bind(("0.0.0.0", port)).expect_err("the port is taken");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut ports = Ports::with_limit(1);
        let port = ports.lease(NOW, None).expect("the kernel has ports");
        assert_eq!(ports.lease(NOW, None), Err(Errno::ADDRNOTAVAIL));
        assert_eq!(ports.lease(NOW, Some(port)), Ok(port), "leased already");
    }

    #[test]
    fn ports_are_scarce_while_all_were_used_a_moment_ago() {
        let later = |ms| NOW + Duration::from_millis(ms);
        let mut ports = Ports::with_limit(2);
        assert!(!ports.is_scarce(NOW), "there will be more");
        for _ in 0..2 {
            assert!(!ports.is_scarce(NOW));
            ports.lease(NOW, None).expect("a port");
        }
        assert!(ports.is_scarce(later(1999)));
        assert!(!ports.is_scarce(later(2000)));
        ports.reuse(later(2000), Duration::ZERO).expect("a port");
        assert!(!ports.is_scarce(later(2000)), "one is left");
        ports.reuse(later(2000), Duration::ZERO).expect("a port");
        assert!(ports.is_scarce(later(2000)));
        // One that nobody can be reached on is not counted on again, and the pool ends there.
        let mut ports = Ports::with_limit(2);
        ports.lease(NOW, None).expect("a port");
        ports.lease(NOW, None).expect("a port");
        ports.give_back();
        assert_eq!(ports.len(), 1);
        assert!(ports.is_scarce(NOW));
        assert!(Ports::with_limit(0).is_scarce(NOW), "there are none");
    }

    #[test]
    fn ports_rest_and_are_used_again_in_their_order() {
        let second = Duration::from_secs(1);
        let mut ports = Ports::with_limit(3);
        assert_eq!(ports.reuse(NOW, Duration::ZERO), None);
        let leased = [0, 1, 2].map(|at| ports.lease(NOW + at * second, None).expect("a port"));
        let later = |seconds| NOW + seconds * second;
        assert_eq!(ports.reuse(later(59), 60 * second), None);
        assert_eq!(ports.reuse(later(60), 60 * second), Some(leased[0]));
        assert_eq!(ports.reuse(later(60), 60 * second), None);
        // What was asked for by name has been used, too.
        assert_eq!(ports.lease(later(61), Some(leased[1])), Ok(leased[1]));
        let order = [0; 3].map(|_| ports.reuse(later(62), Duration::ZERO));
        assert_eq!(order, [leased[2], leased[0], leased[1]].map(Some));
    }
}
