//! Numbers that libc closes within a call of its own, as fclose does.
//!
//! When such a call returns, the table follows. Until then the number is in the table still, and may be a file of the
//! program's already, which another thread has opened. So it is written down before, with the file that it is: nothing
//! is put in its place meanwhile, and the child of a fork, in which that call never returns, looks whether it is still
//! that.
//!
//! A file of functions of ours ([`stdio`](crate::calls::stdio)) closes its number by one of them, and the table follows
//! at once.

use core::ffi::c_int;

use crate::kernel::lock::Small;
use crate::numbers::placeholder::{self, Socket};
use crate::numbers::table::{self, Held};
use crate::numbers::{gate, standard};

/// The numbers, and what they were in the kernel.
static CLOSING: Small<Vec<(c_int, Socket)>> = Small::new(Vec::new());

/// See the [module](self).
pub struct Closing {
    fd: c_int,
    before: Held,
    /// It is written down.
    is_noted: bool,
}

/// libc is about to close `fd`, or to make it something else, if it is ours. `by_itself`: and not by a function of ours.
pub fn begins(fd: c_int, by_itself: bool) -> Option<Closing> {
    let before = table::get(fd)?;
    if by_itself {
        // Not while something is put in its place.
        let _leaving = gate::leaving();
        let is_now = placeholder::socket_behind(fd);
        CLOSING.lock().push((fd, is_now));
    }
    Some(Closing {
        fd,
        before,
        is_noted: by_itself,
    })
}

impl Closing {
    /// libc has done so.
    pub fn ends(self) {
        let Self {
            fd,
            before,
            is_noted,
        } = self;
        let held = match is_noted {
            true => {
                // Nobody makes another number of the connection meanwhile.
                let _still = gate::still();
                let was = take_note(fd);
                // It is one again, which another thread has made and was given this number for.
                let is_again = was.is_some_and(|was| {
                    matches!(was, Socket::Inode(_)) && placeholder::socket_behind(fd) == was
                });
                match is_again {
                    true => None,
                    false => table::remove_if(fd, &before),
                }
            }
            false => {
                let _leaving = gate::leaving();
                table::remove_if(fd, &before)
            }
        };
        if let Some(held) = held {
            held.number_closes(fd);
        }
        standard::number_changed(fd);
    }
}

/// The number is not being closed any more: what it was.
fn take_note(fd: c_int) -> Option<Socket> {
    let mut closing = CLOSING.lock();
    let at = closing.iter().position(|(it, _)| *it == fd)?;
    Some(closing.swap_remove(at).1)
}

/// Whether libc is closing `fd`. Where that matters nobody else begins to: the caller holds the [gate](gate::still).
pub fn contains(fd: c_int) -> bool {
    CLOSING.lock().iter().any(|(it, _)| *it == fd)
}

/// In the child of a fork: the threads that were about to close something are not here.
pub fn are_parents() {
    let closing = core::mem::take(&mut *CLOSING.lock());
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
    use std::os::fd::AsRawFd;

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

    #[test]
    fn a_duplicate_that_gets_the_number_meanwhile_keeps_it() {
        let _alone = alone();
        let (fd, held) = high_number();
        let kept = crate::numbers::duplicate(fd).unwrap();
        let closing = begins(fd, true).unwrap();
        // SAFETY: this test's own.
        unsafe {
            sys!(libc::SYS_close, fd);
            sys!(libc::SYS_dup3, kept.as_raw_fd(), fd, libc::O_CLOEXEC);
        }
        drop(table::put(fd, held));
        closing.ends();
        assert!(table::is_ours(fd));
        crate::numbers::close(fd).unwrap();
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
