//! A thread that sees to it that children have what they were promised.
//!
//! An engine that does not run has not heard of a fork, and when it has, this process tells its child. All threads of the
//! program may be asleep in the kernel by then, and wait for that very child. So there is one more in the meantime. It
//! takes no signals, and ends when the engine has answered. A process with a filter of system calls gets none, since
//! the filter may not let it be made.

use core::mem::zeroed;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use libc::sigset_t;

use crate::engine::session;
use crate::kernel::filter;

/// It is there, or about to be.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// How often one looks who waits for something else.
const LOOKS: Duration = Duration::from_millis(10);

/// What it calls is not much.
const STACK: usize = 256 * 1024;

/// After a fork, in the child: the thread is its parent's.
pub fn are_parents() {
    IS_THERE.store(false, Ordering::Relaxed);
}

/// After a fork, in the parent.
pub fn see_to_them() {
    let promised = session::current().is_some_and(|session| session.promised().is_some());
    let may = promised && !filter::is_there();
    if !may || IS_THERE.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: signal sets of this function's own.
    let before = unsafe {
        let (mut all, mut before): (sigset_t, sigset_t) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread = std::thread::Builder::new().stack_size(STACK);
    let thread = thread.name("outboard".to_owned());
    if thread.spawn(sees_to_them).is_err() {
        // Then whichever comes by.
        IS_THERE.store(false, Ordering::Release);
    }
    // SAFETY: the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
}

/// One who waits for a child, for which there may be no such thread, looks whether the engine has answered. How soon to
/// look again, if he is to.
pub fn look() -> Option<Duration> {
    if IS_THERE.load(Ordering::Relaxed) {
        return None;
    }
    let promised = session::current()?.promised()?;
    (!promised.are_kept()).then_some(LOOKS)
}

fn sees_to_them() {
    loop {
        while let Some(promised) = session::current().and_then(|session| session.promised()) {
            promised.see_to_it();
        }
        IS_THERE.store(false, Ordering::Release);
        // Something was promised just before, and nobody else sees to it.
        let more = session::current().is_some_and(|session| session.promised().is_some());
        if !more || IS_THERE.swap(true, Ordering::AcqRel) {
            return;
        }
    }
}
