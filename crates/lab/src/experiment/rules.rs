//! How a run is made, and why it ends.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a run is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Every combination is measured so often at least.
    pub least_rounds: u32,
    /// And so often at most.
    pub most_rounds: u32,
    /// An interval is narrow enough if it reaches no further from the median than this part of it.
    pub precision: f64,
    /// No measurement begins after so long.
    pub limit: Duration,
    /// How long one measurement is.
    pub window: Duration,
    /// What the order, and all else that is drawn, begins with.
    pub seed: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The intervals of all that has to be narrow are narrow enough: of each first measure, and of what is claimed.
    Narrow,
    /// All rounds have been made.
    Rounds,
    /// The time was up.
    Time,
    /// Someone interrupted it.
    Interrupted,
}
