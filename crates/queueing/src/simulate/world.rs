//! The event loop of a run: arrivals, the ends of services, and what is observed of both.

use super::stage::{Job, StageQueue};
use super::statistics::{BatchMeans, Estimate, Spread, TimeAverage, variance};
use super::{Coupling, Observation, Run};
use crate::ModelError;
use crate::error::positive;
use crate::offload::{Class, System};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Batches for the confidence interval: enough for a t-quantile near the normal one, and few enough
/// that batches are nearly independent.
const BATCHES: u64 = 30;

/// One class, ready to draw from.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The cumulative share of arrivals up to and with this class.
    up_to: f64,
    class: &'a Class,
    offloaded: bool,
}

/// The state of one run.
pub(super) struct World<'a> {
    sources: Vec<Source<'a>>,
    run: &'a Run,
    /// Whether all work of a request is one service at the host.
    shared: bool,
    rng: ChaCha8Rng,
    mean_gap: f64,
    now: f64,
    offered: u64,
    first_counted: u64,
    host: StageQueue,
    engine: Option<StageQueue>,
    all: BatchMeans,
    spread: Spread,
    by_class: Vec<BatchMeans>,
    wait: BatchMeans,
    wait_squared: BatchMeans,
    present: TimeAverage,
    turned_away: BatchMeans,
}

impl<'a> World<'a> {
    pub(super) fn new(
        classes: &'a [Class],
        system: &System,
        offloaded: &[bool],
        run: &'a Run,
        rate: f64,
    ) -> Result<Self, ModelError> {
        let mut up_to = 0.0;
        let sources = classes
            .iter()
            .zip(offloaded)
            .map(|(class, offloaded)| {
                up_to += class.arrival_rate / rate;
                Source {
                    up_to,
                    class,
                    offloaded: *offloaded,
                }
            })
            .collect();
        let first_counted = (run.requests as f64 * run.warm_up) as u64;
        let counted = run.requests - first_counted;
        let batches = || BatchMeans::new(counted, BATCHES, run.confidence);
        // A rare class has as many batches as all together, only smaller ones.
        let of_class = |class: &Class| {
            let expected = (counted as f64 * class.arrival_rate / rate) as u64;
            BatchMeans::new(expected, BATCHES, run.confidence)
        };
        let mean_gap = 1.0 / positive("total arrival rate", rate)?;
        Ok(World {
            sources,
            run,
            shared: system.shared,
            rng: ChaCha8Rng::seed_from_u64(run.seed),
            mean_gap,
            now: 0.0,
            offered: 0,
            first_counted,
            host: StageQueue::new(&system.host),
            engine: offloaded
                .contains(&true)
                .then(|| StageQueue::new(&system.engine)),
            all: batches(),
            spread: Spread::new(mean_gap),
            by_class: classes.iter().map(of_class).collect(),
            wait: batches(),
            wait_squared: batches(),
            present: TimeAverage::default(),
            turned_away: batches(),
        })
    }

    /// The event loop: whatever happens next, an arrival or the end of a service at either stage.
    pub(super) fn run(&mut self) {
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
            offloaded: self.sources[class].offloaded,
            first,
            second,
        };
        if self.host.arrive(self.now, first, job, &mut self.rng) {
            self.present.change(self.now, 1.0);
        } else if counts {
            self.turned_away.add(1.0);
        }
    }

    /// The service times of one request at the first and at the second stage.
    fn draw(&mut self, class: usize) -> (f64, f64) {
        let Source {
            class, offloaded, ..
        } = self.sources[class];
        let rng = &mut self.rng;
        let moved = if offloaded {
            &class.engine
        } else {
            &class.protocol
        };
        let (application, protocol) = match self.run.coupling {
            Coupling::Independent => (class.application.sample(rng), moved.sample(rng)),
            Coupling::SameSize => {
                let size: f64 = rng.random();
                (class.application.quantile(size), moved.quantile(size))
            }
        };
        if offloaded {
            let first = application + class.overhead.sample(rng);
            let second = class.control.sample(rng) + protocol;
            if self.shared {
                (first + second, 0.0)
            } else {
                (first, second)
            }
        } else {
            (application + protocol, 0.0)
        }
    }

    fn leave_host(&mut self, job: Job) {
        let Some(engine) = self.engine.as_mut().filter(|_| job.offloaded) else {
            return self.finish(&job);
        };
        if !engine.arrive(self.now, job.second, job, &mut self.rng) {
            self.present.change(self.now, -1.0);
            if job.counts {
                self.turned_away.add(1.0);
            }
        }
    }

    fn finish(&mut self, job: &Job) {
        self.present.change(self.now, -1.0);
        if job.counts {
            self.turned_away.add(0.0);
            let delay = self.now - job.arrived;
            self.all.add(delay);
            self.spread.add(delay);
            self.by_class[job.class as usize].add(delay);
            // Rounding alone can take what is nearly nothing below zero.
            let wait = (delay - job.first - job.second).max(0.0);
            self.wait.add(wait);
            self.wait_squared.add(wait * wait);
        }
    }

    pub(super) fn observation(self) -> Observation {
        let counted = self.offered - self.first_counted;
        let until = self.now;
        Observation {
            delay: self.all.estimate().unwrap_or(Estimate::NONE),
            percentiles: self.spread.percentiles(),
            classes: self.by_class.iter().map(BatchMeans::estimate).collect(),
            wait: self.wait.estimate().unwrap_or(Estimate::NONE),
            wait_variance: variance(&self.wait, &self.wait_squared).unwrap_or(Estimate::NONE),
            host_utilisation: self.host.utilisation(until),
            engine_utilisation: self.engine.as_ref().map(|stage| stage.utilisation(until)),
            present: self.present.mean(until),
            blocking: self.turned_away.estimate().unwrap_or(Estimate::NONE),
            counted,
        }
    }
}
