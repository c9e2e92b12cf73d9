//! The answers over a range of loads.

use super::input::Server;
use super::written::duration;
use anyhow::{Result, bail};
use queueing::ModelError;
use queueing::offload::bounds::{OverheadBounds, overhead_bounds};
use queueing::offload::placement::{self, Placement};
use queueing::offload::predict::{Bottleneck, ClassPrediction};
use queueing::offload::sensitivity::{Elasticity, elasticities};
use queueing::offload::{Class, Prediction, predict, saturation};
use queueing::policy::Policy;
use queueing::simulate::{Run, simulate};
use std::fmt;

/// Loads in a range.
const POINTS: usize = 24;

/// Requests that are simulated at each load where a queue has bounded room.
const BOUNDED_REQUESTS: u64 = 200_000;

/// How close to saturation a range without an upper end goes.
const CLOSE: f64 = 0.98;

/// The answers at one load.
#[derive(Debug, Clone)]
pub struct Point {
    /// All arrivals, a second.
    pub rate: f64,
    /// The host alone; `None` beyond its saturation.
    pub without: Option<Prediction>,
    /// Everything offloaded; `None` beyond its saturation.
    pub with: Option<Prediction>,
    /// The best placement; `None` where nothing carries the load.
    pub best: Option<Placement>,
}

/// Everything that was found out.
pub struct Study {
    /// What was asked.
    pub server: Server,
    /// The answers, by ascending load.
    pub points: Vec<Point>,
    /// The load at which the host alone saturates, a second.
    pub saturation_without: f64,
    /// The same with everything offloaded, and the stage that does.
    pub saturation_with: (f64, Bottleneck),
    /// Up to which overhead offloading pays, at `at`; `None` where the host alone carries no load.
    pub bounds: Option<OverheadBounds>,
    /// What the delays hang on, at `at`.
    pub elasticities: Vec<Elasticity>,
    /// The load for bounds, elasticities and the simulation: the busiest that both systems carry.
    pub at: f64,
}

/// The classes at a total arrival rate.
fn at(server: &Server, rate: f64) -> Vec<Class> {
    let scale = |class: &Class| Class {
        arrival_rate: class.arrival_rate * rate,
        ..class.clone()
    };
    server.classes.iter().map(scale).collect()
}

/// A prediction, or nothing where the load is too much.
fn unless_overloaded<T>(result: Result<T, ModelError>) -> Result<Option<T>, ModelError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ModelError::Unstable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What one system does at one load: by formula, or, where a queue has bounded room, observed in a
/// simulation. `None` beyond saturation.
fn answer(
    server: &Server,
    classes: &[Class],
    engine: bool,
) -> Result<Option<Prediction>, ModelError> {
    if !server.bounded() {
        return unless_overloaded(predict(classes, &server.system, engine));
    }
    let run = Run {
        requests: BOUNDED_REQUESTS,
        engine,
        ..Run::default()
    };
    let Some(seen) = unless_overloaded(simulate(classes, &server.system, &run))? else {
        return Ok(None);
    };
    let (saturation, bottleneck) = saturation(classes, &server.system, engine)?;
    let busy = seen.host_utilisation * server.system.host.cores as f64
        + seen.engine_utilisation.unwrap_or(0.0) * server.system.engine.cores as f64;
    let total: f64 = classes.iter().map(|class| class.arrival_rate).sum();
    let shares = classes
        .iter()
        .zip(&seen.classes)
        .map(|(class, delay)| ClassPrediction {
            name: class.name.clone(),
            offloaded: engine,
            host_utilisation: seen.host_utilisation * class.arrival_rate / total,
            engine_utilisation: seen
                .engine_utilisation
                .map(|used| used * class.arrival_rate / total),
            delay: delay.map_or(f64::NAN, |delay| delay.mean),
        });
    Ok(Some(Prediction {
        host_utilisation: seen.host_utilisation,
        engine_utilisation: seen.engine_utilisation,
        delay: seen.delay.mean,
        waiting: seen.present - busy,
        saturation,
        bottleneck,
        blocking: seen.blocking,
        exact: false,
        classes: shares.collect(),
    }))
}

/// The best placement. With bounded room it is all or nothing: the one that turns fewer requests
/// away, and of equals the faster one.
fn best(
    server: &Server,
    classes: &[Class],
    without: Option<&Prediction>,
    with: Option<&Prediction>,
) -> Result<Option<Placement>, ModelError> {
    if !server.bounded() {
        return placement::best(classes, &server.system);
    }
    let candidates = [(false, without), (true, with)];
    let better = candidates
        .into_iter()
        .filter_map(|(engine, prediction)| Some((engine, prediction?)))
        .min_by(|(_, a), (_, b)| {
            // Differences of a thousandth are noise of the simulation.
            let lost = |prediction: &Prediction| (prediction.blocking * 1e3).round();
            lost(a)
                .total_cmp(&lost(b))
                .then(a.delay.total_cmp(&b.delay))
        });
    Ok(better.map(|(engine, prediction)| Placement {
        offloaded: vec![engine; classes.len()],
        prediction: prediction.clone(),
    }))
}

/// Studies a server.
pub fn study(server: &Server) -> Result<Study> {
    let one = at(server, 1.0);
    let (saturation_without, _) = saturation(&one, &server.system, false)?;
    let saturation_with = saturation(&one, &server.system, true)?;
    let (from, to) = match server.rates {
        Some(rates) => (rates.from, rates.to),
        None => {
            let most = saturation_without.max(saturation_with.0);
            if !most.is_finite() {
                bail!(
                    "these requests cost nothing, so no load saturates; give service times above 0, or a range by --rates"
                );
            }
            (most * 0.04, most * CLOSE)
        }
    };
    let count = if from == to { 1 } else { POINTS };
    let step = (to - from) / (count.max(2) - 1) as f64;
    let points = (0..count)
        .map(|i| point(server, from + step * i as f64))
        .collect::<Result<Vec<_>>>()?;
    let both = points
        .iter()
        .rev()
        .find(|point| point.without.is_some() && point.with.is_some());
    let at_rate = both.map_or(from, |point| point.rate);
    let classes = at(server, at_rate);
    Ok(Study {
        // Both need formulas, which bounded room does not have.
        bounds: if server.bounded() {
            None
        } else {
            unless_overloaded(overhead_bounds(&classes, &server.system))?
        },
        elasticities: if server.bounded() {
            Vec::new()
        } else {
            unless_overloaded(elasticities(&classes, &server.system))?.unwrap_or_default()
        },
        at: at_rate,
        server: server.clone(),
        points,
        saturation_without,
        saturation_with,
    })
}

fn point(server: &Server, rate: f64) -> Result<Point> {
    let classes = at(server, rate);
    let without = answer(server, &classes, false)?;
    let with = answer(server, &classes, true)?;
    Ok(Point {
        rate,
        best: best(server, &classes, without.as_ref(), with.as_ref())?,
        without,
        with,
    })
}

impl Study {
    /// The policy that follows, if the classes' sizes are known.
    pub fn policy(&self) -> Result<Option<Policy>> {
        let Some(sizes) = &self.server.sizes else {
            return Ok(None);
        };
        let loads: Vec<(f64, Option<Placement>)> = self
            .points
            .iter()
            .map(|point| (point.rate, point.best.clone()))
            .collect();
        Ok(Some(placement::policy(sizes, &loads)?))
    }

    /// Simulates both systems at one load and holds the formulas against it.
    pub fn simulate(&self, seed: u64) -> Result<Check> {
        let classes = at(&self.server, self.at);
        let mut rows = Vec::new();
        for engine in [false, true] {
            let Some(model) = answer(&self.server, &classes, engine)? else {
                continue;
            };
            let run = Run {
                engine,
                seed,
                ..Run::default()
            };
            let seen = simulate(&classes, &self.server.system, &run)?;
            rows.push(CheckRow {
                engine,
                model: model.delay,
                exact: model.exact,
                seen: seen.delay.mean,
                half_width: seen.delay.half_width,
            });
        }
        Ok(Check {
            rate: self.at,
            seed,
            rows,
        })
    }
}

/// Formulas beside a simulation.
#[derive(Debug, serde::Serialize)]
pub struct Check {
    rate: f64,
    seed: u64,
    rows: Vec<CheckRow>,
}

#[derive(Debug, serde::Serialize)]
struct CheckRow {
    engine: bool,
    model: f64,
    exact: bool,
    seen: f64,
    half_width: f64,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A million requests simulated at {:.0} a second (seed {}):",
            self.rate, self.seed
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "  {} engine: mean delay {} ± {} (95 %); the model says {} ({})",
                if row.engine { "with   " } else { "without" },
                duration(row.seen),
                duration(row.half_width),
                duration(row.model),
                if row.exact { "exact" } else { "approximation" },
            )?;
        }
        Ok(())
    }
}
