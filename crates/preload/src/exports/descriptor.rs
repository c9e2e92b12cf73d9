//! Closing and duplicating numbers, and the calls that hand out new ones.

use core::ffi::{c_char, c_int, c_uint};

use super::{exports, kernel};
use crate::raw::libc_return;
use crate::{control, numbers, table};

exports! {
    fn close(fd: c_int) -> c_int {
        libc_return(numbers::close(fd)) as c_int
    }

    fn __close(fd: c_int) -> c_int {
        libc_return(numbers::close(fd)) as c_int
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        libc_return(numbers::close_range(first, last, flags)) as c_int
    }

    fn closefrom(first: c_int) -> () {
        let _ = numbers::close_range(first.max(0) as c_uint, c_uint::MAX, 0);
    }

    fn dup(fd: c_int) -> c_int {
        libc_return(control::fcntl(fd, table::get(fd).as_ref(), libc::F_DUPFD, 0)) as c_int
    }

    fn dup2(from: c_int, to: c_int) -> c_int {
        libc_return(numbers::dup2(from, to)) as c_int
    }

    fn __dup2(from: c_int, to: c_int) -> c_int {
        libc_return(numbers::dup2(from, to)) as c_int
    }

    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        libc_return(numbers::dup3(from, to, flags)) as c_int
    }

    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, directory, path, flags, mode) as c_int)
    }

    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, directory, path, flags, mode) as c_int)
    }

    fn pipe(pair: *mut c_int) -> c_int {
        // SAFETY: as `pipe2`.
        unsafe { pipe2(pair, 0) }
    }

    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        let result = kernel!(SYS_pipe2, pair, flags) as c_int;
        if result == 0 {
            // SAFETY: the kernel has just filled the program's array of two.
            for fd in unsafe { [*pair, *pair.add(1)] } {
                handed_out(fd);
            }
        }
        result
    }

    fn eventfd(initial: c_uint, flags: c_int) -> c_int {
        handed_out(kernel!(SYS_eventfd2, initial, flags) as c_int)
    }
}

/// A number that the kernel has just given cannot be one of ours any more.
fn handed_out(fd: c_int) -> c_int {
    table::handed_out(fd);
    fd
}
