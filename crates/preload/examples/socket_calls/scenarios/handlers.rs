//! Handlers of signals that are set or changed by functions that are seldom used.

use std::ffi::c_int;
use std::mem::zeroed;
use std::sync::atomic::Ordering;

use super::Stage;
use super::interruptions::{CONNECTION, HANDLED, counts, every, makes_calls};

unsafe extern "C" {
    fn sigset(signal: c_int, handler: usize) -> usize;
    fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int;
}

const HOLD: usize = 2;

pub fn by_sigset(stage: &mut Stage<'_>, fd: c_int) {
    let handler = makes_calls as *const () as usize;
    CONNECTION.store(fd, Ordering::SeqCst);
    HANDLED.store(0, Ordering::SeqCst);
    // SAFETY: a handler that makes calls, a time, and a byte of room.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        for set in [handler, handler, HOLD, HOLD, handler] {
            let former = sigset(libc::SIGALRM, set);
            let is = match former {
                libc::SIG_DFL => "the default",
                HOLD => "blocked",
                former if former == handler => "the handler",
                _ => "another",
            };
            stage.transcript.note(format_args!("sigset: {is}"));
            if set == HOLD {
                libc::raise(libc::SIGALRM);
            }
            let handled = HANDLED.load(Ordering::SeqCst);
            stage.transcript.note(format_args!("handled: {handled}"));
        }
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(libc::SIGALRM, std::ptr::null(), &raw mut action);
        let same = action.sa_sigaction == handler;
        let flags = action.sa_flags & (libc::SA_RESTART | libc::SA_SIGINFO);
        stage.transcript.note(format_args!("asked: {same} {flags}"));
        // It comes in the middle of calls, too, and makes the same ones.
        every(200);
        while HANDLED.load(Ordering::SeqCst) < 1000 {
            let mut byte = 0u8;
            let how = libc::MSG_DONTWAIT | libc::MSG_PEEK;
            libc::recv(fd, (&raw mut byte).cast(), 1, how);
        }
        every(0);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
    }
}

pub fn interrupting(stage: &mut Stage<'_>, fd: c_int) {
    let handler = counts as *const () as usize;
    for interrupts in [1, 0] {
        // SAFETY: a handler.
        unsafe {
            libc::signal(libc::SIGALRM, handler);
            let changed = siginterrupt(libc::SIGALRM, interrupts);
            stage.transcript.call("siginterrupt", changed as isize);
            let mut action: libc::sigaction = zeroed();
            libc::sigaction(libc::SIGALRM, std::ptr::null(), &raw mut action);
            let flag = action.sa_flags & libc::SA_RESTART;
            stage.transcript.note(format_args!("restarts: {flag:x}"));
        }
        HANDLED.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            if interrupts == 0 {
                scope.spawn(move || ends_it_after_some(fd));
            }
            every(20_000);
            stage.transcript.recv(fd, 1, 0);
            every(0);
        });
    }
    // SAFETY: a signal that is none, and the default.
    unsafe {
        let changed = siginterrupt(0, 1);
        stage.transcript.call("siginterrupt", changed as isize);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
    }
}

/// Ends the call in the other thread, when it has been interrupted a few times.
fn ends_it_after_some(fd: c_int) {
    // The signals are to go to the other thread.
    // SAFETY: blocks a signal in this thread.
    unsafe {
        let mut alarm: libc::sigset_t = zeroed();
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const alarm, std::ptr::null_mut());
    }
    while HANDLED.load(Ordering::SeqCst) < 5 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: the scenario's own descriptor.
    unsafe { libc::shutdown(fd, libc::SHUT_RD) };
}
