//! A discrete-event simulator of the systems in [`crate::offload`], for what has no formula and to
//! check the formulas that there are.
//!
//! Any distribution, several cores, both disciplines, bounded room, one or two stages, and the same
//! object size at both stages if wanted. A run is reproducible from its seed. What the cold start
//! distorts is removed (the first share of the requests does not count), and every mean comes with
//! a confidence interval from batch means, because consecutive delays of a queue are far from
//! independent.

mod stage;
mod statistics;
mod world;

pub use statistics::{Estimate, Percentiles};

use crate::error::within;
use crate::offload::{Class, Stage, System, all_arrivals, one_each};
use crate::{Distribution, ModelError};
use serde::Serialize;
use world::World;

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

/// The least number of requests for which batch means mean anything.
const LEAST_REQUESTS: u64 = 1_000;

/// Runs the simulation, every class offloaded or none, as `run` says.
///
/// # Errors
/// No class, a rate outside its domain, a stage without cores or room, too few requests, or a
/// system that without bounded room could never catch up with its arrivals.
pub fn simulate(classes: &[Class], system: &System, run: &Run) -> Result<Observation, ModelError> {
    simulate_placed(classes, system, &vec![run.engine; classes.len()], run)
}

/// The same where each class is offloaded or not: `offloaded` has one entry a class, and what `run`
/// says of the engine does not count.
///
/// # Errors
/// As [`simulate`]; `offloaded` does not have one entry a class.
pub fn simulate_placed(
    classes: &[Class],
    system: &System,
    offloaded: &[bool],
    run: &Run,
) -> Result<Observation, ModelError> {
    one_each(classes, offloaded)?;
    let rate = all_arrivals(classes)?;
    within("share of the warm-up", run.warm_up, 0.0, 0.9)?;
    within("confidence level", run.confidence, 0.5, 0.9999)?;
    if run.requests < LEAST_REQUESTS {
        return Err(ModelError::TooFewSamples {
            what: "a simulation",
            needed: LEAST_REQUESTS as usize,
            given: run.requests as usize,
        });
    }
    refuse_overload(classes, system, offloaded)?;
    let mut world = World::new(classes, system, offloaded, run, rate)?;
    world.run();
    Ok(world.observation())
}

/// One of a class's service times.
type Part = fn(&Class) -> &Distribution;

/// An unbounded queue that cannot keep up has no steady state to observe.
fn refuse_overload(
    classes: &[Class],
    system: &System,
    offloaded: &[bool],
) -> Result<(), ModelError> {
    let rate: f64 = classes.iter().map(|class| class.arrival_rate).sum();
    let work = |parts: fn(bool) -> &'static [Part]| -> Result<f64, ModelError> {
        let mut work = 0.0;
        for (class, offloaded) in classes.iter().zip(offloaded) {
            for part in parts(*offloaded) {
                work += class.arrival_rate * part(class).moment(1)?;
            }
        }
        Ok(work)
    };
    let mut host = work(|offloaded| {
        if offloaded {
            &[|c| &c.application, |c| &c.overhead]
        } else {
            &[|c| &c.application, |c| &c.protocol]
        }
    })?;
    let mut engine = work(|offloaded| {
        if offloaded {
            &[|c| &c.control, |c| &c.engine]
        } else {
            &[]
        }
    })?;
    if system.shared {
        host += std::mem::take(&mut engine);
    }
    keeps_up("the host's stage", rate, host, &system.host)?;
    if offloaded.contains(&true) {
        keeps_up("the engine's stage", rate, engine, &system.engine)?;
    }
    Ok(())
}

/// Refuses a stage without a core or without room, and one that is given more `work`, in seconds a
/// second, than it has cores for.
fn keeps_up(name: &'static str, rate: f64, work: f64, stage: &Stage) -> Result<(), ModelError> {
    stage.check()?;
    if stage.room.is_none() && work > 0.0 {
        crate::error::stable(name, rate, rate * stage.cores as f64 / work)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
