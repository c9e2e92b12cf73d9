//! The handlers that the program has for signals.
//!
//! The kernel knows one function of ours instead of all of them ([`inside::arrived`](crate::thread::inside::arrived)),
//! which calls the one that stands here. The program sets them by sigaction and its kin
//! ([`actions`](crate::calls::actions)).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::siginfo_t;

use crate::kernel::raw::sys;

/// Highest signal number.
pub const SIGNALS: usize = 64;

/// Signals that a thread raises by what it does, or by which it ends itself.
pub const SYNCHRONOUS: [c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGKILL,
];

/// The same as the kernel's set.
pub const SYNCHRONOUS_BITS: u64 = {
    let mut bits = 0;
    let mut at = 0;
    while at < SYNCHRONOUS.len() {
        bits |= 1 << (SYNCHRONOUS[at] - 1);
        at += 1;
    }
    bits
};

/// In a word of [`HANDLERS`], above every address: the handler takes three arguments.
pub const INFORMED: usize = 1 << 63;
/// It is for one signal.
pub const ONCE: usize = 1 << 62;
/// Calls that it interrupts go on.
pub const RESTARTS: usize = 1 << 61;
/// The address itself.
pub const ADDRESS: usize = RESTARTS - 1;

/// The program's handlers.
static HANDLERS: [AtomicUsize; SIGNALS + 1] = [const { AtomicUsize::new(0) }; SIGNALS + 1];

/// The word for a signal up to [`SIGNALS`].
pub fn slot(signal: c_int) -> &'static AtomicUsize {
    &HANDLERS[signal as usize]
}

/// The word for a handler with these flags.
pub fn word_of(address: usize, flags: c_int) -> usize {
    let bit = |flag, bit| if flags & flag != 0 { bit } else { 0 };
    address
        | bit(libc::SA_SIGINFO, INFORMED)
        | bit(libc::SA_RESETHAND, ONCE)
        | bit(libc::SA_RESTART, RESTARTS)
}

/// Whether an address stands for what the kernel does without a handler.
pub fn is_no_handler(address: usize) -> bool {
    address == libc::SIG_DFL || address == libc::SIG_IGN
}

/// A handler of the program.
pub struct Handler {
    address: usize,
    informed: bool,
    /// Calls that it interrupts go on.
    pub restarts: bool,
}

impl Handler {
    /// Calls it.
    ///
    /// # Safety
    /// As the kernel would.
    pub unsafe fn call(&self, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        type Informed = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
        type Plain = unsafe extern "C-unwind" fn(c_int);
        // SAFETY: the program gave this address for a function of that type.
        unsafe {
            if self.informed {
                core::mem::transmute::<usize, Informed>(self.address)(signal, info, context);
            } else {
                core::mem::transmute::<usize, Plain>(self.address)(signal);
            }
        }
    }
}

/// The handler of a signal that has come.
pub fn handler(signal: c_int) -> Option<Handler> {
    let word = HANDLERS.get(signal as usize)?.load(Ordering::Acquire);
    if is_no_handler(word & ADDRESS) {
        return None;
    }
    if word & ONCE != 0 {
        becomes_default(signal, word);
    }
    Some(Handler {
        address: word & ADDRESS,
        informed: word & INFORMED != 0,
        restarts: word & RESTARTS != 0,
    })
}

/// The handler was for one signal, which has come: what the kernel does then.
#[cold]
fn becomes_default(signal: c_int, word: usize) {
    // The kernel's layout: handler, flags, restorer, mask.
    let mut action: [u64; 4] = [0; 4];
    // SAFETY: memory of that layout.
    unsafe {
        sys!(
            libc::SYS_rt_sigaction,
            signal,
            0usize,
            action.as_mut_ptr(),
            8usize
        )
    };
    action[0] = libc::SIG_DFL as u64;
    action[1] |= libc::SA_RESETHAND as u32 as u64;
    if word & INFORMED == 0 {
        action[1] &= !(libc::SA_SIGINFO as u64);
    }
    // SAFETY: as above; the default action calls nothing.
    unsafe {
        sys!(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            0usize,
            8usize
        )
    };
}
