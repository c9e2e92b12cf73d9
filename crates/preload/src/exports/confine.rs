//! Calls by which a process gives up reaching things: another root directory, a filter of system calls,
//! another user or group.
//!
//! What the engine is asked for afterwards may be out of reach: its socket's path, and the calls that
//! open it. So a process that does this is attached before. The child of a fork, which has nothing of its
//! sockets until it attaches, is so before it becomes another user, too, unless everybody reaches the engine:
//! then it attaches when it uses a socket, if ever, and counts as that user.

use core::ffi::{c_char, c_int, c_ulong};
use std::path::Path;

use libc::{gid_t, size_t, uid_t};
use rustix::fs::Mode;

use super::{exports, kernel};
use crate::engine::wait::Sleep;
use crate::engine::{report, session, settings};
use crate::kernel::filter;
use crate::kernel::next::next;

/// What `outboard explain` says of processes to come.
const NEW_ROOT: &str = "it has changed its root directory: processes that it starts from now on may find no \
                        engine, and are served by the kernel";

/// A filter of system calls.
pub(super) fn before_filter() {
    before();
    filter::begins();
    if let Some(session) = session::current() {
        // It may not let the call pass by which memory goes back.
        session.keep_memory();
    }
}

/// One of the ways to reach less.
fn before() {
    if let Some(session) = session::begin() {
        // Without an engine there is nothing to reach.
        session.attach_now();
        // What a thread sleeps by: for one call, and for several descriptors. Both are kept for whoever sleeps
        // next. More threads than one that sleep at once still make theirs when they do.
        session.have_sleeper();
        drop(Sleep::begin());
    }
}

/// A process becomes another user, or leaves a group.
pub(super) fn before_other_rights() {
    if let Some(session) = session::current()
        && session.is_heir()
        && !settings::get().is_some_and(|settings| is_for_everybody(&settings.socket))
    {
        session.attach_now();
    }
}

/// Whether every user may connect to the socket at this path.
fn is_for_everybody(path: &Path) -> bool {
    let grants = |path: &Path, rights: Mode| {
        let about = rustix::fs::stat(path);
        about.is_ok_and(|about| Mode::from_raw_mode(about.st_mode).contains(rights))
    };
    let mut directories = path.ancestors().skip(1);
    path.is_absolute()
        && grants(path, Mode::WOTH)
        && directories.all(|directory| grants(directory, Mode::XOTH))
}

/// Calls of libc's that change all threads of a process, which the kernel's do not.
macro_rules! other_rights {
    ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
        exports! {$(
            fn $name($($argument: $kind),*) -> c_int {
                before_other_rights();
                next!($name($($argument => $kind),*) -> c_int, -1)
            }
        )*}
    };
}

other_rights! {
    fn setuid(user: uid_t);
    fn seteuid(user: uid_t);
    fn setreuid(real: uid_t, effective: uid_t);
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t);
    fn setgid(group: gid_t);
    fn setegid(group: gid_t);
    fn setregid(real: gid_t, effective: gid_t);
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t);
    fn setgroups(count: size_t, groups: *const gid_t);
    fn initgroups(user: *const c_char, group: gid_t);
}

exports! {
    fn chroot(path: *const c_char) -> c_int {
        before();
        let result = kernel!(SYS_chroot, path) as c_int;
        if result == 0 && session::current().is_some() {
            report::remark(NEW_ROOT);
        }
        result
    }

    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
        if option == libc::PR_SET_SECCOMP {
            before_filter();
        }
        kernel!(SYS_prctl, option, a, b, c, d) as c_int
    }
}
