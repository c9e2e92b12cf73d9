//! liburing's ways to make a ring. Inside, they make the system call without libc.
//!
//! They return an error as its negated number, and leave `errno` alone.

use core::ffi::{c_int, c_uint, c_void};

use super::exports;
use crate::calls::io_uring::is_refused;
use crate::kernel::next::next;

const REFUSED: c_int = -libc::ENOSYS;

exports! {
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
        if is_refused() {
            return REFUSED;
        }
        next!(
            io_uring_setup(entries => c_uint, parameters => *mut c_void) -> c_int,
            REFUSED
        )
    }

    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
        if is_refused() {
            return REFUSED;
        }
        next!(
            io_uring_queue_init(entries => c_uint, ring => *mut c_void, flags => c_uint) -> c_int,
            REFUSED
        )
    }

    fn io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void,
    ) -> c_int {
        if is_refused() {
            return REFUSED;
        }
        next!(
            io_uring_queue_init_params(
                entries => c_uint, ring => *mut c_void, parameters => *mut c_void
            ) -> c_int,
            REFUSED
        )
    }

    fn io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void,
        size: usize,
    ) -> c_int {
        if is_refused() {
            return REFUSED;
        }
        next!(
            io_uring_queue_init_mem(
                entries => c_uint, ring => *mut c_void, parameters => *mut c_void,
                memory => *mut c_void, size => usize
            ) -> c_int,
            REFUSED
        )
    }
}
