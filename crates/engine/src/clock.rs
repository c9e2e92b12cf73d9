//! Time as the worker sees it: nanoseconds since it started.

use rustix::time::{ClockId, clock_gettime};
use tcp::Instant;

/// A monotonic clock that began at zero; by default when the machine did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    start: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { start: raw() }
    }

    /// When it began, by the machine's monotonic clock, in nanoseconds.
    pub fn began_ns(&self) -> u64 {
        self.start
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(raw().saturating_sub(self.start))
    }
}

fn raw() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock begins at boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
