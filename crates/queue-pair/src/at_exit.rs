//! What a process still does when it ends by itself.

use rustix::io::Errno;

/// Has `act` called when this process ends by exit(3) or a return from main, and not when it ends by _exit(2) or a
/// signal. Children that are forked later call it, too, at their end. Other threads may run meanwhile. Where this is part
/// of a library that is closed (dlclose), it is called then.
///
/// # Errors
/// `ENOMEM`: there is no memory for it.
pub fn at_exit(act: extern "C" fn()) -> Result<(), Errno> {
    // SAFETY: it is a function that may be called at any time, and does not unwind. It is there when it is called: what
    // comes from a library the C library calls before that goes.
    match unsafe { libc::atexit(act) } {
        0 => Ok(()),
        _ => Err(Errno::NOMEM),
    }
}
