//! What is not offloaded, and why: the lines of `outboard explain`.

use core::ffi::c_int;
use std::net::SocketAddr;

use crate::session;

/// The descriptor `fd`, of a kind such as `listener`, stays with the kernel.
pub fn left_to_kernel(fd: c_int, kind: &str, reason: &str) {
    if let Some(session) = session::current() {
        session.report(fd, kind, reason);
    }
}

/// A program asked for something on an offloaded connection that the engine has not got, and was
/// refused as by a kernel that has not got it either.
pub fn unsupported(peer: SocketAddr, what: &str) {
    if let Some(session) = session::current() {
        session.report(
            -1,
            "call",
            &format!("{what} is not supported (connection with {peer})"),
        );
    }
}
