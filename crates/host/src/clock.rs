//! The time that every process of the machine has.

use std::time::Duration;

use rustix::time::{ClockId, Timespec};

/// CLOCK_MONOTONIC in nanoseconds: the same for every process of the machine.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // Neither is ever negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps for so long, or until a signal comes. By a system call: in libc's function, of which std's is made, a thread
/// may be cancelled, which must not happen where something is held or the program does not expect it. By ppoll, since
/// that is one that filters let pass.
pub fn pause(duration: Duration) {
    if let Ok(duration) = Timespec::try_from(duration) {
        let _ = rustix::event::poll(&mut [], Some(&duration));
    }
}
