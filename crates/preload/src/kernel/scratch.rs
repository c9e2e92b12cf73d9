//! What the kernel makes of an option's value: which it refuses, and to whom, and what it says
//! afterwards. It depends on the kernel's version and settings and on the caller's rights, so a socket that
//! is made for the question is told, and asked.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{SOL_SOCKET, socklen_t, timeval};
use rustix::io::Errno;

use crate::kernel::filter;
use crate::kernel::option::{Plain, kernel_value};
use crate::kernel::raw::{result, sys};

/// What came of an option that was set on a socket made for it.
pub enum Tried<T> {
    /// The kernel has taken it, and says this of it; nothing, if it cannot be asked for.
    Taken(Option<T>),
    /// The kernel refuses it.
    Refused(Errno),
    /// No socket could be made.
    Unknown,
}

/// A socket of nobody's.
struct Scratch(c_int);

impl Scratch {
    fn new(family: c_int) -> Option<Self> {
        // To make a socket might end the process.
        if filter::is_there() {
            return None;
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: makes a socket, under the lowest number that is free: it is closed before anybody can
        // take it for one of the program's.
        let made = result(unsafe { sys!(libc::SYS_socket, family, kind, 0usize) });
        made.ok().map(|fd| Self(fd as c_int))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: a number that nobody else knows.
        unsafe { sys!(libc::SYS_close, self.0) };
    }
}

/// Sets an option on a new socket of `family`, and asks for the one that says what came of it.
///
/// # Safety
/// `value` and `length` are the program's, as it gave them to setsockopt.
pub unsafe fn tried<T: Plain>(
    family: c_int,
    level: c_int,
    name: c_int,
    asked: c_int,
    value: *const c_void,
    length: socklen_t,
) -> Tried<T> {
    let Some(Scratch(fd)) = &Scratch::new(family) else {
        return Tried::Unknown;
    };
    // SAFETY: as the caller promises; the kernel itself looks whether the memory is there.
    match result(unsafe { sys!(libc::SYS_setsockopt, *fd, level, name, value, length) }) {
        Ok(_) => Tried::Taken(kernel_value(*fd, level, asked).ok()),
        Err(error) => Tried::Refused(error),
    }
}

/// The kernel counts time limits in ticks of so many nanoseconds, at most 10 ms; 1 µs, in which they are
/// given, if it cannot be asked.
pub fn tick() -> u64 {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let least = timeval {
                tv_sec: 0,
                tv_usec: 1,
            };
            let at = core::ptr::from_ref(&least).cast();
            let length = size_of::<timeval>() as socklen_t;
            let name = libc::SO_RCVTIMEO;
            // SAFETY: a whole value and its length.
            match unsafe { tried::<timeval>(libc::AF_INET, SOL_SOCKET, name, name, at, length) } {
                Tried::Taken(Some(rounded)) => {
                    let tick = (rounded.tv_usec.clamp(1, 10_000) * 1_000) as u64;
                    KNOWN.store(tick, Ordering::Relaxed);
                    tick
                }
                _ => 1_000,
            }
        }
        known => known,
    }
}
