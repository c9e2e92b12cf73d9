//! Programs that libc starts by calls within it.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;

use libc::{FILE, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use super::{exports, points};
use crate::calls::{enter, epoll, spawn};
use crate::kernel::next::{next, next_unwinding};

/// posix_spawn and its kin: the first argument is what the child is known by, and the second which file it executes.
macro_rules! spawning {
    ($(fn $name:ident($by:ident: $kind:ty, $path:ident) executes $program:expr;)*) => {
        exports! {$(
            fn $name(
                $by: *mut $kind, $path: *const c_char, actions: *const posix_spawn_file_actions_t,
                attributes: *const posix_spawnattr_t, arguments: *const *const c_char,
                environment: *const *const c_char,
            ) -> c_int {
                let call = |environment| {
                    next!(
                        $name(
                            $by => *mut $kind, $path => *const c_char,
                            actions => *const posix_spawn_file_actions_t,
                            attributes => *const posix_spawnattr_t,
                            arguments => *const *const c_char,
                            environment => *const *const c_char
                        ) -> c_int,
                        libc::ENOSYS
                    )
                };
                // SAFETY: as posix_spawn.
                unsafe {
                    let program: fn(&CStr) -> Option<CString> = $program;
                    spawn::with(program(CStr::from_ptr($path)), actions, environment, call)
                }
            }
        )*}
    };
}

// A libc without the last two (glibc before 2.39) has the errno of a kernel that cannot do it.
spawning! {
    fn posix_spawn(pid: pid_t, path) executes |path| Some(path.to_owned());
    fn posix_spawnp(pid: pid_t, file) executes enter::looked_for;
    fn pidfd_spawn(descriptor: c_int, path) executes |path| Some(path.to_owned());
    fn pidfd_spawnp(descriptor: c_int, file) executes enter::looked_for;
}

exports! {
    fn posix_spawn_file_actions_init(actions: *mut posix_spawn_file_actions_t) -> c_int {
        spawn::forget(actions);
        next!(
            posix_spawn_file_actions_init(actions => *mut posix_spawn_file_actions_t) -> c_int,
            libc::ENOSYS
        )
    }

    fn posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
        spawn::forget(actions);
        next!(
            posix_spawn_file_actions_destroy(actions => *mut posix_spawn_file_actions_t) -> c_int,
            libc::ENOSYS
        )
    }

    fn posix_spawn_file_actions_adddup2(
        actions: *mut posix_spawn_file_actions_t, fd: c_int, new: c_int,
    ) -> c_int {
        let added = next!(
            posix_spawn_file_actions_adddup2(
                actions => *mut posix_spawn_file_actions_t, fd => c_int, new => c_int
            ) -> c_int,
            libc::ENOSYS
        );
        if added == 0 {
            spawn::will_duplicate(actions, fd);
        }
        added
    }
}

points! {
    fn system(command: *const c_char) -> c_int {
        if !command.is_null() && spawn::takes_along() {
            // SAFETY: the program gives a string.
            return unsafe { spawn::system(command) };
        }
        // libc starts it by itself, out of sight.
        epoll::all_open();
        next_unwinding!(system(command => *const c_char) -> c_int, -1)
    }

    fn pclose(file: *mut FILE) -> c_int {
        // SAFETY: the program gives up a file.
        match unsafe { spawn::pclose(file) } {
            Some(status) => status,
            None => next_unwinding!(pclose(file => *mut FILE) -> c_int, -1),
        }
    }
}
