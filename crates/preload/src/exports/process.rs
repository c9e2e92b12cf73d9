//! New processes.
//!
//! `fork`, and `daemon` which calls it, reach us through the handlers that
//! [`start`](crate::start) registers. What libc starts by calls within it is in [`super::spawn`].

use core::ffi::{CStr, c_char, c_int};

use super::{exports, kernel};
use crate::calls::{enter, exec, fork};
use crate::kernel::next::next;
use crate::kernel::raw::libc_return;
use crate::numbers;

/// The arguments of a program that C does not name lie in registers and, from the sixth on, on the stack.
/// Put there, too, below the others, they are the list that execv takes. The return address lies between
/// and makes room.
macro_rules! with_list {
    ($function:ident) => {
        core::arch::naked_asm!(
            "pop rax",
            "push r9",
            "push r8",
            "push rcx",
            "push rdx",
            "push rsi",
            "mov rsi, rsp",
            "push rax",
            "call {function}",
            "pop rcx",
            "add rsp, 40",
            "push rcx",
            "ret",
            function = sym $function,
        )
    };
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

exports! {
    /// A vfork child runs on its parent's memory, and what it closes there would be closed in our
    /// table for the parent too: it gets memory of its own.
    fn vfork() -> c_int {
        fork::and_wait() as c_int
    }

    fn __vfork() -> c_int {
        fork::and_wait() as c_int
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
        // SAFETY: as execvp; the environment is the program's.
        unsafe { execvpe(file, arguments, environ) }
    }

    fn execvpe(
        file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char,
    ) -> c_int {
        let call = |environment| {
            next!(
                execvpe(
                    file => *const c_char, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                -1
            )
        };
        // SAFETY: as execvpe.
        unsafe {
            let program = enter::looked_for(CStr::from_ptr(file));
            exec::with(program, environment, call)
        }
    }

    fn fexecve(
        fd: c_int, arguments: *const *const c_char, environment: *const *const c_char,
    ) -> c_int {
        let call = |environment| {
            next!(
                fexecve(
                    fd => c_int, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                -1
            )
        };
        // SAFETY: as fexecve.
        unsafe { exec::with(enter::relative_to(fd, c""), environment, call) }
    }

    fn execveat(
        fd: c_int, path: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char, flags: c_int,
    ) -> c_int {
        let call =
            |environment| kernel!(SYS_execveat, fd, path, arguments, environment, flags) as c_int;
        // SAFETY: as execveat; a null is the kernel's to refuse.
        unsafe {
            let program = (!path.is_null())
                .then(|| CStr::from_ptr(path))
                .and_then(|path| enter::relative_to(fd, path));
            exec::with(program, environment, call)
        }
    }

    #[unsafe(naked)]
    fn execl(path: *const c_char, first: *const c_char) -> c_int {
        with_list!(listed)
    }

    #[unsafe(naked)]
    fn execlp(file: *const c_char, first: *const c_char) -> c_int {
        with_list!(looked_for)
    }

    #[unsafe(naked)]
    fn execle(path: *const c_char, first: *const c_char) -> c_int {
        with_list!(with_environment)
    }
}

/// execl.
///
/// # Safety
/// As execv.
unsafe extern "C" fn listed(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: as the caller promises; the environment is the program's.
    unsafe { execve(path, arguments, environ) }
}

/// execlp.
///
/// # Safety
/// As execvp.
unsafe extern "C" fn looked_for(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: as the caller promises; the environment is the program's.
    unsafe { execvpe(file, arguments, environ) }
}

/// execle: the environment comes after the end of the list.
///
/// # Safety
/// As execve.
unsafe extern "C" fn with_environment(
    path: *const c_char,
    arguments: *const *const c_char,
) -> c_int {
    let mut end = arguments;
    // SAFETY: as the caller promises.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(
            path,
            arguments,
            end.add(1).cast::<*const *const c_char>().read(),
        )
    }
}
