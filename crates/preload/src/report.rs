//! What is not offloaded, and why: the lines of `outboard explain`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use std::net::SocketAddr;

use crate::session;

/// Lines that a process says at most: one that connects to its own machine a million times says
/// nothing new.
const MOST: u32 = 256;

static SAID: AtomicU32 = AtomicU32::new(0);

/// The descriptor `fd`, of a kind such as `listener`, is the engine's.
pub fn offloaded(fd: c_int, kind: &str) {
    say(fd, kind, "");
}

/// The descriptor `fd`, of a kind such as `listener`, stays with the kernel.
pub fn left_to_kernel(fd: c_int, kind: &str, reason: &str) {
    say(fd, kind, reason);
}

fn say(fd: c_int, kind: &str, reason: &str) {
    if let Some(session) = session::current()
        && SAID.fetch_add(1, Ordering::Relaxed) < MOST
    {
        session.report(fd, kind, reason);
    }
}

/// A program asked for something on an offloaded connection that the engine has not got, and was
/// refused as by a kernel that has not got it either.
pub fn unsupported(peer: SocketAddr, what: &str) {
    say(
        -1,
        "call",
        &format!("{what} is not supported (connection with {peer})"),
    );
}
