//! What to run, and what was observed.

use super::statistics::{Estimate, Percentiles};
use serde::Serialize;

/// How a request's service times at the two stages hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coupling {
    /// Drawn independently, as the formulas assume.
    #[default]
    Independent,
    /// The same draw decides application, protocol and engine work: a large object is large at
    /// both stages. The overheads stay independent.
    SameSize,
}

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Run {
    /// Requests to offer, those of the warm-up included.
    pub requests: u64,
    /// The share of them, from the start, that does not count: 0 to 0.9.
    pub warm_up: f64,
    /// Whether the system has an engine.
    pub engine: bool,
    /// How the stages' service times hang together.
    pub coupling: Coupling,
    /// The confidence level of the intervals, such as 0.95.
    pub confidence: f64,
    /// Everything random follows from this.
    pub seed: u64,
}

impl Default for Run {
    /// A million requests, a tenth of them for warming up, with engine, 95 % intervals.
    fn default() -> Self {
        Run {
            requests: 1_000_000,
            warm_up: 0.1,
            engine: true,
            coupling: Coupling::Independent,
            confidence: 0.95,
            seed: 1,
        }
    }
}

/// What a run observed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// The time of a served request in the system, seconds.
    pub delay: Estimate,
    /// How the times are spread; `None` when no request was served.
    pub percentiles: Option<Percentiles>,
    /// The mean of each class, in the order given; `None` for a class that no request was of.
    pub classes: Vec<Option<Estimate>>,
    /// The part of it that was not service: waiting, or being slowed by others, seconds.
    pub wait: Estimate,
    /// The variance of that part, seconds squared.
    pub wait_variance: Estimate,
    /// The share of the host's cores that was busy.
    pub host_utilisation: f64,
    /// The share of the engine's cores that was busy, if there is one.
    pub engine_utilisation: Option<f64>,
    /// The mean number of requests in the system.
    pub present: f64,
    /// The share of the requests that were turned away at the host or at the engine.
    pub blocking: Estimate,
    /// Requests that counted: offered after the warm-up.
    pub counted: u64,
}
