//! What is not offloaded, and why: the lines of `outboard explain`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::net::SocketAddr;

use host::Listener;

use crate::engine::session::CALL;
use crate::engine::{early, session};

/// Lines that a process says at most in so many seconds: one that connects to its own machine a million
/// times says nothing new.
const MOST: u32 = 256;
const SECONDS: u64 = 10;

/// Lines said in these seconds, counted from the machine's start.
static SAID: AtomicU32 = AtomicU32::new(0);
static WHEN: AtomicU64 = AtomicU64::new(0);

/// Whether one more line may be said.
fn has_word() -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    let now = now.tv_sec as u64 / SECONDS;
    if WHEN.swap(now, Ordering::Relaxed) != now {
        SAID.store(0, Ordering::Relaxed);
    }
    SAID.fetch_add(1, Ordering::Relaxed) < MOST
}

/// The program listens by the descriptor `fd`. What has become of that the session says, to each engine.
pub fn listens(fd: c_int, listener: &Listener) {
    if has_word() {
        listener.explain_as(fd);
    }
}

/// The descriptor `fd`, of a kind such as `listener`, stays with the kernel.
pub fn left_to_kernel(fd: c_int, kind: &str, reason: &str) {
    say(fd, kind, reason);
}

fn say(fd: c_int, kind: &str, reason: &str) {
    if let Some(session) = session::current()
        && has_word()
    {
        session.report(fd, kind, reason);
    }
}

/// A program asked for something on an offloaded connection that the engine has not got, and was
/// refused as by a kernel that has not got it either.
pub fn unsupported(peer: SocketAddr, what: &str) {
    say(
        -1,
        CALL,
        &format!("{what} is not supported (connection with {peer})"),
    );
}

/// Something that this process cannot have, whichever socket it is for: said once.
pub fn remark(what: &'static str) {
    let mut early = early::lines();
    match session::current() {
        Some(session) => session.remark(CALL, what),
        None if early.len() < host::REMARKS && !early.contains(&what) => early.push(what),
        None => {}
    }
}
