//! How well a model agrees with what was measured.
//!
//! The source validates by a Kolmogorov–Smirnov test over a dozen mean values, which is nearly
//! powerless: delays that are 50 % too high still pass. Use [`relative_error`] for means at several
//! loads, and keep [`kolmogorov_smirnov`] for samples of response times.

use super::regression::Interval;
use crate::ModelError;
use crate::error::{non_negative, positive, within};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// The two-sample Kolmogorov–Smirnov test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KolmogorovSmirnov {
    /// D: the greatest distance between the two empirical distributions.
    pub distance: f64,
    /// The probability of a distance at least as large if both samples came from one distribution:
    /// exact, without ties; `None` where the samples are too many for it.
    pub exact: Option<f64>,
    /// The same by the limit for large samples, p = 2Σ(−1)^(j−1) exp(−2j²λ²) at λ = D√(nm/(n+m)).
    pub asymptotic: f64,
}

/// Products of sample sizes up to which the exact probability is computed.
pub const EXACT_UP_TO: usize = 4_000_000;

/// Compares two samples.
///
/// # Errors
/// An empty sample, or a value that is not a number.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Result<KolmogorovSmirnov, ModelError> {
    for sample in [a, b] {
        if sample.is_empty() {
            return Err(ModelError::TooFewSamples {
                what: "a Kolmogorov–Smirnov test",
                needed: 1,
                given: 0,
            });
        }
        if let Some(value) = sample.iter().find(|value| value.is_nan()) {
            return Err(ModelError::Negative {
                what: "sample",
                value: *value,
            });
        }
    }
    let steps = greatest_distance(a, b);
    let (n, m) = (a.len(), b.len());
    let distance = steps as f64 / (n as f64 * m as f64);
    let exact = (n.saturating_mul(m) <= EXACT_UP_TO).then(|| exact_probability(n, m, steps));
    let effective = n as f64 * m as f64 / (n + m) as f64;
    Ok(KolmogorovSmirnov {
        distance,
        exact,
        asymptotic: kolmogorov_survival(distance * effective.sqrt()),
    })
}

/// n·m·D as a whole number, so that comparisons are exact.
fn greatest_distance(a: &[f64], b: &[f64]) -> u64 {
    let sorted = |sample: &[f64]| {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let (n, m) = (a.len() as i64, b.len() as i64);
    let (mut i, mut j, mut greatest) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while i < a.len() && a[i] <= at {
            i += 1;
        }
        while j < b.len() && b[j] <= at {
            j += 1;
        }
        greatest = greatest.max((i as i64 * m - j as i64 * n).abs());
    }
    greatest as u64
}

/// P(n·m·D ≥ `steps`) over all orders of n + m distinct values, by counting lattice paths that stay
/// strictly within the distance (Hodges 1957). Each cell holds the share of the paths to it that
/// stayed within, so nothing overflows.
fn exact_probability(n: usize, m: usize, steps: u64) -> f64 {
    if steps == 0 {
        return 1.0;
    }
    let within = |i: usize, j: usize| ((i * m) as i64 - (j * n) as i64).unsigned_abs() < steps;
    let mut row: Vec<f64> = vec![0.0; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            row[j] = if !within(i, j) {
                0.0
            } else if i == 0 && j == 0 {
                1.0
            } else {
                // Of the paths to (i, j), i/(i+j) came from (i−1, j).
                let total = (i + j) as f64;
                let above = row[j] * i as f64 / total;
                let beside = if j > 0 {
                    row[j - 1] * j as f64 / total
                } else {
                    0.0
                };
                if i == 0 { beside } else { above + beside }
            };
        }
    }
    (1.0 - row[m]).clamp(0.0, 1.0)
}

/// The exact probability that two samples of `n` and `m` distinct values of one distribution are at
/// least `distance` apart. 1 for a distance of nothing, 0 for one above 1 or where a sample is empty.
pub fn exact_survival(n: usize, m: usize, distance: f64) -> f64 {
    if n == 0 || m == 0 || distance > 1.0 {
        return 0.0;
    }
    // The least multiple of 1/nm that is not below it, but for rounding.
    let steps = (distance * n as f64 * m as f64 - 1e-6).ceil().max(0.0);
    exact_probability(n, m, steps as u64)
}

/// Q(λ) of Kolmogorov's distribution, P(√n·D > λ) for large n; below λ = 1.18 by the series that
/// converges there.
pub fn kolmogorov_survival(lambda: f64) -> f64 {
    use std::f64::consts::PI;
    if lambda <= 0.0 {
        return 1.0;
    }
    if lambda < 1.18 {
        let y = (-PI * PI / (8.0 * lambda * lambda)).exp();
        let series = y + y.powi(9) + y.powi(25) + y.powi(49);
        return (1.0 - (2.0 * PI).sqrt() / lambda * series).clamp(0.0, 1.0);
    }
    let x = (-2.0 * lambda * lambda).exp();
    (2.0 * (x - x.powi(4) + x.powi(9))).clamp(0.0, 1.0)
}

/// A model's value beside a measured one, at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// What the model says.
    pub model: f64,
    /// What was measured.
    pub measured: f64,
}

/// Bootstrap samples drawn for the interval.
const RESAMPLES: usize = 10_000;

/// The mean absolute relative error |model − measured|/measured, with a percentile bootstrap
/// interval at `confidence`, reproducible from `seed`.
///
/// # Errors
/// No pair, a measured value that is not positive, or a model's value that is negative.
pub fn relative_error(pairs: &[Pair], confidence: f64, seed: u64) -> Result<Interval, ModelError> {
    within("confidence level", confidence, 0.5, 0.9999)?;
    if pairs.is_empty() {
        return Err(ModelError::TooFewSamples {
            what: "a relative error",
            needed: 1,
            given: 0,
        });
    }
    let mut errors = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let measured = positive("measured value", pair.measured)?;
        let model = non_negative("model's value", pair.model)?;
        errors.push((model - measured).abs() / measured);
    }
    let count = errors.len();
    let mean = |sum: f64| sum / count as f64;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| mean((0..count).map(|_| errors[rng.random_range(0..count)]).sum()))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |p: f64| means[((p * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Ok(Interval {
        value: mean(errors.iter().sum()),
        low: at((1.0 - confidence) / 2.0),
        high: at(f64::midpoint(1.0, confidence)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_separation_of_three_and_three_has_its_known_probability() {
        // 2 of the C(6,3) = 20 orders separate completely.
        let test = kolmogorov_smirnov(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(test.distance, 1.0);
        assert!((test.exact.unwrap() - 0.1).abs() < 1e-15);
    }

    #[test]
    fn a_distance_alone_has_the_probability_of_its_samples() {
        let a: Vec<f64> = (0..12).map(f64::from).collect();
        let b: Vec<f64> = (0..12).map(|i| f64::from(i) + 2.5).collect();
        let test = kolmogorov_smirnov(&a, &b).unwrap();
        assert_eq!(test.distance, 0.25);
        assert_eq!(test.exact, Some(exact_survival(12, 12, 0.25)));
        assert_eq!(exact_survival(12, 12, 0.0), 1.0);
    }

    #[test]
    fn equal_samples_do_not_differ() {
        let test = kolmogorov_smirnov(&[1.0, 2.0], &[1.0, 2.0]).unwrap();
        assert_eq!((test.distance, test.exact), (0.0, Some(1.0)));
    }

    #[test]
    fn the_limit_meets_the_exact_probability_for_large_samples() {
        let a: Vec<f64> = (0..900).map(f64::from).collect();
        let b: Vec<f64> = (0..1_100).map(|i| f64::from(i) * 0.818 + 40.0).collect();
        let test = kolmogorov_smirnov(&a, &b).unwrap();
        assert!(
            (test.exact.unwrap() - test.asymptotic).abs() < 0.02,
            "{test:?}"
        );
    }

    #[test]
    fn both_series_of_kolmogorovs_distribution_meet() {
        let (below, above) = (
            kolmogorov_survival(1.179_999),
            kolmogorov_survival(1.180_001),
        );
        assert!((below - above).abs() < 1e-5);
        assert!((kolmogorov_survival(0.5) - 0.963_945_243_664_875_1).abs() < 1e-12);
    }

    #[test]
    fn a_model_that_is_half_too_high_shows_half() {
        let pairs: Vec<Pair> = (1..=12)
            .map(|i| Pair {
                model: 1.5 * f64::from(i),
                measured: f64::from(i),
            })
            .collect();
        let error = relative_error(&pairs, 0.95, 3).unwrap();
        assert!((error.value - 0.5).abs() < 1e-12);
        assert!((error.low - 0.5).abs() < 1e-9 && (error.high - 0.5).abs() < 1e-9);
        assert!(relative_error(&[], 0.95, 3).is_err());
    }
}
