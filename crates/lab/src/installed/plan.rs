//! How it is run.

use std::path::PathBuf;
use std::time::Duration;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs engine and programs.
    pub binary: PathBuf,
    /// More engines to be measured in each round: another binary each or, if its name ends in
    /// `.toml`, the same binary with these settings.
    pub beside: Vec<PathBuf>,
    /// Rounds; each measures every case on every subject.
    pub rounds: usize,
    /// Length of each measurement, about.
    pub window: Duration,
    /// Only cases whose names contain one of these words; all, if there is none.
    pub only: Vec<String>,
    /// Measure the floor, too.
    pub floor: bool,
}

impl Plan {
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}
