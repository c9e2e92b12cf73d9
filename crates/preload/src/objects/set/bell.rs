//! What the processes of a family have in common: memory for a log of what they do, and a bell.
//!
//! What for is told in [`family`](crate::calls::epoll::family), which stands above.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock};

use host::ChangeLog;
use host::private_fds::{Private, lift};
use host::reserve::spare;

use crate::kernel::epoll::{consume, new_set, watch};
use crate::kernel::filter;
use crate::kernel::lock::lock;
use crate::kernel::raw::{result, sys};

/// What the members of a family have in common.
pub struct Family {
    /// What was done.
    pub log: &'static ChangeLog,
    /// See [`family`](crate::calls::epoll::family).
    bell: Private<OwnedFd>,
}

/// From the first fork of a process that has a set.
static FAMILY: OnceLock<Family> = OnceLock::new();

/// How this process hears the bell.
static NEWS: Mutex<Option<Private<OwnedFd>>> = Mutex::new(None);

/// The family, if this process is of one.
pub fn family() -> Option<&'static Family> {
    FAMILY.get()
}

/// The family, which this process begins if it is of none. `None`: it cannot be had. Where system calls are filtered no
/// descriptor is made for it, and what the process waits in is as before.
pub fn establish() -> Option<&'static Family> {
    if FAMILY.get().is_none()
        && !filter::is_there()
        && let Some(family) = Family::new()
    {
        let _ = FAMILY.set(family);
    }
    FAMILY.get()
}

/// A descriptor that is readable when the family's bell has been rung. `None`: there is none to be had.
pub fn news() -> Option<c_int> {
    let family = FAMILY.get().filter(|_| !filter::is_there())?;
    let mut news = lock(&NEWS);
    if news.is_none() {
        let set = new_set()?;
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        watch(set.as_raw_fd(), family.bell.as_raw_fd(), edge, 0).ok()?;
        *news = Some(set);
    }
    news.as_ref().map(|news| news.as_raw_fd())
}

/// The [`news`] were found readable: they are not any more, until it is rung anew.
pub fn take_news() {
    if let Some(news) = &*lock(&NEWS) {
        consume(news.as_raw_fd());
    }
}

/// Keeps other threads from the news, for the time of a fork.
pub struct Quiet(
    #[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Option<Private<OwnedFd>>>,
);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&NEWS))
}

/// In the child of a fork: the news are the parent's.
pub fn forget_news() {
    *lock(&NEWS) = None;
}

/// Wakes every thread of the family that sleeps in a set of it.
pub fn ring() {
    if let Some(family) = FAMILY.get() {
        family.ring();
    }
}

impl Family {
    fn new() -> Option<Self> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // Before the memory, which would stay at each fork that finds none. A set that is not the family's its
        // processes do not have together, so that what is kept for a fork is used for this, too.
        let bell = spare(1, || {
            // SAFETY: makes a descriptor, which is nobody else's.
            unsafe {
                let fd = result(sys!(libc::SYS_eventfd2, 0usize, flags))?;
                Ok(OwnedFd::from_raw_fd(fd as c_int))
            }
        });
        let bell = bell.ok()?;
        let length = size_of::<ChangeLog>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: makes new memory, which is never given back.
        let log = result(unsafe { sys!(libc::SYS_mmap, 0usize, length, access, how, -1, 0usize) })
            .ok()? as *const ChangeLog;
        Some(Self {
            // SAFETY: so much memory is there for good, aligned to a page. It consists of atomics alone, of
            // which zeros are some.
            log: unsafe { &*log },
            bell: Private::new(lift(bell)),
        })
    }

    /// Wakes every thread of the family that sleeps in a set of it.
    pub fn ring(&self) {
        let one = 1u64;
        // It fails only when the counter is full, which takes longer than any family lives.
        // SAFETY: a word of the caller's.
        unsafe {
            sys!(
                libc::SYS_write,
                self.bell.as_raw_fd(),
                &raw const one,
                8usize
            )
        };
    }
}
