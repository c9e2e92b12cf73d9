//! From C's pointers to values, and from results to `errno`.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{iovec, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use sim::script::Errno;

use crate::host::Host;

/// The host behind `userdata`.
///
/// # Safety
/// `userdata` is what `packetdrill_interface_init` gave, and has not been freed.
pub(super) unsafe fn host<'a>(userdata: *mut c_void) -> &'a Host {
    // SAFETY: as this function demands; the host is only ever shared.
    unsafe { &*userdata.cast::<Host>() }
}

/// A string, or nothing for null.
///
/// # Safety
/// `text` is null or a string.
pub(super) unsafe fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as this function demands.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The bytes at `data`.
///
/// # Safety
/// `data` is valid for reading `len` bytes, or `len` is zero.
pub(super) unsafe fn bytes(data: *const c_void, len: usize) -> Vec<u8> {
    if len == 0 || data.is_null() {
        return Vec::new();
    }
    // SAFETY: as this function demands.
    unsafe { core::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec()
}

/// Copies as many of `bytes` as fit to `data`; returns how many.
///
/// # Safety
/// `data` is valid for writing `len` bytes, or `len` is zero.
pub(super) unsafe fn put(bytes: &[u8], data: *mut c_void, len: usize) -> usize {
    let count = bytes.len().min(len);
    if count > 0 && !data.is_null() {
        // SAFETY: as this function demands; `bytes` is ours and does not overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), count) };
    }
    count
}

/// The pieces of a vector.
///
/// # Safety
/// `pieces` is valid for reading `count` of them.
pub(super) unsafe fn pieces(pieces: *const iovec, count: usize) -> Vec<iovec> {
    (0..count)
        // SAFETY: as this function demands.
        .map(|index| unsafe { pieces.add(index).read() })
        .collect()
}

/// A socket address.
///
/// # Safety
/// `address` is null or valid for reading `len` bytes.
pub(super) unsafe fn address(
    address: *const sockaddr,
    len: socklen_t,
) -> Result<SocketAddr, Errno> {
    if address.is_null() || (len as usize) < size_of::<sockaddr_in>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: it is at least as long as an IPv4 address, which is longer than the family.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        libc::AF_INET => {
            // SAFETY: the length has been checked.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: the length has been checked.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Ok((ip, u16::from_be(v6.sin6_port)).into())
        }
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Writes a socket address where the caller wants one.
///
/// # Safety
/// Both are null, or `len` is valid and `to` valid for writing as many bytes as it says.
pub(super) unsafe fn put_address(address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    let mut bytes = Vec::with_capacity(size_of::<sockaddr_in6>());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend((libc::AF_INET as u16).to_ne_bytes());
            bytes.extend(v4.port().to_be_bytes());
            bytes.extend(v4.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
            bytes.extend(v6.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.extend([0; 4]);
        }
    }
    // SAFETY: as this function demands.
    unsafe {
        put(&bytes, to.cast(), *len as usize);
        *len = bytes.len() as socklen_t;
    }
}

/// The result of a call as C has it: -1 and `errno` for an error.
pub(super) fn result(result: Result<i64, Errno>) -> i64 {
    match result {
        Ok(value) => value,
        Err(errno) => {
            // SAFETY: the calling thread's own errno.
            unsafe { *libc::__errno_location() = errno.0 };
            -1
        }
    }
}

/// The same for calls that return `int`.
pub(super) fn int(value: Result<i64, Errno>) -> c_int {
    result(value) as c_int
}
