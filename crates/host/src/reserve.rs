//! Descriptors that are kept so that there are numbers when a process has used up all it may have.
//!
//! The kernel needs no descriptor to fork: the child has whatever its parent has. Here the engine gives one for the
//! child, and the child needs some to attach. So a process that is attached keeps a few in reserve, a child has
//! copies of them, and they are given up for the moment in which others are needed. Another thread of the program's
//! may be faster and take the number; a child, which has no other threads yet, keeps what its parent's session has
//! left it.

use std::sync::Mutex;

use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::lock::lock;
use crate::locks::Locks;
use crate::private_fds::{Private, lift};

/// What it takes to attach: the control socket, the memory, and two ends of doorbells.
pub(crate) const TO_ATTACH: usize = 4;

/// What a child keeps that has not attached: its parent's control socket and doorbells become part of it, and when it
/// has attached and has doorbells of its own, as much is left as its parent had.
pub(crate) const OF_HEIR: usize = TO_ATTACH + 2;

/// What is kept, whichever sessions there are: numbers are the process's.
static KEPT: Mutex<Vec<Private<OwnedFd>>> = Mutex::new(Vec::new());

/// Keeps as many as this, or as many as can be had.
pub(crate) fn fill(count: usize) {
    let mut kept = lock(&KEPT);
    kept.truncate(count);
    while kept.len() < count {
        let more = match kept.first() {
            Some(first) => rustix::io::fcntl_dupfd_cloexec(first, 0),
            None => rustix::event::eventfd(0, EventfdFlags::CLOEXEC),
        };
        let Ok(more) = more else { return };
        kept.push(Private::new(lift(more)));
    }
}

/// Gives up this many, so that their numbers can be had. Returns how many there were.
pub(crate) fn give_up(count: usize) -> usize {
    let mut kept = lock(&KEPT);
    let left = kept.len().saturating_sub(count);
    kept.drain(left..).count()
}

/// Keeps again what was given up, as far as there is room.
pub fn refill() {
    fill(TO_ATTACH);
}

/// Takes the lock, for a fork.
pub(crate) fn lock_all(locks: &mut Locks<'_>) {
    locks.take(&KEPT);
}

/// Makes so many descriptors, by numbers that were kept if there are no others. What was given up is kept again
/// after a [refill], or the next fork.
///
/// # Errors
/// Those of `make`.
pub fn spare<T>(count: usize, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match make() {
        Err(Errno::MFILE) if give_up(count) > 0 => make(),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_fds;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_kept_is_hidden_and_its_numbers_are_free_when_it_is_given_up() {
        fill(3);
        fill(2);
        fill(5);
        let numbers: Vec<i32> = lock(&KEPT).iter().map(|one| one.as_raw_fd()).collect();
        assert_eq!(numbers.len(), 5);
        assert!(numbers.iter().all(|fd| private_fds::contains(*fd)));
        assert_eq!(give_up(2), 2);
        assert!(!private_fds::contains(numbers[3]) && !private_fds::contains(numbers[4]));
        // Of those that are left others are made again.
        assert_eq!(give_up(10), 3);
        assert_eq!(give_up(1), 0);
        let full = std::cell::Cell::new(true);
        let make = || {
            if full.take() {
                Err(Errno::MFILE)
            } else {
                Ok(7)
            }
        };
        assert_eq!(spare(1, make), Err(Errno::MFILE), "nothing is kept");
        fill(1);
        full.set(true);
        assert_eq!(spare(1, make), Ok(7));
        assert_eq!(give_up(1), 0, "it was given up");
    }
}
