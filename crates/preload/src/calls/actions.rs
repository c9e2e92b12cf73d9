//! What the program does about signals: sigaction and its kin.
//!
//! The kernel is told to call [`inside::arrived`] for every signal that has a handler; which one that is
//! stands in [`handlers`](crate::thread::handlers). A program that asks is told its own. Signals that a thread
//! raises by what it does (SIGSEGV and the like) are the program's alone.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::engine::settings;
use crate::kernel::next::next;
use crate::thread::handlers::{
    ADDRESS, INFORMED, ONCE, RESTARTS, SIGNALS, SYNCHRONOUS, is_no_handler, slot, word_of,
};
use crate::thread::inside;

/// Whether handlers of the signal are called by us.
fn is_ours(signal: c_int) -> bool {
    settings::get().is_some()
        && (1..=SIGNALS as c_int).contains(&signal)
        && !SYNCHRONOUS.contains(&signal)
}

fn ours() -> usize {
    inside::arrived as *const () as usize
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
    let slot = slot(signal);
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
    let slot = slot(signal);
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
    let slot = slot(signal);
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
