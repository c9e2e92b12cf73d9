//! Closing and duplicating numbers.

use core::ffi::{c_int, c_uint};

use super::exports;
use crate::calls::control;
use crate::kernel::raw::libc_return;
use crate::numbers;
use crate::numbers::table;

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
}
