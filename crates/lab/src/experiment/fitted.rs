//! The queueing model of an experiment, fitted at some loads and held against others.

use super::analysis::{Analysis, Interval, Outcome, interval};
use super::declaration::{Experiment, Model, Second, There};
use super::directory::{Directory, Record};
use super::order::{Cell, points};
pub use super::stages::{Fit, Seen, Stages};
use queueing::fit::agreement::{KolmogorovSmirnov, kolmogorov_smirnov};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::collections::BTreeMap;

/// How far a busy share may be off, as a part of what was measured.
pub const UTILISATION_WITHIN: f64 = 0.10;
/// How far a delay may be off.
pub const DELAY_WITHIN: f64 = 0.15;
/// How often the rounds are drawn anew.
const RESAMPLES: usize = 400;
/// Delays so many times as long are what a test of any use must tell apart.
const FAR_OFF: f64 = 1.5;
/// Below this a test says that samples differ.
const SIGNIFICANT: f64 = 0.05;

/// A value of the model beside a measured one, and how far it is off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// What the model says; `None` from saturation on.
    pub model: Option<f64>,
    /// What was measured.
    pub measured: Interval,
    /// (model − measured)/measured, with its 95 % bootstrap interval: rounds drawn anew, fit and
    /// all. `None` if the model says nothing.
    pub error: Option<(f64, f64, f64)>,
}

impl Beside {
    /// Whether it is off by no more than a part, or within the interval of what was measured.
    pub fn holds(&self, within: f64) -> bool {
        let near = self.error.is_some_and(|(error, ..)| error.abs() <= within);
        let inside = |model: f64| (self.measured.low..=self.measured.high).contains(&model);
        // One round has no interval to be in.
        near || (self.measured.rounds > 1 && self.model.is_some_and(inside))
    }
}

/// One load of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The level of the axis of load, by name.
    pub level: String,
    /// Requests a second, the median.
    pub rate: f64,
    /// Whether the model did not see it.
    pub held: bool,
    /// The busy share of the server's core, from 0 to 1.
    pub utilisation: Beside,
    /// That of the engine, where it is a stage of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Beside>,
    /// The mean time of a request, seconds.
    pub delay: Beside,
}

impl Point {
    /// The busy shares: that of the server's core, and that of the engine where it is a stage of its own.
    pub fn shares(&self) -> impl Iterator<Item = &Beside> {
        std::iter::once(&self.utilisation).chain(&self.engine)
    }

    /// Whether the model says all of it.
    pub fn holds(&self) -> bool {
        self.shares().all(|share| share.holds(UTILISATION_WITHIN)) && self.delay.holds(DELAY_WITHIN)
    }
}

/// A subject at one combination of the other axes.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The subject.
    pub subject: String,
    /// The levels of the other axes, as people call them.
    pub others: Vec<String>,
    /// The model.
    pub fit: Stages,
    /// Who has the core of the second stage, too, if anybody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
    /// By ascending load.
    pub points: Vec<Point>,
    /// Modelled and measured delays by Kolmogorov and Smirnov, as 003 tests them.
    pub test: Option<KolmogorovSmirnov>,
    /// Its probability if all of the model's delays were half as long again as they are: a test that
    /// does not tell these apart has no power here.
    pub far_off: Option<f64>,
    /// What the source has of its own model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub there: Option<There>,
}

/// All curves of a run; none, if its experiment has no model or too little was measured.
pub fn curves(directory: &Directory, analysis: &Analysis) -> Vec<Curve> {
    let experiment = &directory.header().experiment;
    let Some(model) = &experiment.model else {
        return Vec::new();
    };
    let Some(at) = experiment
        .axes
        .iter()
        .position(|axis| axis.name == model.axis)
    else {
        return Vec::new();
    };
    let mut groups: BTreeMap<(Vec<usize>, usize), Vec<Cell>> = BTreeMap::new();
    for levels in points(experiment) {
        for subject in 0..experiment.subjects.len() {
            if model.without.contains(&experiment.subjects[subject]) {
                continue;
            }
            let mut others = levels.clone();
            others.remove(at);
            let levels = levels.clone();
            let group = groups.entry((others, subject)).or_default();
            group.push(Cell { levels, subject });
        }
    }
    let found = groups.into_values();
    let found = found.filter_map(|cells| curve(experiment, model, at, directory.records(), &cells));
    let mut curves: Vec<Curve> = found.collect();
    curves.retain(|curve| !curve.points.is_empty());
    // Nothing of it is left where nothing was found.
    if analysis.found.is_empty() {
        curves.clear();
    }
    curves
}

/// What was measured of a cell, round by round; with what the engine did, if `engine` names the measure of that.
fn seen(model: &Model, engine: Option<&str>, records: &[Record], cell: &Cell) -> Vec<Seen> {
    let of = records.iter().filter(|record| record.cell == *cell);
    of.filter_map(|record| {
        let values = &record.sample.as_ref()?.values;
        let seen = Seen {
            rate: *values.get(&model.rate)?,
            busy: values.get(&model.utilisation)? / 100.0,
            engine: match engine {
                Some(engine) => Some(values.get(engine)? / 100.0),
                None => None,
            },
            delay: values.get(&model.delay)? / 1e3,
        };
        (seen.rate > 0.0 && seen.delay > 0.0).then_some(seen)
    })
    .collect()
}

fn curve(
    experiment: &Experiment,
    model: &Model,
    at: usize,
    records: &[Record],
    cells: &[Cell],
) -> Option<Curve> {
    let first = cells.first()?;
    let subject = experiment.subjects.get(first.subject)?;
    let is_such = |second: &&Second| second.subjects.contains(subject);
    let second = model.second.as_ref().filter(is_such);
    let engine = second.map(|second| second.utilisation.as_str());
    let levels: Vec<(&str, bool, Vec<Seen>)> = cells
        .iter()
        .map(|cell| {
            let name = experiment.axes[at].levels[cell.levels[at]].name.as_str();
            let held = model.held.iter().any(|held| held == name);
            (name, held, seen(model, engine, records, cell))
        })
        .filter(|(.., seen)| !seen.is_empty())
        .collect();
    let fit = fit(&levels)?;
    let again = resampled(&levels);
    let points: Vec<Point> = levels
        .iter()
        .enumerate()
        .filter_map(|(index, (name, held, seen))| {
            let of = |of: fn(&Seen) -> f64| interval(&seen.iter().map(of).collect::<Vec<_>>());
            let rate = of(|one| one.rate)?.median;
            let engines: Option<Vec<f64>> = seen.iter().map(|one| one.engine).collect();
            let engine = engines.and_then(|engines| interval(&engines));
            let engine = engine.map(|measured| {
                let both = |fit: &Stages, seen: &Seen| Some((fit.engine(seen.rate)?, seen.engine?));
                beside(measured, &again, index, both).with(fit.engine(rate))
            });
            Some(Point {
                level: (*name).to_owned(),
                rate,
                held: *held,
                utilisation: beside(of(|one| one.busy)?, &again, index, |fit, seen| {
                    Some((fit.busy(seen.rate), seen.busy))
                })
                .with(Some(fit.busy(rate))),
                engine,
                delay: beside(of(|one| one.delay)?, &again, index, |fit, seen| {
                    Some((fit.delay(seen.rate)?, seen.delay))
                })
                .with(fit.delay(rate)),
            })
        })
        .collect();
    let modelled: Option<Vec<f64>> = points.iter().map(|point| point.delay.model).collect();
    let measured: Vec<f64> = points.iter().map(|p| p.delay.measured.median).collect();
    let test = modelled
        .as_ref()
        .and_then(|modelled| kolmogorov_smirnov(modelled, &measured).ok());
    let far_off = modelled.and_then(|modelled| {
        let longer: Vec<f64> = modelled.iter().map(|delay| delay * FAR_OFF).collect();
        kolmogorov_smirnov(&modelled, &longer).ok()?.exact
    });
    let mut there = model.there.iter();
    let there = there
        .find(|there| there.subject == *subject && experiment.are_among(&first.levels, &there.at));
    let mut others = first.levels.clone();
    others.remove(at);
    let axes = experiment
        .axes
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != at);
    Some(Curve {
        subject: subject.clone(),
        shares: second.and_then(|second| second.shares.clone()),
        others: axes
            .zip(others)
            .map(|((_, axis), level)| match &axis.levels[level] {
                level if level.value.is_some() => format!("{} {}", axis.name, level.name),
                level => level.name.clone(),
            })
            .collect(),
        fit,
        points,
        test,
        far_off,
        there: there.cloned(),
    })
}

fn fit(levels: &[(&str, bool, Vec<Seen>)]) -> Option<Stages> {
    let shown = levels.iter().filter(|(_, held, _)| !held);
    // Two loads make a line through anything.
    if shown.clone().count() < 3 {
        return None;
    }
    let all: Vec<Seen> = shown.flat_map(|(.., seen)| seen.iter().copied()).collect();
    Stages::of(&all)
}

/// Fits to rounds drawn anew, each with the median measurement of every level among those drawn.
fn resampled(levels: &[(&str, bool, Vec<Seen>)]) -> Vec<(Stages, Vec<Seen>)> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    (0..RESAMPLES)
        .filter_map(|_| {
            let drawn: Vec<(&str, bool, Vec<Seen>)> = levels
                .iter()
                .map(|(name, held, seen)| {
                    let one = |_: &Seen| seen[random.random_range(0..seen.len())];
                    (*name, *held, seen.iter().map(one).collect())
                })
                .collect();
            let fit = fit(&drawn)?;
            let middle = |seen: &[Seen], of: fn(&Seen) -> f64| {
                let values: Vec<f64> = seen.iter().map(of).collect();
                crate::statistics::median(&values)
            };
            // It is known of all of them, or of none.
            let engine = |seen: &[Seen]| {
                let values: Option<Vec<f64>> = seen.iter().map(|one| one.engine).collect();
                crate::statistics::median(&values?)
            };
            let medians: Option<Vec<Seen>> = drawn
                .iter()
                .map(|(.., seen)| {
                    Some(Seen {
                        rate: middle(seen, |one| one.rate)?,
                        busy: middle(seen, |one| one.busy)?,
                        engine: engine(seen),
                        delay: middle(seen, |one| one.delay)?,
                    })
                })
                .collect();
            Some((fit, medians?))
        })
        .collect()
}

/// The interval of an error, before its value is known.
struct Spread {
    measured: Interval,
    ends: Option<(f64, f64)>,
}

fn beside(
    measured: Interval,
    again: &[(Stages, Vec<Seen>)],
    level: usize,
    of: impl Fn(&Stages, &Seen) -> Option<(f64, f64)>,
) -> Spread {
    let mut errors: Vec<f64> = again
        .iter()
        .filter_map(|(fit, medians)| {
            let (model, measured) = of(fit, medians.get(level)?)?;
            Some((model - measured) / measured)
        })
        .filter(|error| error.is_finite())
        .collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors.get((share * errors.len() as f64) as usize).copied();
    Spread {
        measured,
        ends: at(0.025).zip(at(0.975)),
    }
}

impl Spread {
    fn with(self, model: Option<f64>) -> Beside {
        let Self { measured, ends } = self;
        let error = model.map(|model| (model - measured.median) / measured.median);
        Beside {
            model,
            measured,
            error: error
                .zip(ends)
                .map(|(error, (low, high))| (error, low, high)),
        }
    }
}

impl Curve {
    /// What it is of.
    pub fn name(&self) -> String {
        let mut words = vec![self.subject.as_str()];
        words.extend(self.others.iter().map(String::as_str));
        words.join(", ")
    }

    /// How many of the loads that it did not see hold, of how many: busy shares, of each stage, and delays.
    pub fn held(&self) -> [(usize, usize); 2] {
        let held = || self.points.iter().filter(|point| point.held);
        let busy: Vec<bool> = held()
            .flat_map(Point::shares)
            .map(|share| share.holds(UTILISATION_WITHIN))
            .collect();
        let delays = held().map(|point| point.delay.holds(DELAY_WITHIN));
        [busy, delays.collect()].map(|all: Vec<bool>| {
            let holding = all.iter().filter(|holds| **holds);
            (holding.count(), all.len())
        })
    }

    /// Whether it says what happens at all of these: of busy shares, and of delays. Undecided where there is none, or one
    /// that was measured once.
    pub fn outcomes(&self) -> [Outcome; 2] {
        let mut unseen = self.points.iter().filter(|point| point.held);
        let is_sure = unseen.all(|point| {
            let once = |beside: &Beside| beside.measured.rounds < 2;
            !point.shares().any(once) && !once(&point.delay)
        });
        self.held().map(|(holding, all)| match holding == all {
            _ if all == 0 || !is_sure => Outcome::Undecided,
            true => Outcome::Holds,
            false => Outcome::Fails,
        })
    }

    /// Whether the engine is a stage of its own in it.
    pub fn is_of_two(&self) -> bool {
        matches!(self.fit, Stages::Two(_))
    }

    /// Whether the test could tell delays apart that are half as long again; `None` where there is no
    /// test, because the model is saturated at a load.
    pub fn has_power(&self) -> Option<bool> {
        self.far_off.map(|p| p < SIGNIFICANT)
    }
}
