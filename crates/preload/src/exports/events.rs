//! epoll, poll and select.

use core::ffi::c_int;
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::{blocking, exports, kernel, points};
use crate::calls::{epoll, poll, select};
use crate::engine::settings;
use crate::kernel::deadline::Patience;
use crate::kernel::next::next_unwinding;
use crate::kernel::raw::libc_return;
use crate::numbers::table::{self, Held};

/// Bytes of a signal set as the kernel knows it.
const SIGSET_BYTES: usize = 8;

/// The set with this number, if something of ours may be in it. Without settings nothing is: the set is the kernel's
/// alone, and a thread that sleeps in it libc's to cancel.
fn with_ours(number: c_int) -> Option<Held> {
    settings::get()?;
    table::get(number)
}

exports! {
    fn epoll_create(size: c_int) -> c_int {
        if size <= 0 {
            return libc_return(Err(rustix::io::Errno::INVAL)) as c_int;
        }
        // SAFETY: as `epoll_create1`.
        unsafe { epoll_create1(0) }
    }

    fn epoll_create1(flags: c_int) -> c_int {
        let fd = kernel!(SYS_epoll_create1, flags) as c_int;
        if fd >= 0 {
            epoll::made(fd);
        }
        fd
    }

    fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        match table::get(fd) {
            None => kernel!(SYS_epoll_ctl, set, operation, fd, event) as c_int,
            // SAFETY: `event` is null or the program's own.
            Some(held) => libc_return(unsafe { epoll::control(set, operation, fd, &held, event) }.map(|()| 0)) as c_int,
        }
    }
}

points! {
    fn epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int) -> c_int {
        // SAFETY: as `epoll_pwait`.
        unsafe { epoll_pwait(set, events, most, milliseconds, core::ptr::null()) }
    }

    fn epoll_pwait(
        set: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int, mask: *const sigset_t,
    ) -> c_int {
        if let Some(held) = with_ours(set)
            && let Some(members) = held.epoll()
        {
            let patience = Patience::milliseconds(milliseconds);
            // SAFETY: the program gives room for `most` events.
            return libc_return(unsafe { epoll::wait(set, members, events, most, patience, mask) }) as c_int;
        }
        blocking!(
            epoll_pwait(
                set => c_int, events => *mut epoll_event, most => c_int, milliseconds => c_int,
                mask => *const sigset_t
            ) -> c_int,
            kernel!(SYS_epoll_pwait, set, events, most, milliseconds, mask, SIGSET_BYTES)
        )
    }

    fn epoll_pwait2(
        set: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        if let Some(held) = with_ours(set)
            && let Some(members) = held.epoll()
        {
            // SAFETY: the program gives room for `most` events; `timeout` is null or its own.
            return libc_return(unsafe {
                Patience::timespec(timeout.as_ref())
                    .and_then(|patience| epoll::wait(set, members, events, most, patience, mask))
            }) as c_int;
        }
        blocking!(
            epoll_pwait2(
                set => c_int, events => *mut epoll_event, most => c_int, timeout => *const timespec,
                mask => *const sigset_t
            ) -> c_int,
            kernel!(SYS_epoll_pwait2, set, events, most, timeout, mask, SIGSET_BYTES)
        )
    }

    fn poll(fds: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
        // SAFETY: the program gives `count` entries.
        if unsafe { poll::is_kernels(fds, count) } {
            return blocking!(
                poll(fds => *mut pollfd, count => nfds_t, milliseconds => c_int) -> c_int,
                kernel!(SYS_poll, fds, count, milliseconds)
            );
        }
        // SAFETY: the program gives `count` entries.
        libc_return(unsafe { poll::poll(fds, count, Patience::milliseconds(milliseconds), core::ptr::null()) }) as c_int
    }

    fn __poll(fds: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
        // SAFETY: as `poll`.
        unsafe { poll(fds, count, milliseconds) }
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, milliseconds: c_int, room: usize) -> c_int {
        super::data::refuse_overflow(count as usize, room / size_of::<pollfd>());
        // SAFETY: as `poll`.
        unsafe { poll(fds, count, milliseconds) }
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the program gives `count` entries.
        if unsafe { poll::is_kernels(fds, count) } && crate::kernel::next::has_threads() {
            return next_unwinding!(
                ppoll(
                    fds => *mut pollfd, count => nfds_t, timeout => *const timespec,
                    mask => *const sigset_t
                ) -> c_int,
                -1
            );
        }
        // SAFETY: the program gives `count` entries; `timeout` is null or its own.
        libc_return(unsafe {
            Patience::timespec(timeout.as_ref()).and_then(|patience| poll::poll(fds, count, patience, mask))
        }) as c_int
    }

    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: usize,
    ) -> c_int {
        super::data::refuse_overflow(count as usize, room / size_of::<pollfd>());
        // SAFETY: as `ppoll`.
        unsafe { ppoll(fds, count, timeout, mask) }
    }

    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: each set is null or the program's own, with `count` bits.
        if unsafe { select::is_kernels(count, [read, write, except]) } {
            return blocking!(
                select(
                    count => c_int, read => *mut fd_set, write => *mut fd_set,
                    except => *mut fd_set, timeout => *mut timeval
                ) -> c_int,
                kernel!(SYS_select, count, read, write, except, timeout)
            );
        }
        // SAFETY: each set is null or the program's own, with `count` bits.
        libc_return(unsafe { select::select(count, [read, write, except], timeout) }) as c_int
    }

    fn __select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: as `select`.
        unsafe { select(count, read, write, except, timeout) }
    }

    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: each set is null or the program's own, with `count` bits.
        if unsafe { select::is_kernels(count, [read, write, except]) } && crate::kernel::next::has_threads() {
            return next_unwinding!(
                pselect(
                    count => c_int, read => *mut fd_set, write => *mut fd_set,
                    except => *mut fd_set, timeout => *const timespec, mask => *const sigset_t
                ) -> c_int,
                -1
            );
        }
        // SAFETY: each set is null or the program's own, with `count` bits.
        libc_return(unsafe { select::pselect(count, [read, write, except], timeout, mask) }) as c_int
    }
}
