//! Addresses, as the program's buffers and the kernel hold them.

use core::ffi::c_int;
use core::mem::size_of;
use std::net::SocketAddr;

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use crate::kernel::raw::{result, sys};

/// Writes `value` as a socket of `family` sees it, cut off at the room there is, and how long it
/// really is.
///
/// # Safety
/// `address` and `length` are null or the program's buffer and its length.
pub unsafe fn write_address(
    value: SocketAddr,
    family: i32,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let Some(length) = (unsafe { length.as_mut() }) else {
        return Err(Errno::FAULT);
    };
    let room = usize::try_from(*length as i32).map_err(|_| Errno::INVAL)?;
    if room > 0 && address.is_null() {
        return Err(Errno::FAULT);
    }
    // A socket of IPv6 sees an IPv4 peer by its mapped address.
    let value = match value {
        SocketAddr::V4(v4) if family == libc::AF_INET6 => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        other => other,
    };
    let mut copy = |from: *const u8, size: usize| {
        *length = size as socklen_t;
        // SAFETY: `from` has `size` bytes, `address` has `room`.
        unsafe { core::ptr::copy_nonoverlapping(from, address.cast(), size.min(room)) };
    };
    match value {
        SocketAddr::V4(v4) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            copy((&raw const name).cast(), size_of::<libc::sockaddr_in>());
        }
        SocketAddr::V6(v6) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            copy((&raw const name).cast(), size_of::<libc::sockaddr_in6>());
        }
    }
    Ok(())
}

/// Reads the program's address, if it is one of the internet.
///
/// # Safety
/// `length` bytes at `address` are readable.
pub unsafe fn read_address(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<u16>() {
        return None;
    }
    // SAFETY: there are at least two bytes, which are the family.
    let family = i32::from(unsafe { address.cast::<u16>().read_unaligned() });
    match family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: there are enough bytes.
            let name = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = std::net::Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: there are enough bytes.
            let name = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = std::net::Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            let name =
                std::net::SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id);
            Some(name.into())
        }
        _ => None,
    }
}

/// The address to which the kernel's socket `fd` is bound.
pub fn kernel_name(fd: c_int) -> Option<SocketAddr> {
    let mut name = [0u64; size_of::<libc::sockaddr_storage>() / 8];
    let mut length = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and says how many.
    unsafe {
        let name: *mut sockaddr = name.as_mut_ptr().cast();
        result(sys!(libc::SYS_getsockname, fd, name, &raw mut length)).ok()?;
        read_address(name, length)
    }
}
