//! The signal mask of a thread that no handler is to interrupt.

use core::ptr::null_mut;

use crate::kernel::raw::sys;
use crate::thread::handlers::SYNCHRONOUS_BITS;

/// What a thread's was, in the kernel's layout.
#[derive(Clone, Copy)]
pub struct Mask(u64);

impl Mask {
    /// No signal is delivered to the thread from now on but those that it raises by what it does. The mask that it had.
    pub fn hold_back() -> Self {
        let mut before = 0;
        set(&raw const ALL, &raw mut before);
        Self(before)
    }

    /// It is that again.
    pub fn put_back(self) {
        set(&raw const self.0, null_mut());
    }
}

static ALL: u64 = !SYNCHRONOUS_BITS;

fn set(mask: *const u64, before: *mut u64) {
    // SAFETY: the callers' words, of the size of the kernel's set.
    unsafe {
        sys!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            mask,
            before,
            8usize
        )
    };
}
