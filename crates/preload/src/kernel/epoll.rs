//! epoll sets, as the kernel has them.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::os::fd::{FromRawFd, OwnedFd};

use host::private_fds::{Private, lift};
use libc::epoll_event;
use rustix::io::Errno;

use crate::kernel::raw::{result, sys};

/// epoll_ctl.
pub fn kernel_control(
    number: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    // SAFETY: the event is the program's own, or null where the kernel does not look at it.
    result(unsafe { sys!(libc::SYS_epoll_ctl, number, operation, fd, event) }).map(|_| ())
}

/// A set of the kernel's for this library's own use.
pub fn new_set() -> Option<Private<OwnedFd>> {
    // SAFETY: makes a descriptor, which is nobody else's.
    let set = unsafe {
        let fd = result(sys!(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC)).ok()?;
        OwnedFd::from_raw_fd(fd as c_int)
    };
    Some(Private::new(lift(set)))
}

/// Puts a descriptor into a set of the kernel's.
pub fn watch(set: c_int, fd: c_int, events: u32, data: u64) -> Result<(), Errno> {
    let mut event = epoll_event { events, u64: data };
    kernel_control(set, libc::EPOLL_CTL_ADD, fd, &raw mut event)
}

/// Takes the event that waits in a set, if one does.
pub fn consume(set: c_int) {
    let mut event = epoll_event { events: 0, u64: 0 };
    let (at, mask) = (&raw mut event, null_mut::<libc::sigset_t>());
    // SAFETY: room for one event; does not wait.
    unsafe { sys!(libc::SYS_epoll_pwait, set, at, 1, 0, mask, 8usize) };
}
