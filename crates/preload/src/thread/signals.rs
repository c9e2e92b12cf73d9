//! Signals, as far as system calls have to do with them.

use rustix::io::Errno;

use crate::kernel::raw::{result, sys};
use crate::thread::inside;

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// Highest signal number.
const SIGNALS: i32 = 64;

/// Signals that a thread raises by what it does, and which therefore never end a wait.
const SYNCHRONOUS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// After a wait that a signal has ended: whether the call goes on, because its handler says so.
pub fn goes_on() -> bool {
    inside::goes_on().unwrap_or_else(all_restart)
}

/// Whether every signal that the program handles is handled with SA_RESTART.
///
/// For handlers that were set by system calls of the program's own, and that we do not hear of. The
/// kernel restarts a blocking call after a handler with that flag, but what we block in, ppoll, it never
/// restarts. So this is exact where all handlers agree, and EINTR, which a program with a handler that
/// does not restart must expect, where they differ. Asking costs some microseconds, once a signal.
fn all_restart() -> bool {
    let mut waited_for = (1..=SIGNALS).filter(|signal| !SYNCHRONOUS.contains(signal));
    waited_for.all(|signal| {
        let mut action = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        // SAFETY: asks for the action, into memory of the kernel's layout.
        let asked: Result<usize, Errno> = result(unsafe {
            sys!(
                libc::SYS_rt_sigaction,
                signal,
                0usize,
                &raw mut action,
                8usize
            )
        });
        let handled = action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
        asked.is_err() || !handled || action.flags & libc::SA_RESTART as usize != 0
    })
}

/// Sends SIGPIPE to the calling thread.
pub fn raise_broken_pipe() {
    // SAFETY: a signal to ourselves, as the kernel would have sent it.
    unsafe {
        let process = sys!(libc::SYS_getpid);
        let thread = sys!(libc::SYS_gettid);
        sys!(libc::SYS_tgkill, process, thread, libc::SIGPIPE);
    }
}
