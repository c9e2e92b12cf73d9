//! The answers over a range of loads.

use super::bounded;
use super::input::Server;
use anyhow::{Result, bail};
use policy::Policy;
use queueing::ModelError;
use queueing::offload::bounds::{OverheadBounds, overhead_bounds};
use queueing::offload::placement::{self, Placement};
use queueing::offload::predict::Bottleneck;
use queueing::offload::sensitivity::{Elasticity, elasticities};
use queueing::offload::{Class, Prediction, predict, saturation};

/// Loads in a range, evenly spread; those where the best placement changes come on top.
pub const POINTS: usize = 25;

/// How closely the load is found at which the best placement changes.
const TURN: f64 = 1e-3;

/// A load at which a sensible system works: this share of its saturation.
pub const USUAL: f64 = 0.7;

/// How close to saturation a range without an upper end goes.
const CLOSE: f64 = 0.98;

/// The answers at one load.
#[derive(Debug, Clone)]
pub struct Point {
    /// All arrivals, a second.
    pub rate: f64,
    /// Whether the best placement changes here, and this load was looked for because of it.
    pub turn: bool,
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
    /// The greatest load that any placement carries, a second, and the placement.
    pub greatest: (f64, Vec<bool>),
    /// Up to which overhead offloading pays, at `at`; `None` where the host alone carries no load.
    pub bounds: Option<OverheadBounds>,
    /// What the delays hang on, at `usual`: near saturation every delay hangs on everything.
    pub elasticities: Vec<Elasticity>,
    /// The load for elasticities: a usual one for both systems.
    pub usual: f64,
    /// The load for bounds and the simulation: the busiest that was looked at and that
    /// both systems carry; where they carry none together, the lightest that was looked at.
    pub at: f64,
}

/// The classes at a total arrival rate.
pub fn at(server: &Server, rate: f64) -> Vec<Class> {
    let scale = |class: &Class| Class {
        arrival_rate: class.arrival_rate * rate,
        ..class.clone()
    };
    server.classes.iter().map(scale).collect()
}

/// A prediction, or nothing where the load is too much.
pub fn unless_overloaded<T>(result: Result<T, ModelError>) -> Result<Option<T>, ModelError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ModelError::Unstable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What one system does at one load; `None` beyond saturation.
pub fn answer(
    server: &Server,
    classes: &[Class],
    engine: bool,
) -> Result<Option<Prediction>, ModelError> {
    unless_overloaded(if server.bounded() {
        bounded::observe(server, classes, engine)
    } else {
        predict(classes, &server.system, engine)
    })
}

/// Studies a server.
pub fn study(server: &Server) -> Result<Study> {
    let one = at(server, 1.0);
    let (saturation_without, _) = saturation(&one, &server.system, false)?;
    let saturation_with = saturation(&one, &server.system, true)?;
    let greatest = placement::greatest_load(&one, &server.system)?;
    let (from, to) = match server.rates {
        Some(rates) => (rates.from, rates.to),
        None if greatest.0.is_finite() => (greatest.0 * 0.04, greatest.0 * CLOSE),
        None => bail!(
            "these requests cost nothing, so no load saturates; give service times above 0, or a \
             range by --rates"
        ),
    };
    let mut points = Vec::new();
    let count = if from == to { 1 } else { POINTS };
    let step = (to - from) / (count.max(2) - 1) as f64;
    for i in 0..count {
        let next = point(server, from + step * i as f64)?;
        if let Some(turn) = points.last().map(|last| turn(server, last, &next)) {
            points.extend(turn?);
        }
        points.push(next);
    }
    if points.iter().all(|point| point.best.is_none()) {
        bail!(
            "{from:.0} requests a second are more than this server can carry: {saturation_without:.0} \
             without engine, {:.0} with everything offloaded, {:.0} with the best placement; ask \
             below that by --rates, or bound the room to see what is turned away",
            saturation_with.0,
            greatest.0,
        );
    }
    let both = points
        .iter()
        .rev()
        .find(|point| point.without.is_some() && point.with.is_some());
    let at_rate = both.map_or(from, |point| point.rate);
    let classes = at(server, at_rate);
    let usual = at_rate.min(USUAL * saturation_without.min(saturation_with.0));
    // Both need formulas, which bounded room does not have.
    let (bounds, elasticities) = if server.bounded() {
        (None, Vec::new())
    } else {
        (
            unless_overloaded(overhead_bounds(&classes, &server.system))?,
            unless_overloaded(elasticities(&at(server, usual), &server.system))?
                .unwrap_or_default(),
        )
    };
    Ok(Study {
        server: server.clone(),
        points,
        saturation_without,
        saturation_with,
        greatest,
        bounds,
        elasticities,
        usual,
        at: at_rate,
    })
}

fn point(server: &Server, rate: f64) -> Result<Point> {
    let classes = at(server, rate);
    let without = answer(server, &classes, false)?;
    let with = answer(server, &classes, true)?;
    let best = if server.bounded() {
        bounded::better(classes.len(), without.as_ref(), with.as_ref())
    } else {
        placement::best(&classes, &server.system)?
    };
    Ok(Point {
        rate,
        turn: false,
        without,
        with,
        best,
    })
}

/// The load between two neighbours at which the best placement changes, if it does. (If it changes
/// more than once between them, one of the changes.)
fn turn(server: &Server, below: &Point, above: &Point) -> Result<Option<Point>> {
    let offloaded = |point: &Point| point.best.as_ref().map(|best| best.offloaded.clone());
    let (Some(before), Some(after)) = (offloaded(below), offloaded(above)) else {
        return Ok(None);
    };
    // Between simulated answers a search would find the noise.
    if before == after || server.bounded() {
        return Ok(None);
    }
    let high = change_between((below.rate, above.rate), |rate| {
        let best = placement::best(&at(server, rate), &server.system)?;
        Ok(best.is_some_and(|best| best.offloaded == before))
    })?;
    if high >= above.rate {
        return Ok(None);
    }
    let mut found = point(server, high)?;
    found.turn = true;
    Ok(Some(found))
}

/// A load at which something does not hold any more that holds at the lower end, and not at the upper one.
fn change_between(
    (mut low, mut high): (f64, f64),
    holds: impl Fn(f64) -> Result<bool>,
) -> Result<f64> {
    while high - low > TURN * high {
        let middle = f64::midpoint(low, high);
        match holds(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(high)
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
        Ok(Some(placement::policy(
            sizes,
            &loads,
            &self.connections()?,
        )?))
    }

    /// Where connections are better off with the engine: at each load, and where that changes.
    fn connections(&self) -> Result<Vec<(f64, Option<bool>)>> {
        let better = |point: &Point| match self.server.bounded() {
            // All or nothing is what was looked for.
            true => point
                .best
                .as_ref()
                .map(|best| best.offloaded.iter().all(|offloaded| *offloaded)),
            false => placement::engine_is_better(point.without.as_ref(), point.with.as_ref()),
        };
        let mut loads: Vec<(f64, Option<bool>)> = Vec::new();
        for point in &self.points {
            let now = better(point);
            if let Some(&(low, before @ Some(_))) = loads.last()
                && before != now
                && !self.server.bounded()
            {
                let at = change_between((low, point.rate), |rate| {
                    let classes = at(&self.server, rate);
                    let answer = |engine| answer(&self.server, &classes, engine);
                    let (without, with) = (answer(false)?, answer(true)?);
                    Ok(placement::engine_is_better(without.as_ref(), with.as_ref()) == before)
                })?;
                loads.push((at, now));
            }
            if loads.last().is_none_or(|(last, _)| *last < point.rate) {
                loads.push((point.rate, now));
            }
        }
        Ok(loads)
    }
}
