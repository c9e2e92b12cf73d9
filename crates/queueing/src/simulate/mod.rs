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

pub use statistics::Estimate;

use crate::error::{at_least_one, positive, within};
use crate::offload::{Class, Stage, System, all_arrivals};
use crate::{Distribution, ModelError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use stage::{Job, StageQueue};
use statistics::{BatchMeans, TimeAverage};

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
    /// The same of each class, in the order given; `None` for a class that no request was of.
    pub classes: Vec<Option<Estimate>>,
    /// The share of the host's cores that was busy.
    pub host_utilisation: f64,
    /// The share of the engine's cores that was busy, if there is one.
    pub engine_utilisation: Option<f64>,
    /// The mean number of requests in the system.
    pub present: f64,
    /// The share of the requests that were turned away at the host or at the engine.
    pub blocking: f64,
    /// Requests that counted: offered after the warm-up.
    pub counted: u64,
}

/// Batches for the confidence interval: enough for a t-quantile near the normal one, and few enough
/// that batches are nearly independent.
const BATCHES: u64 = 30;

/// The least number of requests for which batch means mean anything.
const LEAST_REQUESTS: u64 = 1_000;

/// One class, ready to draw from.
struct Source<'a> {
    /// The cumulative share of arrivals up to and with this class.
    up_to: f64,
    class: &'a Class,
}

/// Runs the simulation.
///
/// # Errors
/// No class, a rate outside its domain, too few requests, or a system that without bounded room
/// could never catch up with its arrivals.
pub fn simulate(classes: &[Class], system: &System, run: &Run) -> Result<Observation, ModelError> {
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
    refuse_overload(classes, system, run)?;
    let mut world = World::new(classes, system, run, rate)?;
    world.run();
    Ok(world.observation())
}

/// One of a class's service times.
type Part = fn(&Class) -> &Distribution;

/// An unbounded queue that cannot keep up has no steady state to observe.
fn refuse_overload(classes: &[Class], system: &System, run: &Run) -> Result<(), ModelError> {
    let stages: [(&'static str, &Stage, [Part; 2]); 3] = [
        (
            "the host without engine",
            &system.host,
            [|c| &c.application, |c| &c.protocol],
        ),
        (
            "the host's stage",
            &system.host,
            [|c| &c.application, |c| &c.overhead],
        ),
        (
            "the engine's stage",
            &system.engine,
            [|c| &c.control, |c| &c.engine],
        ),
    ];
    let used = if run.engine {
        &stages[1..]
    } else {
        &stages[..1]
    };
    let rate: f64 = classes.iter().map(|class| class.arrival_rate).sum();
    for (name, stage, parts) in used {
        at_least_one("number of cores", stage.cores)?;
        let mut work = 0.0;
        for class in classes {
            for part in parts {
                work += class.arrival_rate * part(class).moment(1)?;
            }
        }
        if stage.room.is_none() && work > 0.0 {
            crate::error::stable(name, rate, rate * stage.cores as f64 / work)?;
        }
    }
    Ok(())
}

/// The state of one run.
struct World<'a> {
    sources: Vec<Source<'a>>,
    run: &'a Run,
    rng: ChaCha8Rng,
    mean_gap: f64,
    now: f64,
    offered: u64,
    first_counted: u64,
    host: StageQueue,
    engine: Option<StageQueue>,
    all: BatchMeans,
    by_class: Vec<BatchMeans>,
    present: TimeAverage,
    turned_away: u64,
}

impl<'a> World<'a> {
    fn new(
        classes: &'a [Class],
        system: &System,
        run: &'a Run,
        rate: f64,
    ) -> Result<Self, ModelError> {
        let mut up_to = 0.0;
        let sources = classes
            .iter()
            .map(|class| {
                up_to += class.arrival_rate / rate;
                Source { up_to, class }
            })
            .collect();
        let first_counted = (run.requests as f64 * run.warm_up) as u64;
        let counted = run.requests - first_counted;
        let batches = || BatchMeans::new(counted, BATCHES, run.confidence);
        Ok(World {
            sources,
            run,
            rng: ChaCha8Rng::seed_from_u64(run.seed),
            mean_gap: 1.0 / positive("total arrival rate", rate)?,
            now: 0.0,
            offered: 0,
            first_counted,
            host: StageQueue::new(&system.host),
            engine: run.engine.then(|| StageQueue::new(&system.engine)),
            all: batches(),
            by_class: classes.iter().map(|_| batches()).collect(),
            present: TimeAverage::default(),
            turned_away: 0,
        })
    }

    /// The event loop: whatever happens next, an arrival or the end of a service at either stage.
    fn run(&mut self) {
        let mut arrival = self.gap();
        loop {
            let host = self.host.next_departure();
            let engine = self
                .engine
                .as_ref()
                .map_or(f64::INFINITY, StageQueue::next_departure);
            let arrives = if self.offered < self.run.requests {
                arrival
            } else {
                f64::INFINITY
            };
            if arrives <= host && arrives <= engine {
                if arrives == f64::INFINITY {
                    return;
                }
                self.now = arrives;
                self.arrive();
                arrival += self.gap();
            } else if host <= engine {
                self.now = host;
                let job = self.host.depart();
                self.leave_host(job);
            } else {
                self.now = engine;
                if let Some(stage) = &mut self.engine {
                    let job = stage.depart();
                    self.finish(&job);
                }
            }
        }
    }

    fn gap(&mut self) -> f64 {
        let unit: f64 = self.rng.sample(rand_distr::Exp1);
        unit * self.mean_gap
    }

    fn arrive(&mut self) {
        if self.offered == self.first_counted {
            // From here on it counts: utilisations and averages start afresh.
            self.host.start_counting(self.now);
            if let Some(engine) = &mut self.engine {
                engine.start_counting(self.now);
            }
            self.present.start(self.now);
        }
        let counts = self.offered >= self.first_counted;
        self.offered += 1;
        let pick: f64 = self.rng.random();
        let class = self.sources.partition_point(|source| source.up_to <= pick);
        let class = class.min(self.sources.len() - 1);
        let (first, second) = self.draw(class);
        let job = Job {
            arrived: self.now,
            class: class as u32,
            counts,
            second,
        };
        if self.host.arrive(self.now, first, job, &mut self.rng) {
            self.present.change(self.now, 1.0);
        } else if counts {
            self.turned_away += 1;
        }
    }

    /// The service times of one request at the first and at the second stage.
    fn draw(&mut self, class: usize) -> (f64, f64) {
        let class = self.sources[class].class;
        let rng = &mut self.rng;
        let (application, protocol) = match self.run.coupling {
            Coupling::Independent => {
                let moved = if self.run.engine {
                    &class.engine
                } else {
                    &class.protocol
                };
                (class.application.sample(rng), moved.sample(rng))
            }
            Coupling::SameSize => {
                let moved = if self.run.engine {
                    &class.engine
                } else {
                    &class.protocol
                };
                let size: f64 = rng.random();
                (class.application.quantile(size), moved.quantile(size))
            }
        };
        if self.run.engine {
            let first = application + class.overhead.sample(rng);
            (first, class.control.sample(rng) + protocol)
        } else {
            (application + protocol, 0.0)
        }
    }

    fn leave_host(&mut self, job: Job) {
        let Some(engine) = &mut self.engine else {
            return self.finish(&job);
        };
        if !engine.arrive(self.now, job.second, job, &mut self.rng) {
            self.present.change(self.now, -1.0);
            self.turned_away += u64::from(job.counts);
        }
    }

    fn finish(&mut self, job: &Job) {
        self.present.change(self.now, -1.0);
        if job.counts {
            let delay = self.now - job.arrived;
            self.all.add(delay);
            self.by_class[job.class as usize].add(delay);
        }
    }

    fn observation(self) -> Observation {
        let counted = self.offered - self.first_counted;
        let until = self.now;
        Observation {
            delay: self.all.estimate().unwrap_or(Estimate::NONE),
            classes: self.by_class.iter().map(BatchMeans::estimate).collect(),
            host_utilisation: self.host.utilisation(until),
            engine_utilisation: self.engine.as_ref().map(|stage| stage.utilisation(until)),
            present: self.present.mean(until),
            blocking: self.turned_away as f64 / counted as f64,
            counted,
        }
    }
}

#[cfg(test)]
mod tests;
