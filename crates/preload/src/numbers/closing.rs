//! Numbers that libc closes within a call of its own, as fclose does.
//!
//! When such a call returns, the table follows. Until then the number is in the table still, and may be a file of the
//! program's already, which another thread has opened. So it is written down before, with the file that it is: nothing
//! is put in its place meanwhile, and the child of a fork, in which that call never returns, looks whether it is still
//! that. Another thread may duplicate the very connection and be given the number: who does that [strikes
//! it out](made_again), and it stays in the table.
//!
//! A file of functions of ours ([`stdio`](crate::calls::stdio)) closes its number by one of them, and the table follows
//! at once.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::lock::Small;
use crate::numbers::placeholder::{self, Socket};
use crate::numbers::table::{self, Held};
use crate::numbers::{gate, standard};

/// The numbers, and what they were in the kernel.
static CLOSING: Small<Vec<(c_int, Socket)>> = Small::new(Vec::new());

/// How many those are.
static NOTES: AtomicUsize = AtomicUsize::new(0);

/// How often a child began with the numbers of its parent's: where a handler forks, the call that it interrupts goes on
/// in the child, without a note.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// See the [module](self).
pub struct Closing {
    fd: c_int,
    before: Held,
    /// It is written down, in this generation.
    noted: Option<usize>,
}

/// libc is about to close `fd`, or to make it something else, if it is ours. `by_itself`: and not by a function of ours.
pub fn begins(fd: c_int, by_itself: bool) -> Option<Closing> {
    let before = table::get(fd)?;
    let noted = by_itself.then(|| GENERATION.load(Ordering::Relaxed));
    if by_itself {
        // Not while something is put in its place.
        let _leaving = gate::leaving();
        let is_now = placeholder::socket_behind(fd);
        let mut closing = CLOSING.lock();
        closing.push((fd, is_now));
        NOTES.store(closing.len(), Ordering::Release);
    }
    Some(Closing { fd, before, noted })
}

impl Closing {
    /// libc has done so.
    pub fn ends(self) {
        let Self { fd, before, noted } = self;
        let is_noted = noted == Some(GENERATION.load(Ordering::Relaxed));
        let held = {
            let _leaving = gate::leaving();
            // Until the table has followed: who makes the number again takes the note first, and puts it there after.
            let mut closing = CLOSING.lock();
            match is_noted && take_note(&mut closing, fd).is_none() {
                true => None,
                false => table::remove_if(fd, &before),
            }
        };
        if let Some(held) = held {
            held.number_closes(fd);
        }
        standard::number_changed(fd);
    }
}

/// The kernel has given this number to a connection: whatever libc was closing under it is closed, and what the table
/// says of it from now on stays. To be called before it says that. Costs no lock where libc closes nothing.
pub fn made_again(fd: c_int) {
    // Who was about to close it has written that down before the kernel could give it to another thread.
    if NOTES.load(Ordering::Acquire) != 0 {
        let mut closing = CLOSING.lock();
        closing.retain(|(it, _)| *it != fd);
        NOTES.store(closing.len(), Ordering::Release);
    }
}

/// The number is not being closed any more: what it was.
fn take_note(closing: &mut Vec<(c_int, Socket)>, fd: c_int) -> Option<Socket> {
    let at = closing.iter().position(|(it, _)| *it == fd)?;
    let (_, was) = closing.swap_remove(at);
    NOTES.store(closing.len(), Ordering::Release);
    Some(was)
}

/// Whether libc is closing `fd`. Where that matters nobody else begins to: the caller holds the [gate](gate::still).
pub fn contains(fd: c_int) -> bool {
    CLOSING.lock().iter().any(|(it, _)| *it == fd)
}

/// In the child of a fork: the threads that were about to close something are not here.
pub fn are_parents() {
    let closing = core::mem::take(&mut *CLOSING.lock());
    NOTES.store(0, Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for (fd, was) in closing {
        let is_now = placeholder::socket_behind(fd);
        if is_now != was && is_now != Socket::Unasked {
            drop(table::remove(fd));
        }
    }
}

/// For tests: the list is the process's, and so are numbers. One at a time has them.
#[cfg(test)]
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    crate::kernel::lock::lock(&ALONE)
}

/// For tests: a connection's number that no other test is given when it is closed, since numbers are given from below.
#[cfg(test)]
pub fn high_number() -> (c_int, Held) {
    use crate::kernel::raw::{result, sys};
    use crate::numbers::description::Content;
    use crate::objects::tcp::Tcp;

    let low = placeholder::placeholder(libc::AF_INET, true).unwrap();
    // SAFETY: makes a number.
    let high = unsafe { sys!(libc::SYS_fcntl, low.number(), libc::F_DUPFD_CLOEXEC, 900) };
    let fd = result(high).unwrap() as c_int;
    let held = Held::new(Content::Tcp(Tcp::new(libc::AF_INET, false)));
    assert!(table::install(fd, held.clone()));
    (fd, held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::raw::sys;
    use std::os::fd::{AsRawFd, OwnedFd};

    #[test]
    fn a_child_has_no_number_that_another_thread_has_closed_within_libc() {
        let _alone = alone();
        let fds = [(); 3].map(|()| high_number().0);
        let closing = fds.map(|fd| begins(fd, true).unwrap());
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: this test's own. One is a file of the program's by now.
        unsafe {
            sys!(libc::SYS_close, fds[0]);
            sys!(libc::SYS_dup3, file.as_raw_fd(), fds[1], libc::O_CLOEXEC);
        }
        are_parents();
        assert_eq!(fds.map(table::is_ours), [false, false, true]);
        closing.into_iter().for_each(Closing::ends);
        assert_eq!(fds.map(table::is_ours), [false; 3]);
        // SAFETY: as above.
        unsafe {
            sys!(libc::SYS_close, fds[1]);
            sys!(libc::SYS_close, fds[2]);
        }
    }

    /// A connection's number that libc has closed in the kernel, and another duplicate of its socket's.
    fn closed_by_libc() -> (c_int, Closing, OwnedFd) {
        let (fd, _held) = high_number();
        let kept = crate::numbers::duplicate(fd).unwrap();
        let closing = begins(fd, true).unwrap();
        // SAFETY: this test's own.
        unsafe { sys!(libc::SYS_close, fd) };
        (fd, closing, kept)
    }

    fn becomes(fd: c_int, socket: &impl AsRawFd) {
        // SAFETY: this test's own.
        unsafe { sys!(libc::SYS_dup3, socket.as_raw_fd(), fd, libc::O_CLOEXEC) };
    }

    #[test]
    fn a_duplicate_that_gets_the_number_meanwhile_keeps_it() {
        let _alone = alone();
        let (fd, closing, kept) = closed_by_libc();
        assert!(table::install(kept.as_raw_fd(), closing.before.clone()));
        becomes(fd, &kept);
        crate::numbers::duplicated(kept.as_raw_fd(), fd);
        closing.ends();
        assert!(table::is_ours(fd));
        crate::numbers::close(fd).unwrap();
        drop(table::remove(kept.as_raw_fd()));
    }

    /// The sockets of all accepted connections are one, and this library has duplicates of its own.
    #[test]
    fn a_socket_of_another_connection_does_not_keep_the_number() {
        let _alone = alone();
        let (fd, closing, kept) = closed_by_libc();
        becomes(fd, &kept);
        closing.ends();
        assert!(!table::is_ours(fd));
        // SAFETY: this test's own.
        unsafe { sys!(libc::SYS_close, fd) };
    }

    #[test]
    fn what_a_function_of_ours_closes_is_not_held_up_before() {
        let _alone = alone();
        let (fd, _held) = high_number();
        let closing = begins(fd, false).unwrap();
        assert!(!contains(fd) && table::is_ours(fd));
        crate::numbers::close(fd).unwrap();
        closing.ends();
        assert!(!table::is_ours(fd));
    }
}
