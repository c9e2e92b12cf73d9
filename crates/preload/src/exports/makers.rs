//! Calls that hand out new numbers.
//!
//! A number that the kernel has just given cannot be one of ours any more. Ours are closed through
//! calls of ours, as a rule; but there are system calls that no library sees, and an entry that
//! stayed would send what is written to a file to the peer of a connection that is over.

use core::ffi::{c_char, c_int, c_uint, c_void};
use libc::{sigset_t, termios, winsize};

use super::{blocking, exports, kernel, points, unwinding};
use crate::kernel::next::{next, next_unwinding};
use crate::numbers::handed_out;
use crate::thread::inside;

/// Bytes of a signal set as the kernel knows it.
const SIGSET_BYTES: usize = 8;

/// What creat opens with.
const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Opens by libc's function if a thread may be cancelled in it; not where this library itself opens something.
macro_rules! opened {
    ($path:expr, $flags:expr, $mode:expr) => {
        if inside::is_outside() {
            blocking!(
                open($path => *const c_char, $flags => c_int, $mode => c_uint) -> c_int,
                kernel!(SYS_openat, libc::AT_FDCWD, $path, $flags, $mode)
            )
        } else {
            kernel!(SYS_openat, libc::AT_FDCWD, $path, $flags, $mode) as c_int
        }
    };
}

macro_rules! opened_at {
    ($directory:expr, $path:expr, $flags:expr, $mode:expr) => {
        if inside::is_outside() {
            blocking!(
                openat(
                    $directory => c_int, $path => *const c_char, $flags => c_int, $mode => c_uint
                ) -> c_int,
                kernel!(SYS_openat, $directory, $path, $flags, $mode)
            )
        } else {
            kernel!(SYS_openat, $directory, $path, $flags, $mode) as c_int
        }
    };
}

// To open a FIFO waits for its other end: a thread may be cancelled in it.
points! {
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened!(path, flags, mode))
    }

    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened!(path, flags, mode))
    }

    fn __open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened!(path, flags, mode))
    }

    fn __open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened!(path, flags, mode))
    }

    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened_at!(directory, path, flags, mode))
    }

    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(opened_at!(directory, path, flags, mode))
    }

    fn creat(path: *const c_char, mode: c_uint) -> c_int {
        handed_out(opened!(path, CREATE, mode))
    }

    fn creat64(path: *const c_char, mode: c_uint) -> c_int {
        handed_out(opened!(path, CREATE, mode))
    }

    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        // Without a file to create, the mode is not looked at.
        handed_out(opened!(path, flags, 0))
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        handed_out(opened!(path, flags, 0))
    }

    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        handed_out(opened_at!(directory, path, flags, 0))
    }

    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        handed_out(opened_at!(directory, path, flags, 0))
    }
}

exports! {
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int {
        handed_out(kernel!(SYS_open_by_handle_at, mount, handle, flags) as c_int)
    }

    fn eventfd(initial: c_uint, flags: c_int) -> c_int {
        handed_out(kernel!(SYS_eventfd2, initial, flags) as c_int)
    }

    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int {
        handed_out(kernel!(SYS_memfd_create, name, flags) as c_int)
    }

    fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
        handed_out(kernel!(SYS_timerfd_create, clock, flags) as c_int)
    }

    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int {
        handed_out(kernel!(SYS_signalfd4, fd, mask, SIGSET_BYTES, flags) as c_int)
    }

    fn inotify_init() -> c_int {
        handed_out(kernel!(SYS_inotify_init1, 0usize) as c_int)
    }

    fn inotify_init1(flags: c_int) -> c_int {
        handed_out(kernel!(SYS_inotify_init1, flags) as c_int)
    }

    fn fanotify_init(flags: c_uint, events: c_uint) -> c_int {
        handed_out(kernel!(SYS_fanotify_init, flags, events) as c_int)
    }

    fn pidfd_open(process: c_int, flags: c_uint) -> c_int {
        handed_out(kernel!(SYS_pidfd_open, process, flags) as c_int)
    }

    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int {
        handed_out(kernel!(SYS_pidfd_getfd, process, fd, flags) as c_int)
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

    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(next!(shm_open(name => *const c_char, flags => c_int, mode => c_uint) -> c_int, -1))
    }

    fn mq_open(name: *const c_char, flags: c_int, mode: c_uint, attributes: *mut c_void) -> c_int {
        handed_out(next!(mq_open(name => *const c_char, flags => c_int, mode => c_uint, attributes => *mut c_void) -> c_int, -1))
    }
}

// These open something within libc, where a thread that is to end does so.
unwinding! {
    fn mkstemp(template: *mut c_char) -> c_int {
        handed_out(next_unwinding!(mkstemp(template => *mut c_char) -> c_int, -1))
    }

    fn mkstemp64(template: *mut c_char) -> c_int {
        handed_out(next_unwinding!(mkstemp64(template => *mut c_char) -> c_int, -1))
    }

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
        handed_out(next_unwinding!(mkostemp(template => *mut c_char, flags => c_int) -> c_int, -1))
    }

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
        handed_out(next_unwinding!(mkostemp64(template => *mut c_char, flags => c_int) -> c_int, -1))
    }

    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
        handed_out(next_unwinding!(mkstemps(template => *mut c_char, suffix => c_int) -> c_int, -1))
    }

    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
        handed_out(next_unwinding!(mkstemps64(template => *mut c_char, suffix => c_int) -> c_int, -1))
    }

    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        handed_out(next_unwinding!(mkostemps(template => *mut c_char, suffix => c_int, flags => c_int) -> c_int, -1))
    }

    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        handed_out(next_unwinding!(mkostemps64(template => *mut c_char, suffix => c_int, flags => c_int) -> c_int, -1))
    }

    fn posix_openpt(flags: c_int) -> c_int {
        handed_out(next_unwinding!(posix_openpt(flags => c_int) -> c_int, -1))
    }

    fn getpt() -> c_int {
        handed_out(next_unwinding!(getpt() -> c_int, -1))
    }

    fn openpty(
        leader: *mut c_int, follower: *mut c_int, name: *mut c_char,
        settings: *const termios, size: *const winsize,
    ) -> c_int {
        let result = next_unwinding!(
            openpty(
                leader => *mut c_int, follower => *mut c_int, name => *mut c_char,
                settings => *const termios, size => *const winsize
            ) -> c_int,
            -1
        );
        if result == 0 {
            // SAFETY: both have just been filled.
            for fd in unsafe { [*leader, *follower] } {
                handed_out(fd);
            }
        }
        result
    }
}

/// What `_FORTIFY_SOURCE` asks of the checked names: who creates a file says with which mode.
fn refuse_without_mode(flags: c_int) {
    if flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE {
        super::data::refuse_overflow(1, 0);
    }
}
