//! Addresses, as C has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use native::Errno;

/// Reads an address.
///
/// # Errors
/// `EINVAL`: it is NULL or too short. `EAFNOSUPPORT`: it is neither IPv4 nor IPv6.
///
/// # Safety
/// `address` is NULL or points to `len` bytes.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    let len = len as usize;
    if address.is_null() || len < size_of::<libc::sa_family_t>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the family is inside of `len` bytes; the pointer may be unaligned.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int_of(family) {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: it is as long as that.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: it is as long as that.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(Errno::INVAL),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

fn c_int_of(family: libc::sa_family_t) -> libc::c_int {
    family.into()
}

/// Writes an address as getsockname(2) does: as much of it as there is room for, and its whole length
/// into `len`.
///
/// # Errors
/// `EINVAL`: a pointer is NULL.
///
/// # Safety
/// `len` is NULL or points to a length; `address` is NULL or points to so many bytes.
pub(crate) unsafe fn write(
    from: SocketAddr,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    if address.is_null() || len.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: it points to a length.
    let room = unsafe { len.read_unaligned() } as usize;
    let whole = match from {
        SocketAddr::V4(v4) => {
            let raw = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: at most `room` bytes are written, and no more than `raw` has.
            unsafe { copy(&raw, address, room) }
        }
        SocketAddr::V6(v6) => {
            let raw = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { copy(&raw, address, room) }
        }
    };
    // SAFETY: it points to a length.
    unsafe { len.write_unaligned(whole as socklen_t) };
    Ok(())
}

/// Copies the beginning of `raw`, at most `room` bytes; returns its whole length.
///
/// # Safety
/// `to` points to `room` bytes. `T` has no padding.
unsafe fn copy<T>(raw: &T, to: *mut sockaddr, room: usize) -> usize {
    let whole = size_of::<T>();
    let from = std::ptr::from_ref(raw).cast::<u8>();
    // SAFETY: both have as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), whole.min(room)) };
    whole
}
