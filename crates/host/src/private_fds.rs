//! The descriptors that this crate holds for itself.
//!
//! A program that closes every number from 3 up, or duplicates over one, must not take the control
//! socket from under us, so whoever sits between the program and its system calls asks here first.
//! Asking takes no lock and allocates nothing, since it happens in signal handlers and between fork
//! and exec.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Numbers from here on are not kept track of: as many as the kernel gives a process, if nobody has raised that
/// (fs.nr_open). Beyond that a descriptor works as well, but is not hidden.
const NUMBERS: usize = 1 << 20;

/// One bit a number. What nobody has touched of it costs nothing.
static HELD: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
static FLOOR: AtomicI32 = AtomicI32::new(0);

/// No descriptor of ours was ever below this, or above that: bounds walks.
static LOWEST: AtomicI32 = AtomicI32::new(i32::MAX);
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// The word of a number, and its bit there.
fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let at = usize::try_from(fd).ok()?;
    Some((HELD.get(at / 64)?, 1 << (at % 64)))
}

/// From now on descriptors are given numbers of at least `floor`, out of the way of the program's;
/// 0 leaves them where the kernel puts them. Where the limit on open files is lower they stay too.
pub fn set_floor(floor: RawFd) {
    FLOOR.store(floor, Ordering::Relaxed);
}

/// Whether `fd` is one of ours.
pub fn contains(fd: RawFd) -> bool {
    place(fd).is_some_and(|(held, bit)| held.load(Ordering::Relaxed) & bit != 0)
}

/// The numbers of all of ours, in rising order.
pub fn iter() -> impl Iterator<Item = RawFd> {
    let word = |fd: &AtomicI32| fd.load(Ordering::Relaxed).clamp(-1, NUMBERS as RawFd - 1) / 64;
    (word(&LOWEST)..=word(&HIGHEST)).flat_map(|at| {
        let mut bits = HELD[at as usize].load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(at * 64 + bit as RawFd)
        })
    })
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
    if let Some((held, bit)) = place(fd) {
        held.fetch_and(!bit, Ordering::Relaxed);
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
struct Listed(RawFd);

impl<T: AsFd> Private<T> {
    /// Lists the descriptor of `held`, which was [lifted](lift) before.
    pub fn new(held: T) -> Self {
        let fd = held.as_fd().as_raw_fd();
        LOWEST.fetch_min(fd, Ordering::Relaxed);
        HIGHEST.fetch_max(fd, Ordering::Relaxed);
        if let Some((held, bit)) = place(fd) {
            held.fetch_or(bit, Ordering::Relaxed);
        }
        let listed = Listed(fd);
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
        leave_to_program(self.0);
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

    /// A thread for each of many sets has three.
    #[test]
    fn all_are_listed_however_many_there_are() {
        let all: Vec<_> = (0..400)
            .map(|_| {
                let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
                Private::new(fd)
            })
            .collect();
        assert!(all.iter().all(|fd| contains(fd.as_raw_fd())));
        assert!(!contains(-1) && !contains(RawFd::MAX));
    }
}
