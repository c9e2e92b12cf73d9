//! The time that every process of the machine has.

use rustix::time::ClockId;

/// CLOCK_MONOTONIC in nanoseconds: the same for every process of the machine.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // Neither is ever negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
