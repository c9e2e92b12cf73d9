//! Means with confidence intervals from dependent observations, and averages over time.

use hdrhistogram::Histogram;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean of all that was observed.
    pub mean: f64,
    /// Half the width of the interval around it.
    pub half_width: f64,
    /// How many were observed.
    pub count: u64,
}

impl Estimate {
    /// What is known when nothing was observed.
    pub(super) const NONE: Estimate = Estimate {
        mean: f64::NAN,
        half_width: f64::INFINITY,
        count: 0,
    };

    /// Whether the interval, made `factor` times as wide, contains `value`.
    pub fn contains(&self, value: f64, factor: f64) -> bool {
        (value - self.mean).abs() <= factor * self.half_width
    }
}

/// Delays below which given shares of the requests stay, seconds, to three digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of them.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
}

/// Delays by how often they were seen.
pub(super) struct Spread {
    seen: Histogram<u64>,
    /// Seconds of one step.
    step: f64,
}

impl Spread {
    /// For delays of any length; what is shorter than a millionth of `gap`, in seconds, is not told
    /// apart.
    pub(super) fn new(gap: f64) -> Self {
        // Three digits are a constant that is right.
        let seen = Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits"));
        Spread {
            seen,
            step: gap / 1e6,
        }
    }

    pub(super) fn add(&mut self, delay: f64) {
        // It grows as it has to; what is beyond 2^63 steps is beyond any plan.
        let _ = self.seen.record((delay / self.step).round() as u64);
    }

    /// `None` when nothing was seen.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let at = |share: f64| self.seen.value_at_quantile(share) as f64 * self.step;
        (!self.seen.is_empty()).then(|| Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
        })
    }
}

/// Batch means: consecutive observations are pooled into few long batches, whose means are nearly
/// independent although the observations are not.
pub(super) struct BatchMeans {
    batch_size: u64,
    confidence: f64,
    sum: f64,
    in_batch: u64,
    means: Vec<f64>,
    count: u64,
    total: f64,
}

impl BatchMeans {
    /// For up to `expected` observations in `batches` batches.
    pub(super) fn new(expected: u64, batches: u64, confidence: f64) -> Self {
        BatchMeans {
            batch_size: (expected / batches).max(1),
            confidence,
            sum: 0.0,
            in_batch: 0,
            means: Vec::with_capacity(batches as usize),
            count: 0,
            total: 0.0,
        }
    }

    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.total += value;
        self.count += 1;
        self.in_batch += 1;
        if self.in_batch == self.batch_size {
            self.means.push(self.sum / self.batch_size as f64);
            self.sum = 0.0;
            self.in_batch = 0;
        }
    }

    /// The mean and its interval; `None` when nothing was observed. With fewer than two full
    /// batches the interval is infinite.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let half_width = half_width(&self.means, self.confidence);
        (self.count > 0).then(|| Estimate {
            mean: self.total / self.count as f64,
            half_width,
            count: self.count,
        })
    }
}

/// The variance of what `first` observed, `second` having observed the squares: to first order, it
/// moves with m₂ − 2·m̄₁·m₁ from batch to batch.
pub(super) fn variance(first: &BatchMeans, second: &BatchMeans) -> Option<Estimate> {
    let (mean, square) = (first.estimate()?, second.estimate()?);
    let moved: Vec<f64> = first
        .means
        .iter()
        .zip(&second.means)
        .map(|(m1, m2)| m2 - 2.0 * mean.mean * m1)
        .collect();
    Some(Estimate {
        mean: (square.mean - mean.mean * mean.mean).max(0.0),
        half_width: half_width(&moved, first.confidence),
        count: mean.count,
    })
}

/// Half the width of the interval around the mean of nearly independent `values`, by Student's t.
fn half_width(values: &[f64], confidence: f64) -> f64 {
    let count = values.len() as f64;
    if values.len() < 2 {
        return f64::INFINITY;
    }
    let centre = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0)
        .map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + confidence / 2.0));
    quantile * (variance / count).sqrt()
}

/// The average over time of a level that changes in steps.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TimeAverage {
    level: f64,
    since: f64,
    area: f64,
    started: f64,
}

impl TimeAverage {
    /// Counts from `now` on; the level stays.
    pub(super) fn start(&mut self, now: f64) {
        self.area = 0.0;
        self.since = now;
        self.started = now;
    }

    pub(super) fn change(&mut self, now: f64, by: f64) {
        self.area += self.level * (now - self.since);
        self.since = now;
        self.level += by;
    }

    pub(super) fn mean(&self, until: f64) -> f64 {
        (self.area + self.level * (until - self.since)) / (until - self.started)
    }
}
