//! getsockopt, setsockopt, fcntl and ioctl.

use core::ffi::{c_int, c_ulong, c_void};
use libc::socklen_t;

use super::{blocking, exports, kernel, unwinding};
use crate::calls::{cancel, connect, control, listener, stream};
use crate::kernel::option;
use crate::kernel::raw::libc_return;
use crate::numbers::table;
use crate::objects::tcp::Tcp;

exports! {
    fn getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t,
    ) -> c_int {
        match stream::of(fd) {
            None => {
                if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
                    && let Some(held) = table::get(fd)
                    && let Some(error) = held.tcp().map(Tcp::take_error).filter(|error| *error != 0)
                {
                    // SAFETY: the program's own buffer and its length.
                    return libc_return(unsafe { option::write(&error, value, length) }.map(|()| 0)) as c_int;
                }
                kernel!(SYS_getsockopt, fd, level, name, value, length) as c_int
            }
            // SAFETY: the program's own buffer and its length.
            Some(stream) => libc_return(unsafe { stream.get_option(fd, level, name, value, length) }.map(|()| 0)) as c_int,
        }
    }

    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t,
    ) -> c_int {
        match stream::of(fd) {
            None => {
                let held = table::get(fd);
                if let Some(held) = &held && let Err(error) = listener::may_set(held, level, name) {
                    return libc_return(Err(error)) as c_int;
                }
                let result = kernel!(SYS_setsockopt, fd, level, name, value, length) as c_int;
                if result == 0 && let Some(held) = held {
                    // SAFETY: the program gives `length` bytes of value.
                    unsafe { listener::option_set(fd, &held, (level, name), value, length) };
                }
                result
            }
            // SAFETY: the program gives `length` bytes of value.
            Some(stream) => libc_return(unsafe {
                stream
                    .set_option(fd, level, name, value, length)
                    .inspect(|()| connect::option_set(fd, &stream, (level, name), value, length))
            }.map(|()| 0)) as c_int,
        }
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        match table::get(fd) {
            None => kernel!(SYS_ioctl, fd, request, argument) as c_int,
            // SAFETY: the program gives the argument that the request takes.
            Some(held) => libc_return(unsafe { control::ioctl(fd, &held, request, argument) }) as c_int,
        }
    }
}

// To wait for a lock is a point at which a thread may be cancelled.
unwinding! {
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        match table::get(fd) {
            None if matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
                cancel::call_begins();
                let locked = blocking!(
                    fcntl(fd => c_int, command => c_int, argument => usize) -> c_int,
                    kernel!(SYS_fcntl, fd, command, argument)
                );
                cancel::call_ends();
                locked
            }
            None if !control::duplicates(command) => kernel!(SYS_fcntl, fd, command, argument) as c_int,
            held => libc_return(control::fcntl(fd, held.as_ref(), command, argument)) as c_int,
        }
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: as `fcntl`: off_t has 64 bits on these machines.
        unsafe { fcntl(fd, command, argument) }
    }

    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: as `fcntl`.
        unsafe { fcntl(fd, command, argument) }
    }
}
