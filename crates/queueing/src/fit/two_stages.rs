//! Two stages in a row from measurements: how busy each was, and the time of a request through both.
//!
//! Busy shares are straight lines over the load ([`regression`](super::regression)), which say of each
//! stage its background work and its mean service. What else there is in the time of a request are the
//! waits, and what it takes where nobody else is there. By [`tandem`] with QNA between the stages both
//! waits grow in a straight line with the variabilities of both services, at any load: so these, and the
//! time alone, are found by least squares.

use super::regression::{Load, service_time};
use crate::queue::tandem::{Between, Tandem, tandem};
use crate::{ModelError, Moments};
use serde::Serialize;

/// One measurement of a system of two stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Requests a second.
    pub rate: f64,
    /// The busy share of the first stage, from 0 to 1.
    pub first: f64,
    /// The busy share of the second.
    pub second: f64,
    /// The mean time of a request, seconds.
    pub time: f64,
}

/// A stage, as far as measurements tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stage {
    /// Its busy share without a request. Requests are served by what this leaves.
    pub background: f64,
    /// E\[S\] of a request, seconds.
    pub service: f64,
    /// The squared coefficient of variation of S.
    pub scv: f64,
}

impl Stage {
    fn line(seen: &[Seen], busy: fn(&Seen) -> f64) -> Result<Self, ModelError> {
        let loads = seen.iter().map(|one| Load {
            rate: one.rate,
            busy: busy(one),
        });
        let line = service_time(&loads.collect::<Vec<_>>(), 0.95)?;
        let stage = Self {
            background: line.background.value,
            service: line.service.value,
            scv: 0.0,
        };
        if stage.service <= 0.0 || stage.background >= 1.0 {
            return Err(ModelError::Undetermined {
                what: "the service time of a stage",
                why: "its busy share does not grow with the load",
            });
        }
        Ok(stage)
    }

    /// The busy share at a load.
    pub fn busy(&self, rate: f64) -> f64 {
        self.background + self.service * rate
    }

    /// The mean service time where background work has its share of the stage, too, seconds.
    fn mean(&self) -> f64 {
        self.service / (1.0 - self.background)
    }

    /// The wait of a Poisson stream for services that are all as long; `None` from saturation on.
    fn wait_for_equals(&self, rate: f64) -> Option<f64> {
        let busy = rate * self.mean();
        (busy < 1.0).then(|| busy * self.mean() / (2.0 * (1.0 - busy)))
    }

    fn moments(&self) -> Result<Moments, ModelError> {
        Moments::from_mean_and_scv(self.mean(), self.scv)
    }
}

/// Both stages, and what else a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TwoStages {
    /// The stage that a request comes to first.
    pub first: Stage,
    /// The stage behind it.
    pub second: Stage,
    /// What a request takes when nobody else is there, seconds: both services, as far as it waits for
    /// them, the way, and the waking of those who sleep.
    pub alone: f64,
}

impl TwoStages {
    /// Fits: the time alone is no less than nothing, and no service varies less than not at all. Where
    /// both stages are as busy at every load, delays hardly tell whose the waits are.
    ///
    /// # Errors
    /// Fewer than three measurements, or all at the same load; a stage whose busy share does not grow with
    /// the load; a value outside its domain.
    pub fn of(seen: &[Seen]) -> Result<Self, ModelError> {
        let mut found = Self {
            first: Stage::line(seen, |one| one.first)?,
            second: Stage::line(seen, |one| one.second)?,
            alone: 0.0,
        };
        let rows: Vec<Row> = seen.iter().filter_map(|one| found.row(one)).collect();
        let [alone, first, second] = bounded(&rows).ok_or(ModelError::Undetermined {
            what: "the waits of two stages",
            why: "no measurement is below saturation",
        })?;
        found.alone = alone;
        (found.first.scv, found.second.scv) = (first, second);
        Ok(found)
    }

    /// What a measurement says of the time alone and of both variabilities. Relative errors are to be
    /// small, so each has the weight of its time.
    fn row(&self, seen: &Seen) -> Option<Row> {
        let before = self.first.wait_for_equals(seen.rate)?;
        let behind = self.second.wait_for_equals(seen.rate)?;
        // What leaves the first is 1 − ρ² where its services are all as long, and ρ² more for each
        // squared coefficient of variation.
        let busy = (seen.rate * self.first.mean()).powi(2);
        let least = before + behind * (1.0 - busy);
        let weight = (seen.time > 0.0).then(|| 1.0 / seen.time)?;
        Some(Row {
            of: [1.0, before + behind * busy, behind].map(|one| one * weight),
            is: (seen.time - least) * weight,
        })
    }

    /// Both stages at a load, each by what its background work leaves: waits, and times with services.
    ///
    /// # Errors
    /// A load without a steady state.
    pub fn at(&self, rate: f64) -> Result<Tandem, ModelError> {
        let (first, second) = (self.first.moments()?, self.second.moments()?);
        tandem(rate, &first, false, &second, Between::Qna)
    }

    /// The mean time of a request, seconds; `None` from saturation on.
    pub fn time(&self, rate: f64) -> Option<f64> {
        let both = self.at(rate).ok()?;
        Some(self.alone + both.first.wait + both.second.wait)
    }

    /// The load at which the first of them saturates, requests a second.
    pub fn saturation(&self) -> f64 {
        (1.0 / self.first.mean()).min(1.0 / self.second.mean())
    }
}

/// Of three unknowns so much each is that.
struct Row {
    of: [f64; 3],
    is: f64,
}

/// Least squares of unknowns of which none is below nothing: the best of all choices of those that are
/// nothing.
fn bounded(rows: &[Row]) -> Option<[f64; 3]> {
    let mut best: Option<(f64, [f64; 3])> = None;
    for choice in 0..8_u8 {
        let is_free = [0, 1, 2].map(|index| choice & (1 << index) != 0);
        let Some(found) = solved(rows, is_free) else {
            continue;
        };
        if found.iter().any(|one| *one < 0.0 || !one.is_finite()) {
            continue;
        }
        let missed = |row: &Row| {
            let said = row.of.iter().zip(&found).map(|(of, one)| of * one);
            (said.sum::<f64>() - row.is).powi(2)
        };
        let missed: f64 = rows.iter().map(missed).sum();
        if best.is_none_or(|(least, _)| missed < least) {
            best = Some((missed, found));
        }
    }
    best.filter(|_| !rows.is_empty()).map(|(_, found)| found)
}

/// Unknowns that are not free are nothing. `None` if the others cannot be told apart.
fn solved(rows: &[Row], is_free: [bool; 3]) -> Option<[f64; 3]> {
    // Columns of the same length, so that what is small is small for all.
    let length = |index: usize| {
        let squares = rows.iter().map(|row| row.of[index].powi(2));
        squares.sum::<f64>().sqrt()
    };
    let length = [0, 1, 2].map(length);
    let column = |row: &Row, index: usize| row.of[index] / length[index];
    let mut equations = [[0.0; 4]; 3];
    for (at, equation) in equations.iter_mut().enumerate() {
        if !is_free[at] {
            equation[at] = 1.0;
            continue;
        }
        for other in (0..3).filter(|other| is_free[*other]) {
            let products = rows.iter().map(|row| column(row, at) * column(row, other));
            equation[other] = products.sum();
        }
        equation[3] = rows.iter().map(|row| column(row, at) * row.is).sum();
    }
    let found = eliminated(equations)?;
    Some([0, 1, 2].map(|index| match is_free[index] {
        true => found[index] / length[index],
        false => 0.0,
    }))
}

/// Three equations with three unknowns.
fn eliminated(mut equations: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let size = |row: &usize| equations[*row][at].abs();
        let pivot = (at..3).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        equations.swap(at, pivot);
        let pivot = equations[at];
        if pivot[at].abs() <= SINGULAR || pivot[at].is_nan() {
            return None;
        }
        for (row, equation) in equations.iter_mut().enumerate() {
            if row != at {
                let factor = equation[at] / pivot[at];
                for (cell, above) in equation.iter_mut().zip(pivot) {
                    *cell -= factor * above;
                }
            }
        }
    }
    Some([0, 1, 2].map(|row| equations[row][3] / equations[row][row]))
}

/// What is left of a column of length 1 that the others say already.
const SINGULAR: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: TwoStages = TwoStages {
        first: Stage {
            background: 0.02,
            service: 50e-6,
            scv: 1.5,
        },
        second: Stage {
            background: 0.05,
            service: 30e-6,
            scv: 0.4,
        },
        alone: 140e-6,
    };
    const RATES: [f64; 5] = [2_000.0, 6_000.0, 10_000.0, 14_000.0, 17_000.0];

    fn seen(truth: &TwoStages, rates: &[f64]) -> Vec<Seen> {
        let each = rates.iter().map(|rate| Seen {
            rate: *rate,
            first: truth.first.busy(*rate),
            second: truth.second.busy(*rate),
            time: truth.time(*rate).unwrap(),
        });
        each.collect()
    }

    fn near(found: f64, truth: f64) {
        assert!((found / truth - 1.0).abs() < 1e-6, "{found} {truth}");
    }

    #[test]
    fn what_times_and_shares_are_made_of_is_found() {
        // Of three loads, too.
        for rates in [&RATES[..], &[2_000.0, 10_000.0, 17_000.0]] {
            let found = TwoStages::of(&seen(&TRUTH, rates)).unwrap();
            for (found, truth) in [(found.first, TRUTH.first), (found.second, TRUTH.second)] {
                near(found.background, truth.background);
                near(found.service, truth.service);
                near(found.scv, truth.scv);
            }
            near(found.alone, TRUTH.alone);
            near(found.saturation(), 0.98 / 50e-6);
            near(found.time(15_500.0).unwrap(), TRUTH.time(15_500.0).unwrap());
            assert_eq!(found.time(20_000.0), None, "saturated");
        }
    }

    /// A wait that services cannot be so even for is nobody's.
    #[test]
    fn no_service_varies_less_than_not_at_all() {
        let mut seen = seen(&TRUTH, &RATES);
        for one in &mut seen {
            one.time = 200e-6;
        }
        let found = TwoStages::of(&seen).unwrap();
        assert_eq!((found.first.scv, found.second.scv), (0.0, 0.0));
        assert!(found.alone > 0.0 && found.alone < 200e-6, "{found:?}");
        assert!(found.at(17_000.0).is_ok());
    }

    /// Of two stages that are as busy at every load, nothing says whose the wait is: the sum is right.
    #[test]
    fn stages_that_are_alike_share_their_waits_somehow() {
        let one = Stage {
            background: 0.0,
            service: 40e-6,
            scv: 1.0,
        };
        let alike = TwoStages {
            first: one,
            second: one,
            ..TRUTH
        };
        let found = TwoStages::of(&seen(&alike, &RATES)).unwrap();
        let off = found.time(12_000.0).unwrap() / alike.time(12_000.0).unwrap();
        assert!((off - 1.0).abs() < 1e-3, "{off}");
    }

    #[test]
    fn too_little_determines_nothing() {
        let seen = seen(&TRUTH, &RATES);
        assert!(matches!(
            TwoStages::of(&seen[..2]),
            Err(ModelError::TooFewSamples { .. })
        ));
        let idle: Vec<Seen> = seen
            .iter()
            .map(|one| Seen {
                second: 0.3,
                ..*one
            })
            .collect();
        assert!(matches!(
            TwoStages::of(&idle),
            Err(ModelError::Undetermined { .. })
        ));
        let full: Vec<Seen> = seen
            .iter()
            .map(|one| Seen {
                first: one.first * 2.0,
                ..*one
            })
            .collect();
        // Above saturation the model says nothing of a time; below it, it does.
        assert!(TwoStages::of(&full).is_ok());
        assert!(TwoStages::of(&full[2..]).is_err());
    }
}
