//! A discrete-event simulator of the systems in [`crate::offload`], for what has no formula and to
//! check the formulas that there are.
//!
//! Any distribution, several cores, both disciplines, bounded room, one or two stages, and the same
//! object size at both stages if wanted. A run is reproducible from its seed. What the cold start
//! distorts is removed (the first share of the requests does not count), and every mean comes with
//! a confidence interval from batch means, because consecutive delays of a queue are far from
//! independent.

mod run;
mod stage;
mod statistics;
mod world;

pub use run::{Coupling, Observation, Run};
pub use statistics::{Estimate, Percentiles};

use crate::error::within;
use crate::offload::{Class, Stage, System, all_arrivals, one_each};
use crate::{Distribution, ModelError};
use world::World;

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
