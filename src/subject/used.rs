//! What this process has used.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of all its threads.
pub fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
