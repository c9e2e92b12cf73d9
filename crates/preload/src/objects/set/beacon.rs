//! What makes a set's number readable where its sleeper has no descriptor for that.
//!
//! In a process that has as many descriptors as it may have, a child's sleepers may get none of their own. Who waits
//! in the set itself looks around after moments then; but who waits by the set's number, in a set around it, hears of
//! nothing that is not in the kernel's set. So there is one descriptor that is always readable, made with the first
//! set of the process's that needs a sleeper, and while it is in a set, the set's number is readable.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use host::private_fds::{keep, lift};
use rustix::io::Errno;

use crate::kernel::epoll::{kernel_control, watch};
use crate::kernel::raw::{result, sys};

/// None yet.
const NONE: c_int = -1;

/// A child has its parent's: nobody reads it, so it tells nobody anything of the other.
static BEACON: AtomicI32 = AtomicI32::new(NONE);

fn beacon() -> Option<c_int> {
    Some(BEACON.load(Ordering::Acquire)).filter(|fd| *fd != NONE)
}

/// Makes it, if it is not there.
pub fn make() -> Result<(), Errno> {
    if beacon().is_some() {
        return Ok(());
    }
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: makes a descriptor, which is nobody else's.
    let made = unsafe {
        let fd = result(sys!(libc::SYS_eventfd2, 1usize, flags))?;
        OwnedFd::from_raw_fd(fd as c_int)
    };
    // Another thread may have been faster.
    let made = lift(made);
    let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
    let is_first = BEACON.compare_exchange(NONE, made.as_raw_fd(), order, failed);
    if is_first.is_ok() {
        keep(made);
    }
    Ok(())
}

/// From now on the set's number is readable, and in the set there is an event with this mark. A number that is closed
/// is told nothing.
pub fn light(set: c_int, mark: u64) {
    if let Some(beacon) = beacon() {
        let _ = watch(set, beacon, libc::EPOLLIN as u32, mark);
    }
}

/// The inverse, by any number of the set's, and whoever has lit it. False: it was not lit.
pub fn put_out(set: c_int) -> bool {
    beacon().is_some_and(|fd| {
        kernel_control(set, libc::EPOLL_CTL_DEL, fd, core::ptr::null_mut()).is_ok()
    })
}
