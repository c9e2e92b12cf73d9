//! The queueing model of an experiment, fitted at some loads and held against others.
//!
//! Server and engine share a core, as they do where outboard is installed, so that one queue serves
//! both: a request needs S of the core in all, on the kernel as on the engine. Its busy share is
//! U = U₀ + λE\[S\], and by Pollaczek and Khinchin a request takes T = d + λE\[S²\]/(2(1 − U)), where d
//! is what it takes when nobody else is there: service, the way, and the waking of those who sleep.
//! U₀ and E\[S\] are fitted to the busy share, d and E\[S²\] to the delays, both at the same loads.

use super::analysis::{Analysis, Interval, interval};
use super::declaration::{Experiment, Model};
use super::directory::{Directory, Record};
use super::order::{Cell, points};
use queueing::fit::agreement::{KolmogorovSmirnov, kolmogorov_smirnov};
use queueing::fit::regression::{Load, service_time};
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

/// What a stage does, as far as measurements tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// U₀: the busy share without a request.
    pub background: f64,
    /// E\[S\], seconds.
    pub service: f64,
    /// d: the time of a request when nobody else is there, seconds.
    pub alone: f64,
    /// E\[S²\], seconds squared.
    pub second: f64,
}

/// One measurement: requests a second, busy share, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Requests a second.
    pub rate: f64,
    /// The busy share, from 0 to 1.
    pub busy: f64,
    /// The mean time of a request, seconds.
    pub delay: f64,
}

impl Fit {
    /// Fits; `None` if there are fewer than three measurements, or all of them at one load, or a
    /// request costs nothing.
    pub fn of(seen: &[Seen]) -> Option<Fit> {
        let loads: Vec<Load> = seen
            .iter()
            .map(|one| Load {
                rate: one.rate,
                busy: one.busy,
            })
            .collect();
        let line = service_time(&loads, 0.95).ok()?;
        let (background, service) = (line.background.value, line.service.value);
        if service <= 0.0 {
            return None;
        }
        let mut fit = Fit {
            background,
            service,
            alone: 0.0,
            second: 0.0,
        };
        // Relative errors are to be small, so each has the weight of its delay.
        let rows: Vec<(f64, f64, f64)> = seen
            .iter()
            .filter_map(|one| Some((one.delay.powi(-2), fit.queue(one.rate)?, one.delay)))
            .collect();
        let sum = |of: fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
        let all = sum(|(w, ..)| *w);
        if all <= 0.0 || !all.is_finite() {
            return None;
        }
        let (queue, delay) = (sum(|(w, q, _)| w * q) / all, sum(|(w, _, d)| w * d) / all);
        let spread = sum(|(w, q, _)| w * q * q) / all - queue * queue;
        let together = sum(|(w, q, d)| w * q * d) / all - queue * delay;
        // Neither waits nor times below nothing.
        let second = if spread > 0.0 { together / spread } else { 0.0 };
        fit.second = second.max(0.0);
        fit.alone = (delay - fit.second * queue).max(0.0);
        Some(fit)
    }

    /// The busy share at a load.
    pub fn busy(&self, rate: f64) -> f64 {
        self.background + self.service * rate
    }

    /// λ/(2(1 − U)); `None` from saturation on.
    fn queue(&self, rate: f64) -> Option<f64> {
        let idle = 1.0 - self.busy(rate);
        (idle > 0.0).then(|| rate / (2.0 * idle))
    }

    /// The mean time of a request, seconds; `None` from saturation on.
    pub fn delay(&self, rate: f64) -> Option<f64> {
        Some(self.alone + self.second * self.queue(rate)?)
    }

    /// The load at which the core saturates, requests a second.
    pub fn saturation(&self) -> f64 {
        (1.0 - self.background).max(0.0) / self.service
    }
}

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
    /// The busy share, from 0 to 1.
    pub utilisation: Beside,
    /// The mean time of a request, seconds.
    pub delay: Beside,
}

/// A subject at one combination of the other axes.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The subject.
    pub subject: String,
    /// The levels of the other axes, as people call them.
    pub others: Vec<String>,
    /// The model.
    pub fit: Fit,
    /// By ascending load.
    pub points: Vec<Point>,
    /// Modelled and measured delays by Kolmogorov and Smirnov, as 003 tests them.
    pub test: Option<KolmogorovSmirnov>,
    /// Its probability if all of the model's delays were half as long again as they are: a test that
    /// does not tell these apart has no power here.
    pub far_off: Option<f64>,
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

/// What was measured of a cell, round by round.
fn seen(model: &Model, records: &[Record], cell: &Cell) -> Vec<Seen> {
    let of = records.iter().filter(|record| record.cell == *cell);
    of.filter_map(|record| {
        let values = &record.sample.as_ref()?.values;
        let seen = Seen {
            rate: *values.get(&model.rate)?,
            busy: values.get(&model.utilisation)? / 100.0,
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
    let levels: Vec<(&str, bool, Vec<Seen>)> = cells
        .iter()
        .map(|cell| {
            let name = experiment.axes[at].levels[cell.levels[at]].name.as_str();
            let held = model.held.iter().any(|held| held == name);
            (name, held, seen(model, records, cell))
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
            Some(Point {
                level: (*name).to_owned(),
                rate,
                held: *held,
                utilisation: beside(of(|one| one.busy)?, &again, index, |fit, seen| {
                    Some((fit.busy(seen.rate), seen.busy))
                })
                .with(Some(fit.busy(rate))),
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
    let mut others = first.levels.clone();
    others.remove(at);
    let axes = experiment
        .axes
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != at);
    Some(Curve {
        subject: experiment.subjects.get(first.subject)?.clone(),
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
    })
}

fn fit(levels: &[(&str, bool, Vec<Seen>)]) -> Option<Fit> {
    let shown = levels.iter().filter(|(_, held, _)| !held);
    // Two loads make a line through anything.
    if shown.clone().count() < 3 {
        return None;
    }
    let all: Vec<Seen> = shown.flat_map(|(.., seen)| seen.iter().copied()).collect();
    Fit::of(&all)
}

/// Fits to rounds drawn anew, each with the median measurement of every level among those drawn.
fn resampled(levels: &[(&str, bool, Vec<Seen>)]) -> Vec<(Fit, Vec<Seen>)> {
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
            let medians: Option<Vec<Seen>> = drawn
                .iter()
                .map(|(.., seen)| {
                    Some(Seen {
                        rate: middle(seen, |one| one.rate)?,
                        busy: middle(seen, |one| one.busy)?,
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
    again: &[(Fit, Vec<Seen>)],
    level: usize,
    of: impl Fn(&Fit, &Seen) -> Option<(f64, f64)>,
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

    /// How many of the loads that it did not see hold, of how many: busy share, delay.
    pub fn held(&self) -> [(usize, usize); 2] {
        let held: Vec<&Point> = self.points.iter().filter(|point| point.held).collect();
        let count = |holds: &dyn Fn(&Point) -> bool| {
            (held.iter().filter(|point| holds(point)).count(), held.len())
        };
        [
            count(&|point| point.utilisation.holds(UTILISATION_WITHIN)),
            count(&|point| point.delay.holds(DELAY_WITHIN)),
        ]
    }

    /// Whether the test could tell delays apart that are half as long again; `None` where there is no
    /// test, because the model is saturated at a load.
    pub fn has_power(&self) -> Option<bool> {
        self.far_off.map(|p| p < SIGNIFICANT)
    }

    /// What the model lacks, where it misses; nothing where it does not.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let missed = |point: &&Point| {
            point.held
                && !(point.utilisation.holds(UTILISATION_WITHIN) && point.delay.holds(DELAY_WITHIN))
        };
        if self.points.iter().filter(missed).count() == 0 {
            return lacks;
        }
        let cost = |point: &Point| {
            (point.utilisation.measured.median - self.fit.background.max(0.0)) / point.rate * 1e6
        };
        if let (Some(light), Some(heavy)) = (self.points.first(), self.points.last()) {
            let (light, heavy) = (cost(light), cost(heavy));
            if light > 0.0 && (heavy / light - 1.0).abs() > UTILISATION_WITHIN {
                lacks.push(format!(
                    "{}: a request costs {light:.1} µs of the core at the lightest load and {heavy:.1} \
                     µs at the busiest; the model has one cost at every load{}.",
                    self.name(),
                    if heavy < light {
                        " and knows neither batches nor the waking that they save"
                    } else {
                        " and knows nothing that gets dearer as it fills: caches, more connections at \
                         once"
                    },
                ));
            }
        }
        for point in self.points.iter().filter(missed) {
            match point.delay.error {
                None => lacks.push(format!(
                    "{}: at {:.0} a second the model is saturated and the server was not.",
                    self.name(),
                    point.rate
                )),
                Some((error, ..)) if !point.delay.holds(DELAY_WITHIN) => {
                    let (direction, unknown) = if error > 0.0 {
                        ("less", "programs that are awake already, nor of batches")
                    } else {
                        (
                            "more",
                            "other work on the core, nor of a client that is late",
                        )
                    };
                    lacks.push(format!(
                        "{}: at {:.0} a second requests took {:.0} % {direction} than the model says. It \
                         knows nothing of {unknown}.",
                        self.name(),
                        point.rate,
                        (1.0 / (1.0 + error) - 1.0).abs() * 100.0,
                    ));
                }
                Some(_) => {}
            }
        }
        lacks
    }
}
