//! Making, connecting and accepting.

use core::ffi::c_int;
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use super::{blocking, exports, kernel, points};
use crate::calls::socket::made;
use crate::calls::{accept, connect, control, listener, stream};
use crate::kernel::raw::libc_return;
use crate::numbers;
use crate::numbers::table;

points! {
    fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        // SAFETY: as `accept4`.
        unsafe { accept4(fd, address, length, 0) }
    }

    fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
        if let Some(held) = table::get(fd)
            && held.listener().is_some()
        {
            // SAFETY: the program's own address buffer, or null.
            return libc_return(unsafe { accept::accept(fd, &held, address, length, flags) }) as c_int;
        }
        let accepted = blocking!(
            accept4(
                fd => c_int, address => *mut sockaddr, length => *mut socklen_t, flags => c_int
            ) -> c_int,
            kernel!(SYS_accept4, fd, address, length, flags)
        );
        if accepted >= 0 {
            numbers::handed_out(accepted);
        }
        accepted
    }

    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        if let Some(held) = table::get(fd)
            // SAFETY: the program gives `length` bytes of address.
            && let Some(connected) = unsafe { connect::connect(fd, &held, address, length) }
        {
            return libc_return(connected) as c_int;
        }
        blocking!(
            connect(fd => c_int, address => *const sockaddr, length => socklen_t) -> c_int,
            kernel!(SYS_connect, fd, address, length)
        )
    }

    fn __connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        // SAFETY: as `connect`.
        unsafe { connect(fd, address, length) }
    }
}

exports! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let fd = kernel!(SYS_socket, domain, kind, protocol) as c_int;
        if fd >= 0 {
            numbers::handed_out(fd);
            made(fd, domain, kind, protocol);
        }
        fd
    }

    fn __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: as `socket`.
        unsafe { socket(domain, kind, protocol) }
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        let result = kernel!(SYS_socketpair, domain, kind, protocol, pair) as c_int;
        if result == 0 {
            // SAFETY: the kernel has just filled the program's array of two.
            for fd in unsafe { [*pair, *pair.add(1)] } {
                numbers::handed_out(fd);
            }
        }
        result
    }

    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        match stream::of(fd) {
            None => kernel!(SYS_bind, fd, address, length) as c_int,
            // It has its address. Behind the number of an accepted one is a socket of many, which has none
            // and would take it.
            Some(_) => libc_return(Err(Errno::INVAL)) as c_int,
        }
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        match table::get(fd) {
            None => kernel!(SYS_listen, fd, backlog) as c_int,
            Some(held) => libc_return(listener::listen(fd, &held, backlog).map(|()| 0)) as c_int,
        }
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        let Some(held) = table::get(fd) else {
            return kernel!(SYS_shutdown, fd, how) as c_int;
        };
        if let Some(stream) = held.stream() {
            return libc_return(connect::shutdown(&held, stream, how).map(|()| 0)) as c_int;
        }
        let result = kernel!(SYS_shutdown, fd, how) as c_int;
        if result == 0 {
            listener::shut_down(&held, how);
        }
        result
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        match stream::of(fd) {
            None => kernel!(SYS_getsockname, fd, address, length) as c_int,
            // SAFETY: the program's own address buffer.
            Some(stream) => libc_return(unsafe { stream.local_name(address, length) }.map(|()| 0)) as c_int,
        }
    }

    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        match stream::of(fd) {
            None => kernel!(SYS_getpeername, fd, address, length) as c_int,
            // SAFETY: the program's own address buffer.
            Some(stream) => libc_return(unsafe { stream.peer_name(address, length) }.map(|()| 0)) as c_int,
        }
    }

    fn sockatmark(fd: c_int) -> c_int {
        if stream::of(fd).is_some() {
            // Urgent data is received as ordinary data: there is no mark.
            return 0;
        }
        let mut at_mark: c_int = 0;
        let result = kernel!(SYS_ioctl, fd, control::SIOCATMARK, &raw mut at_mark) as c_int;
        if result < 0 { result } else { at_mark }
    }
}
