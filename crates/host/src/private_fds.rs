//! The descriptors that this crate holds for itself.
//!
//! A program that closes every number from 3 up, or duplicates over one, must not take the control
//! socket from under us, so whoever sits between the program and its system calls asks here first.
//! Asking takes no lock and allocates nothing, since it happens in signal handlers and between fork
//! and exec.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// How many are kept track of. A session needs three, a blocked thread or ready set two, a listener
/// one; beyond that a descriptor works as well, but is not hidden.
const SLOTS: usize = 256;

/// An empty slot.
const EMPTY: i32 = -1;

static HELD: [AtomicI32; SLOTS] = [const { AtomicI32::new(EMPTY) }; SLOTS];
static FLOOR: AtomicI32 = AtomicI32::new(0);

/// No descriptor of ours was ever below this: spares the look at every slot for the numbers that
/// programs use.
static LOWEST: AtomicI32 = AtomicI32::new(i32::MAX);

/// From now on descriptors are given numbers of at least `floor`, out of the way of the program's;
/// 0 leaves them where the kernel puts them. Where the limit on open files is lower they stay too.
pub fn set_floor(floor: RawFd) {
    FLOOR.store(floor, Ordering::Relaxed);
}

/// Whether `fd` is one of ours.
pub fn contains(fd: RawFd) -> bool {
    fd >= LOWEST.load(Ordering::Relaxed)
        && HELD.iter().any(|held| held.load(Ordering::Relaxed) == fd)
}

/// The numbers of all of ours.
pub fn iter() -> impl Iterator<Item = RawFd> {
    HELD.iter()
        .map(|held| held.load(Ordering::Relaxed))
        .filter(|fd| *fd != EMPTY)
}

/// Moves a descriptor up to the floor, if there is one.
pub fn lift(fd: OwnedFd) -> OwnedFd {
    let floor = FLOOR.load(Ordering::Relaxed);
    if floor <= fd.as_raw_fd() {
        return fd;
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, floor).unwrap_or(fd)
}

/// Lists a descriptor for good: it is closed only by a program that does so without asking anybody.
pub fn keep(fd: OwnedFd) -> RawFd {
    let number = fd.as_raw_fd();
    std::mem::forget(Private::new(fd));
    number
}

/// The program has closed one that was [kept](keep), and has its number for a file of its own.
pub fn leave_to_program(fd: RawFd) {
    for held in &HELD {
        let _ = held.compare_exchange(fd, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Something that holds a descriptor, listed here for as long as it lives.
#[derive(Debug)]
pub struct Private<T: AsFd> {
    /// Dropped before the descriptor is closed: its number may be the program's at once.
    listed: Listed,
    held: T,
}

/// A place in the list, for as long as this lives.
#[derive(Debug)]
struct Listed(Option<usize>);

impl<T: AsFd> Private<T> {
    /// Lists the descriptor of `held`, which was [lifted](lift) before.
    pub fn new(held: T) -> Self {
        let fd = held.as_fd().as_raw_fd();
        LOWEST.fetch_min(fd, Ordering::Relaxed);
        let slot = HELD.iter().position(|slot| {
            slot.compare_exchange(EMPTY, fd, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        let listed = Listed(slot);
        Self { listed, held }
    }

    /// It is listed no more, and the caller's.
    pub(crate) fn into_inner(self) -> T {
        drop(self.listed);
        self.held
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

impl<T: AsFd> std::ops::Deref for Private<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T: AsFd> AsFd for Private<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            HELD[slot].store(EMPTY, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_listed_while_it_is_held() {
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let number = fd.as_raw_fd();
        let private = Private::new(fd);
        assert!(contains(number));
        assert!(iter().any(|fd| fd == number));
        drop(private);
        assert!(!contains(number));
    }
}
