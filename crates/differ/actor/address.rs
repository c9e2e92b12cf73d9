//! Socket addresses as the kernel has them.

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Room for the address of either family.
pub struct Room {
    /// The bytes.
    pub bytes: libc::sockaddr_in6,
    /// How many of them count.
    pub length: libc::socklen_t,
}

impl Room {
    /// To be filled.
    pub fn empty() -> Self {
        Self {
            // SAFETY: it is made of integers.
            bytes: unsafe { zeroed() },
            length: size_of::<libc::sockaddr_in6>() as u32,
        }
    }

    /// Holding `address`.
    pub fn of(address: SocketAddr) -> Self {
        let mut room = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: it is made of integers.
                let mut name: libc::sockaddr_in = unsafe { zeroed() };
                name.sin_family = libc::AF_INET as u16;
                name.sin_port = v4.port().to_be();
                name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                room.length = size_of::<libc::sockaddr_in>() as u32;
                // SAFETY: the room is larger, and aligned as much.
                unsafe {
                    (&raw mut room.bytes)
                        .cast::<libc::sockaddr_in>()
                        .write(name)
                };
            }
            SocketAddr::V6(v6) => {
                room.bytes.sin6_family = libc::AF_INET6 as u16;
                room.bytes.sin6_port = v6.port().to_be();
                room.bytes.sin6_addr.s6_addr = v6.ip().octets();
            }
        }
        room
    }

    /// For calls that take an address.
    pub fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.bytes).cast()
    }

    /// For calls that fill it.
    pub fn pointer_mut(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.bytes).cast()
    }

    /// What a call has filled in, if it is an address of the Internet.
    pub fn read(&self) -> Option<SocketAddr> {
        let port = u16::from_be(self.bytes.sin6_port);
        match i32::from(self.bytes.sin6_family) {
            libc::AF_INET => {
                // SAFETY: the room holds an address of this family, and is larger.
                let name = unsafe { (&raw const self.bytes).cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(IpAddr::V4(ip), port))
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.bytes.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), port))
            }
            _ => None,
        }
    }
}

/// Whether a socket is of IPv4.
pub fn is_ipv4(fd: i32) -> bool {
    let mut family: i32 = 0;
    let mut length = size_of::<i32>() as u32;
    // SAFETY: an integer and its length.
    unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut family).cast(),
            &raw mut length,
        )
    };
    family == libc::AF_INET
}
