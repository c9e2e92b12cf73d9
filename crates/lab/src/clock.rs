//! The clock by which programs, their peers and the engine's traces tell of moments: one for the whole machine, which
//! nobody sets.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It begins when the machine does.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
