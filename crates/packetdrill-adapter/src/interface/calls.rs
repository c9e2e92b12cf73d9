//! The calls that open and close.
//!
//! # Safety
//! Of all of them: `userdata` is what `packetdrill_interface_init` gave; pointers are valid for the
//! lengths that come with them, as for the system calls of the same names.

use core::ffi::{c_int, c_void};

use libc::{sockaddr, socklen_t};
use sim::script::Errno;
use sim::sockets::{Attempt, Fd, Sockets};

use super::memory::{address, host, int, put_address};
use crate::host::{Host, State};

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
    let number = state.numbers.add(fd);
    int(number
        .map(i64::from)
        .map_err(|error| Errno(error.raw_os_error())))
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

pub(super) unsafe extern "C" fn bind(
    userdata: *mut c_void,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: see the module.
    let (host, to) = unsafe { (host(userdata), address(to, len)) };
    int(to.and_then(|to| on_socket(host, fd, |sockets, fd| sockets.bind(fd, to))))
}

pub(super) unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    int(on_socket(host, fd, |sockets, fd| {
        sockets.listen(fd, backlog)
    }))
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
            let number = state.numbers.add(new);
            let number = number.map_err(|error| Errno(error.raw_os_error()))?;
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

pub(super) unsafe extern "C" fn connect(
    userdata: *mut c_void,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: see the module.
    let (host, to) = unsafe { (host(userdata), address(to, len)) };
    int(to.and_then(|to| on_socket(host, fd, |sockets, fd| sockets.connect(fd, to))))
}

pub(super) unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    int(on_socket(host, fd, |sockets, fd| sockets.shutdown(fd, how)))
}

/// The real descriptor stays, for the runner to close.
pub(super) unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: see the module.
    let host = unsafe { host(userdata) };
    let done = host.call(
        |state| {
            let socket = state.numbers.remove(fd).ok_or(Errno::EBADF)?;
            state.sockets.close(socket)
        },
        None,
    );
    int(done.map(|_| 0))
}
