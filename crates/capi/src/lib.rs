//! The C interface, over [`native`]. What the calls do stands in `include/outboard.h`, which is their
//! documentation; here is only the way from C's types to Rust's.
//!
//! # What makes it sound
//!
//! What a C program passes is believed where nothing else is possible: a pointer that is not NULL
//! points to as much as the header says, and contexts, queues and memory are those that were made
//! here and not freed. Everything else is checked: handles, spans and enumerations are looked up, and
//! two calls at once in one queue are told apart by a flag.

mod accept;
mod address;
mod context;
mod ctl;
mod file;
mod memory;
mod queue;
mod receive;
mod send;
mod spans;
mod things;
mod wait;

use std::os::fd::BorrowedFd;

use libc::{c_int, ssize_t};
use native::Errno;

/// What outboard.h says of threads holds of what is behind it. The flag of a queue lets one call in at a time.
const _: () = {
    const fn several_at_once<T: Send + Sync>() {}
    const fn one_at_a_time<T: Send>() {}
    several_at_once::<native::Context>();
    several_at_once::<native::Memory>();
    several_at_once::<native::File>();
    several_at_once::<native::Waker>();
    one_at_a_time::<native::Queue>();
    one_at_a_time::<spans::Spans>();
};

/// A negative error number.
fn number(errno: Errno) -> c_int {
    -errno.raw_os_error()
}

/// A descriptor of the program's, which the kernel refuses if there is none of that number.
///
/// # Safety
/// It is not closed by this process for as long as it is borrowed.
unsafe fn descriptor<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Errno> {
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is not -1, and stays as the caller promises.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// 0, or a negative error number.
fn code(result: Result<(), Errno>) -> c_int {
    result.map_or_else(number, |()| 0)
}

/// A count, or a negative error number.
fn count(result: Result<usize, Errno>) -> ssize_t {
    match result {
        Ok(count) => ssize_t::try_from(count).unwrap_or(ssize_t::MAX),
        Err(errno) => number(errno) as ssize_t,
    }
}

/// `OB_VERSION_MAJOR` and `OB_VERSION_MINOR`.
#[unsafe(no_mangle)]
pub extern "C" fn ob_version() -> libc::c_uint {
    1
}
