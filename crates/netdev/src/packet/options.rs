//! What all AF_PACKET sockets have in common.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::interface::Interface;

/// A non-blocking socket for whole frames. It receives nothing until it is bound to a protocol.
pub(super) fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface, and to frames of a protocol: an EtherType, `ETH_P_ALL`, or 0 for none.
pub(super) fn bind(fd: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index as i32;
    // SAFETY: the address is a sockaddr_ll of the length given, alive during the call.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets an integer option.
pub(super) fn set_option(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: i32,
) -> io::Result<()> {
    // SAFETY: the kernel reads the four bytes of an integer.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
