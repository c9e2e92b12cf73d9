//! Parents that wait until their child has executed a program, or ended, as after a vfork.
//!
//! Where clone or vfork would share memory and the child has its own here, the kernel is not asked to stop the parent: that
//! holds locks at the fork. It waits when it has given them back. The child has an end of a pipe that is closed when it
//! executes a program or ends, and the parent looks at the other. Children of others have none, since the pipe is made,
//! and this process's own copy of the child's end closed, where no other forks; nor have those of the child.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use host::private_fds;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::engine::promises;
use crate::kernel::raw::{result, sys};
use crate::numbers::placeholder::{Number, out_of_the_way};
use crate::thread::inside;

const NONE: c_int = -1;

/// The end that this process has, for its parent.
static FOR_PARENT: AtomicI32 = AtomicI32::new(NONE);

/// An end of the pipe, hidden from the program, that the kernel closes at exec.
struct End(c_int);

impl End {
    /// It is moved out of the program's way, if there is room.
    fn hidden(low: Number) -> Self {
        let number = out_of_the_way(low);
        // SAFETY: a number that nobody else knows.
        Self(private_fds::keep(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open until this is dropped.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        private_fds::leave_to_program(self.0);
        // SAFETY: it was this end's.
        unsafe { sys!(libc::SYS_close, self.0) };
    }
}

/// A pipe between a parent and the child that it is about to make. There is none where no descriptors are left: then
/// nobody waits.
pub struct Pipe {
    of_parent: End,
    of_child: End,
}

impl Pipe {
    /// To be called where no other thread forks.
    pub fn new() -> Option<Self> {
        let mut ends = [NONE; 2];
        // SAFETY: there is room for two numbers.
        result(unsafe { sys!(libc::SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC) }).ok()?;
        let [of_parent, of_child] = ends.map(|end| End::hidden(Number::of(end)));
        Some(Self {
            of_parent,
            of_child,
        })
    }

    /// In the parent, where still no other thread forks.
    pub fn in_parent(self) -> Parent {
        Parent(self.of_parent)
    }

    /// In the child, when what its parent has for that one's parent is [forgotten](forget).
    pub fn in_child(self) {
        drop(self.of_parent);
        FOR_PARENT.store(self.of_child.0, Ordering::Relaxed);
        core::mem::forget(self.of_child);
    }
}

/// One that is to wait.
pub struct Parent(End);

impl Parent {
    /// Until the child has executed a program, or ended. A handler that runs meanwhile does not end it, and libc
    /// cancels nobody here. What the child was promised it is given meanwhile.
    pub fn waits(self) {
        let mut ends = [PollFd::from_borrowed_fd(
            self.0.borrow(),
            PollFlags::empty(),
        )];
        loop {
            // A handler would wait for what is locked here, though not while this sleeps.
            inside::enter();
            let soon = promises::look();
            inside::leave();
            let limit = soon.and_then(|soon| Timespec::try_from(soon).ok());
            match rustix::event::poll(&mut ends, limit.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

/// At a fork, in the child: what its parent has is for that one's parent.
pub fn forget() {
    let number = FOR_PARENT.swap(NONE, Ordering::Relaxed);
    if number != NONE {
        drop(End(number));
    }
}
