//! The calls that open and close.
//!
//! # Safety
//! Of all of them: `userdata` is what `packetdrill_interface_init` gave; pointers are valid for the
//! lengths that come with them, as for the system calls of the same names.

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;

use libc::{sockaddr, socklen_t};
use sim::script::Errno;
use sim::sockets::{Attempt, Fd, Sockets};

use super::memory::{address, host, int, put_address};
use crate::host::{Host, State};
use crate::numbers::Object;

pub(super) unsafe extern "C" fn socket(
    userdata: *mut c_void,
    family: c_int,
    kind: c_int,
    _protocol: c_int,
) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    if kind & 0xf != libc::SOCK_STREAM {
        return int(Err(Errno::ESOCKTNOSUPPORT));
    }
    let v6 = match family {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return int(Err(Errno::EAFNOSUPPORT)),
    };
    let mut state = host.lock();
    let fd = state.sockets.open(v6, kind & libc::SOCK_NONBLOCK != 0);
    int(state.numbers.add(Object::Socket(fd)).map(i64::from))
}

/// A call on one socket, which answers zero.
fn on_socket(
    host: &Host,
    fd: c_int,
    mut call: impl FnMut(&mut Sockets, Fd) -> Attempt<()>,
) -> Result<i64, Errno> {
    let attempt = |state: &mut State| {
        let fd = state.find(fd)?;
        call(&mut state.sockets, fd)
    };
    host.call(attempt, None).map(|_| 0)
}

/// A call on one socket with an address.
///
/// # Safety
/// See the module.
unsafe fn with_address(
    userdata: *mut c_void,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
    call: fn(&mut Sockets, Fd, SocketAddr) -> Attempt<()>,
) -> c_int {
    // SAFETY: see the module.
    let (host, to) = unsafe { (host(userdata), address(to, len)) };
    int(to.and_then(|to| on_socket(host, fd, |sockets, fd| call(sockets, fd, to))))
}

/// A call on one socket with a number.
///
/// # Safety
/// See the module.
unsafe fn with_number(
    userdata: *mut c_void,
    fd: c_int,
    number: c_int,
    call: fn(&mut Sockets, Fd, i32) -> Attempt<()>,
) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    int(on_socket(host, fd, |sockets, fd| call(sockets, fd, number)))
}

pub(super) unsafe extern "C" fn bind(
    userdata: *mut c_void,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: see the module.
    unsafe { with_address(userdata, fd, to, len, Sockets::bind) }
}

pub(super) unsafe extern "C" fn connect(
    userdata: *mut c_void,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: see the module.
    unsafe { with_address(userdata, fd, to, len, Sockets::connect) }
}

pub(super) unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: see the module.
    unsafe { with_number(userdata, fd, backlog, Sockets::listen) }
}

pub(super) unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: see the module.
    unsafe { with_number(userdata, fd, how, Sockets::shutdown) }
}

pub(super) unsafe extern "C" fn accept(
    userdata: *mut c_void,
    fd: c_int,
    peer: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    let accepted = host.call(
        |state| {
            let fd = state.find(fd)?;
            let (new, peer) = state.sockets.accept(fd)?;
            let number = state.numbers.add(Object::Socket(new))?;
            Ok((number, peer))
        },
        None,
    );
    int(accepted.map(|accepted| {
        accepted.map_or(-1, |(number, from)| {
            // SAFETY: see the module.
            unsafe { put_address(from, peer, len) };
            i64::from(number)
        })
    }))
}

/// The real descriptor stays, for the runner to close.
pub(super) unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    int(host.call(|state| state.close(fd), None).map(|_| 0))
}
