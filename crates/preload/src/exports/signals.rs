//! Handlers for signals.

use core::ffi::c_int;

use libc::sighandler_t;

use super::exports;
use crate::calls::actions;
use crate::kernel::next::next;

exports! {
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: null or the program's own.
        unsafe { actions::change(signal, new, old) }
    }

    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: null or the program's own.
        unsafe { actions::change(signal, new, old) }
    }

    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(signal(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(bsd_signal(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(ssignal(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(sysv_signal(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(__sysv_signal(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        actions::change_by(signal, handler, |signal, handler| {
            next!(sigset(signal => c_int, handler => sighandler_t) -> sighandler_t, libc::SIG_ERR)
        })
    }

    fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
        let done = next!(siginterrupt(signal => c_int, interrupts => c_int) -> c_int, -1);
        if done == 0 {
            actions::interrupts(signal, interrupts != 0);
        }
        done
    }
}
