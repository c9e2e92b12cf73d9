//! New processes.
//!
//! `fork`, and `daemon` which calls it, reach us through the handlers that
//! [`start`](crate::start) registers. `posix_spawn`, `system` and `popen` go straight from a
//! child that shares our memory to another program, which is right as it is.

use core::ffi::{c_char, c_int};

use super::exports;
use crate::next::next;
use crate::raw::libc_return;
use crate::{exec, fork, numbers};

unsafe extern "C" {
    static environ: *const *const c_char;
}

exports! {
    /// A vfork child runs on its parent's memory, and what it closes there would be closed in our
    /// table for the parent too: it gets memory of its own.
    fn vfork() -> c_int {
        // SAFETY: fork may be called wherever vfork may.
        unsafe { libc::fork() }
    }

    fn __vfork() -> c_int {
        // SAFETY: as above.
        unsafe { libc::fork() }
    }

    /// Calls no handlers of its own accord.
    fn _Fork() -> c_int {
        fork::through(|| next!(_Fork() -> c_int, -1) as isize) as c_int
    }

    /// libc duplicates over the standard numbers without a call of ours.
    fn daemon(stay_in_directory: c_int, keep_standard: c_int) -> c_int {
        let result = next!(daemon(stay_in_directory => c_int, keep_standard => c_int) -> c_int, -1);
        if result == 0 && keep_standard == 0 {
            for fd in 0..3 {
                numbers::handed_out(fd);
            }
        }
        result
    }

    fn execve(
        path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char,
    ) -> c_int {
        // SAFETY: as execve.
        libc_return(Err(unsafe { exec::execve(path, arguments, environment) })) as c_int
    }

    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
        // SAFETY: as execv; the environment is the program's.
        libc_return(Err(unsafe { exec::execve(path, arguments, environ) })) as c_int
    }

    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
        exec::with(|| {
            next!(execvp(file => *const c_char, arguments => *const *const c_char) -> c_int, -1)
        })
    }

    fn execvpe(
        file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char,
    ) -> c_int {
        exec::with(|| {
            next!(
                execvpe(
                    file => *const c_char, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                -1
            )
        })
    }

    fn fexecve(
        fd: c_int, arguments: *const *const c_char, environment: *const *const c_char,
    ) -> c_int {
        exec::with(|| {
            next!(
                fexecve(
                    fd => c_int, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                -1
            )
        })
    }
}
