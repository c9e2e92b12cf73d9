//! What the program does about signals: sigaction and its kin.
//!
//! The kernel is told to call [`inside::arrived`] for every signal that has a handler; here stands
//! which one. A program that asks is told its own. Signals that a thread raises by what it does
//! (SIGSEGV and the like) are the program's alone.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::siginfo_t;

use crate::inside;
use crate::next::next;
use crate::raw::sys;
use crate::settings;

/// Highest signal number.
const SIGNALS: usize = 64;

/// Signals that a thread raises by what it does, or by which it ends itself.
const SYNCHRONOUS: [c_int; 8] = [
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
const INFORMED: usize = 1 << 63;
/// It is for one signal.
const ONCE: usize = 1 << 62;
/// Calls that it interrupts go on.
const RESTARTS: usize = 1 << 61;
const ADDRESS: usize = RESTARTS - 1;

/// The program's handlers.
static HANDLERS: [AtomicUsize; SIGNALS + 1] = [const { AtomicUsize::new(0) }; SIGNALS + 1];

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

/// Whether handlers of the signal are called by us.
fn is_ours(signal: c_int) -> bool {
    settings::get().is_some()
        && (1..=SIGNALS as c_int).contains(&signal)
        && !SYNCHRONOUS.contains(&signal)
}

fn is_no_handler(address: usize) -> bool {
    address == libc::SIG_DFL || address == libc::SIG_IGN
}

fn ours() -> usize {
    inside::arrived as *const () as usize
}

fn word_of(address: usize, flags: c_int) -> usize {
    let bit = |flag, bit| if flags & flag != 0 { bit } else { 0 };
    address
        | bit(libc::SA_SIGINFO, INFORMED)
        | bit(libc::SA_RESETHAND, ONCE)
        | bit(libc::SA_RESTART, RESTARTS)
}

/// libc's own.
fn libcs(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    next!(
        sigaction(signal => c_int, new => *const libc::sigaction, old => *mut libc::sigaction) -> c_int,
        -1
    )
}

/// sigaction.
///
/// # Safety
/// `new` and `old` are null or the program's.
pub unsafe fn change(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if !is_ours(signal) {
        return libcs(signal, new, old);
    }
    let slot = &HANDLERS[signal as usize];
    let before = slot.load(Ordering::Acquire);
    // SAFETY: as the caller promises.
    let mut wanted = unsafe { new.as_ref().copied() };
    if let Some(action) = wanted.as_mut()
        && !is_no_handler(action.sa_sigaction)
    {
        slot.store(
            word_of(action.sa_sigaction, action.sa_flags),
            Ordering::Release,
        );
        disguise(action);
    }
    let new = wanted
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    let changed = libcs(signal, new, old);
    if changed != 0 {
        slot.store(before, Ordering::Release);
        return changed;
    }
    // SAFETY: as the caller promises; libc has filled it.
    if let Some(old) = unsafe { old.as_mut() }
        && old.sa_sigaction == ours()
    {
        old.sa_sigaction = before & ADDRESS;
        let flag = |bit, flag| if before & bit != 0 { flag } else { 0 };
        old.sa_flags &= !libc::SA_SIGINFO;
        old.sa_flags |= flag(INFORMED, libc::SA_SIGINFO) | flag(ONCE, libc::SA_RESETHAND);
    }
    0
}

/// Makes an action with a handler one that the kernel tells us of.
fn disguise(action: &mut libc::sigaction) {
    action.sa_sigaction = ours();
    action.sa_flags |= libc::SA_SIGINFO;
    // Or it would be for the default action that a signal is put back.
    action.sa_flags &= !libc::SA_RESETHAND;
}

/// What sigset takes for a signal that is to be blocked.
const SIG_HOLD: usize = 2;

/// libc has changed whether a signal interrupts calls.
pub fn interrupts(signal: c_int, does: bool) {
    if !is_ours(signal) {
        return;
    }
    let slot = &HANDLERS[signal as usize];
    if does {
        slot.fetch_and(!RESTARTS, Ordering::AcqRel);
    } else {
        slot.fetch_or(RESTARTS, Ordering::AcqRel);
    }
}

/// One of libc's functions that set a handler with flags of its own choice, and return the one before.
pub fn change_by(
    signal: c_int,
    handler: usize,
    libcs_way: impl FnOnce(c_int, usize) -> usize,
) -> usize {
    if !is_ours(signal) {
        return libcs_way(signal, handler);
    }
    let slot = &HANDLERS[signal as usize];
    let before = slot.load(Ordering::Acquire);
    let told = |former| {
        if former == ours() {
            before & ADDRESS
        } else {
            former
        }
    };
    // Those that name no handler: sigset has one more.
    if is_no_handler(handler) || handler == libc::SIG_ERR || handler == SIG_HOLD {
        return told(libcs_way(signal, handler));
    }
    // Until the flags are known, as the kernel calls it in the meantime.
    slot.store(word_of(handler, 0), Ordering::Release);
    let former = libcs_way(signal, ours());
    if former == libc::SIG_ERR {
        slot.store(before, Ordering::Release);
        return former;
    }
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    if libcs(signal, core::ptr::null(), action.as_mut_ptr()) == 0 {
        // SAFETY: libc has filled it.
        let mut action = unsafe { action.assume_init() };
        slot.store(word_of(handler, action.sa_flags), Ordering::Release);
        disguise(&mut action);
        libcs(signal, &raw const action, core::ptr::null_mut());
    }
    told(former)
}
