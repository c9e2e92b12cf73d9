//! fork, exec, exit, and the signal that interrupts.

use super::handler;
use crate::errors::last;
use crate::setting::setting;
use crate::slots;
use differ::outcome::Outcome;
use differ::program::Actor;
use std::ffi::CString;
use std::mem::zeroed;
use std::ptr::null_mut;

/// SIGUSR1 interrupts a call and does nothing else. What the kernel says by SIGPIPE is said by
/// EPIPE as well.
pub fn catch_interrupts() {
    handler::catch(0);
    // SAFETY: nobody handles it.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = libc::SIG_IGN;
        libc::sigaction(libc::SIGPIPE, &raw const action, null_mut());
    }
}

/// Whether this is the child.
pub fn fork() -> Result<bool, Outcome> {
    // SAFETY: the child goes on in this thread, and needs nothing of the others.
    match unsafe { libc::fork() } {
        ..0 => Err(last()),
        0 => Ok(true),
        _ => Ok(false),
    }
}

/// Becomes the same interpreter anew; returns only if that fails.
pub fn exec(actor: Actor) -> Outcome {
    let plain = |text: String| CString::new(text).expect("no zero in it");
    let arguments = [
        plain("differ-actor".into()),
        plain(serde_json::to_string(setting()).expect("plain values")),
        plain(actor.to_string()),
        plain(serde_json::to_string(&slots::all()).expect("plain values")),
    ];
    let mut pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: texts that end in zero, in a list that ends in null.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
    last()
}

/// Ends the process.
pub fn exit(at_once: bool) -> ! {
    // SAFETY: other threads make no call that the handlers of exit would hurt.
    unsafe {
        if at_once {
            libc::_exit(0)
        } else {
            libc::exit(0)
        }
    }
}
