//! Numbers that libc closes within a call of its own, as fclose does.
//!
//! When such a call returns, the table follows. Until then the number is in the table still, and may be a file of the
//! program's already, which another thread has opened. So it is written down before: nothing is put in
//! its place meanwhile, and the child of a fork, in which that call never returns, looks for itself.

use core::ffi::c_int;

use crate::kernel::lock::Small;
use crate::kernel::raw::{result, sys};
use crate::numbers::table::{self, Held};
use crate::numbers::{gate, standard};

static CLOSING: Small<Vec<c_int>> = Small::new(Vec::new());

/// See the [module](self).
pub struct Closing {
    fd: c_int,
    before: Held,
}

/// libc is about to close `fd`, or to make it something else, if it is ours.
pub fn begins(fd: c_int) -> Option<Closing> {
    let before = table::get(fd)?;
    // Not while something is put in its place.
    let leaving = gate::leaving();
    CLOSING.lock().push(fd);
    drop(leaving);
    Some(Closing { fd, before })
}

impl Closing {
    /// libc has done so.
    pub fn is_over(self) {
        let Self { fd, before } = self;
        let held = {
            let _leaving = gate::leaving();
            let mut closing = CLOSING.lock();
            if let Some(at) = closing.iter().position(|it| *it == fd) {
                closing.swap_remove(at);
            }
            drop(closing);
            table::remove_if(fd, &before)
        };
        if let Some(held) = held {
            held.number_closes(fd);
        }
        standard::number_changed(fd);
    }
}

/// Whether libc is closing `fd`. Where that matters nobody else begins to: the caller holds the [gate](gate::still).
pub fn contains(fd: c_int) -> bool {
    CLOSING.lock().contains(&fd)
}

/// In the child of a fork: the threads that were about to close something are not here.
pub fn are_parents() {
    let closing = core::mem::take(&mut *CLOSING.lock());
    for fd in closing {
        // SAFETY: asks for a flag.
        let is_open = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) }).is_ok();
        if !is_open {
            drop(table::remove(fd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::description::Content;
    use crate::numbers::placeholder;
    use crate::objects::tcp::Tcp;

    #[test]
    fn a_child_has_no_number_that_another_thread_has_closed_within_libc() {
        let fds = [(); 2].map(|()| {
            let placeholder = placeholder::placeholder(libc::AF_INET, true).unwrap();
            let fd = placeholder.keep();
            let tcp = Content::Tcp(Tcp::new(libc::AF_INET, false));
            assert!(table::install(fd, Held::new(tcp)));
            fd
        });
        let closing = fds.map(|fd| begins(fd).unwrap());
        // SAFETY: this test's own.
        unsafe { sys!(libc::SYS_close, fds[0]) };
        are_parents();
        assert_eq!(fds.map(table::is_ours), [false, true]);
        closing.map(Closing::is_over);
        assert_eq!(fds.map(table::is_ours), [false, false]);
        // SAFETY: as above.
        unsafe { sys!(libc::SYS_close, fds[1]) };
    }
}
