//! What a flood came to.

use std::time::Duration;

/// What a flood came to.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// SYNs that the device took.
    pub sent: u64,
    /// For how long.
    pub took: Duration,
}

impl Report {
    /// SYNs a second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.took.as_secs_f64()
    }
}
