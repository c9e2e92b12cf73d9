//! Calls that hand out new numbers.
//!
//! A number that the kernel has just given cannot be one of ours any more. Ours are closed through
//! calls of ours, as a rule; but there are system calls that no library sees, and an entry that
//! stayed would send what is written to a file to the peer of a connection that is over.

use core::ffi::{c_char, c_int, c_uint, c_void};
use libc::{sigset_t, termios, winsize};

use super::{exports, kernel};
use crate::next::next;
use crate::numbers::handed_out;

/// Bytes of a signal set as the kernel knows it.
const SIGSET_BYTES: usize = 8;

/// What creat opens with.
const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

exports! {
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn __open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn __open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int)
    }

    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, directory, path, flags, mode) as c_int)
    }

    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, directory, path, flags, mode) as c_int)
    }

    fn creat(path: *const c_char, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, CREATE, mode) as c_int)
    }

    fn creat64(path: *const c_char, mode: c_uint) -> c_int {
        handed_out(kernel!(SYS_openat, libc::AT_FDCWD, path, CREATE, mode) as c_int)
    }

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

    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        // SAFETY: as `open`; without a file to create, the mode is not looked at.
        unsafe { open(path, flags, 0) }
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        // SAFETY: as `open64`; without a file to create, the mode is not looked at.
        unsafe { open64(path, flags, 0) }
    }

    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        // SAFETY: as `openat`; without a file to create, the mode is not looked at.
        unsafe { openat(directory, path, flags, 0) }
    }

    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        refuse_without_mode(flags);
        // SAFETY: as `openat64`; without a file to create, the mode is not looked at.
        unsafe { openat64(directory, path, flags, 0) }
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

    fn mkstemp(template: *mut c_char) -> c_int {
        handed_out(next!(mkstemp(template => *mut c_char) -> c_int, -1))
    }

    fn mkstemp64(template: *mut c_char) -> c_int {
        handed_out(next!(mkstemp64(template => *mut c_char) -> c_int, -1))
    }

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
        handed_out(next!(mkostemp(template => *mut c_char, flags => c_int) -> c_int, -1))
    }

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
        handed_out(next!(mkostemp64(template => *mut c_char, flags => c_int) -> c_int, -1))
    }

    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
        handed_out(next!(mkstemps(template => *mut c_char, suffix => c_int) -> c_int, -1))
    }

    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
        handed_out(next!(mkstemps64(template => *mut c_char, suffix => c_int) -> c_int, -1))
    }

    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        handed_out(next!(mkostemps(template => *mut c_char, suffix => c_int, flags => c_int) -> c_int, -1))
    }

    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        handed_out(next!(mkostemps64(template => *mut c_char, suffix => c_int, flags => c_int) -> c_int, -1))
    }

    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        handed_out(next!(shm_open(name => *const c_char, flags => c_int, mode => c_uint) -> c_int, -1))
    }

    fn mq_open(name: *const c_char, flags: c_int, mode: c_uint, attributes: *mut c_void) -> c_int {
        handed_out(next!(mq_open(name => *const c_char, flags => c_int, mode => c_uint, attributes => *mut c_void) -> c_int, -1))
    }

    fn posix_openpt(flags: c_int) -> c_int {
        handed_out(next!(posix_openpt(flags => c_int) -> c_int, -1))
    }

    fn getpt() -> c_int {
        handed_out(next!(getpt() -> c_int, -1))
    }

    fn openpty(
        leader: *mut c_int, follower: *mut c_int, name: *mut c_char,
        settings: *const termios, size: *const winsize,
    ) -> c_int {
        let result = next!(
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
