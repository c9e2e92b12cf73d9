//! Calls by which a process gives up reaching things: another root directory, a filter of system calls.
//!
//! What the engine is asked for afterwards may be out of reach: its socket's path, and the calls that
//! open it. So a process that does this is attached before.

use core::ffi::{c_char, c_int, c_ulong};

use super::{exports, kernel};
use crate::{report, session};

/// What `outboard explain` says of processes to come.
const NEW_ROOT: &str = "it has changed its root directory: processes that it starts from now on may find no \
                        engine, and are served by the kernel";

/// A filter of system calls, or one of the other ways to have fewer of them.
pub(super) fn before() {
    if let Some(session) = session::begin() {
        // Without an engine there is nothing to reach.
        session.attach_now();
    }
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
            before();
        }
        kernel!(SYS_prctl, option, a, b, c, d) as c_int
    }
}
