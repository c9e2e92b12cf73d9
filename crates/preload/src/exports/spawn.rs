//! Programs that libc starts by calls within it.

use core::ffi::{CStr, c_char, c_int};

use libc::{FILE, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use super::{exports, points};
use crate::calls::{enter, epoll, spawn};
use crate::kernel::next::{next, next_unwinding};

exports! {
    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int {
        let call = |environment| {
            next!(
                posix_spawn(
                    pid => *mut pid_t, path => *const c_char,
                    actions => *const posix_spawn_file_actions_t,
                    attributes => *const posix_spawnattr_t, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                libc::ENOSYS
            )
        };
        // SAFETY: as posix_spawn.
        unsafe {
            let program = CStr::from_ptr(path).to_owned();
            spawn::with(Some(program), actions, environment, call)
        }
    }

    fn posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int {
        let call = |environment| {
            next!(
                posix_spawnp(
                    pid => *mut pid_t, file => *const c_char,
                    actions => *const posix_spawn_file_actions_t,
                    attributes => *const posix_spawnattr_t, arguments => *const *const c_char,
                    environment => *const *const c_char
                ) -> c_int,
                libc::ENOSYS
            )
        };
        // SAFETY: as posix_spawnp.
        unsafe {
            let program = enter::looked_for(CStr::from_ptr(file));
            spawn::with(program, actions, environment, call)
        }
    }

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
