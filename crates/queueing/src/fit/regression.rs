//! Service times from the utilisation law: U = U₀ + λ·E\[S\].
//!
//! A processor's busy share grows in a straight line with the arrival rate; the slope is the mean
//! service time, and what is left at no load is background work. Three loads or more are needed,
//! because two points lie on a line whatever they are.

use crate::ModelError;
use crate::error::{non_negative, within};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// One measurement: how busy a stage was at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Load {
    /// Requests served, a second.
    pub rate: f64,
    /// Busy seconds a second: the utilisation, times the cores.
    pub busy: f64,
}

/// A number with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// What the regression found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServiceTime {
    /// E\[S\], seconds a request.
    pub service: Interval,
    /// Busy seconds a second without any request.
    pub background: Interval,
    /// The share of the variance that the line explains, 0 to 1. Below .99 the service time
    /// probably changes with the load, and the model's inputs are wrong for it.
    pub explained: f64,
}

/// Loads that it takes at least.
pub const LEAST_LOADS: usize = 3;

/// Fits the mean service time by least squares, with intervals at `confidence` (such as 0.95).
///
/// # Errors
/// Fewer than [`LEAST_LOADS`] loads, all loads the same, or a value outside its domain.
pub fn service_time(loads: &[Load], confidence: f64) -> Result<ServiceTime, ModelError> {
    within("confidence level", confidence, 0.5, 0.9999)?;
    if loads.len() < LEAST_LOADS {
        return Err(ModelError::TooFewSamples {
            what: "a service time from loads",
            needed: LEAST_LOADS,
            given: loads.len(),
        });
    }
    for load in loads {
        non_negative("arrival rate", load.rate)?;
        non_negative("busy time", load.busy)?;
    }
    let count = loads.len() as f64;
    let mean = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>() / count;
    let (rate, busy) = (mean(|l| l.rate), mean(|l| l.busy));
    let spread: f64 = loads.iter().map(|l| (l.rate - rate).powi(2)).sum();
    if spread <= (rate * 1e-6).powi(2) {
        return Err(ModelError::Undetermined {
            what: "the service time",
            why: "all measurements are at the same load",
        });
    }
    let together: f64 = loads
        .iter()
        .map(|l| (l.rate - rate) * (l.busy - busy))
        .sum();
    let slope = together / spread;
    let start = busy - slope * rate;
    let missed: f64 = loads
        .iter()
        .map(|l| (l.busy - start - slope * l.rate).powi(2))
        .sum();
    let total: f64 = loads.iter().map(|l| (l.busy - busy).powi(2)).sum();
    let variance = missed / (count - 2.0);
    let quantile = StudentsT::new(0.0, 1.0, count - 2.0)
        .map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + confidence / 2.0));
    let interval = |value: f64, error: f64| Interval {
        value,
        low: value - quantile * error,
        high: value + quantile * error,
    };
    Ok(ServiceTime {
        service: interval(slope, (variance / spread).sqrt()),
        background: interval(
            start,
            (variance * (1.0 / count + rate * rate / spread)).sqrt(),
        ),
        explained: if total > 0.0 {
            1.0 - missed / total
        } else {
            1.0
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(points: &[(f64, f64)]) -> Vec<Load> {
        points
            .iter()
            .map(|&(rate, busy)| Load { rate, busy })
            .collect()
    }

    #[test]
    fn a_straight_line_is_found_exactly() {
        let found =
            service_time(&loads(&[(100.0, 0.25), (200.0, 0.45), (400.0, 0.85)]), 0.95).unwrap();
        assert!((found.service.value - 0.002).abs() < 1e-15);
        assert!((found.background.value - 0.05).abs() < 1e-12);
        assert!(found.explained > 0.999_999);
    }

    #[test]
    fn noise_widens_the_interval_which_still_holds_the_truth() {
        let noisy = loads(&[(100.0, 0.21), (200.0, 0.38), (300.0, 0.62), (400.0, 0.79)]);
        let found = service_time(&noisy, 0.95).unwrap();
        assert!(found.service.low < 0.002 && found.service.high > 0.002);
        assert!(found.service.high - found.service.low > 1e-4);
    }

    #[test]
    fn two_loads_or_three_equal_ones_determine_nothing() {
        assert!(matches!(
            service_time(&loads(&[(1.0, 0.1), (2.0, 0.2)]), 0.95),
            Err(ModelError::TooFewSamples {
                needed: 3,
                given: 2,
                ..
            })
        ));
        assert!(matches!(
            service_time(&loads(&[(5.0, 0.1), (5.0, 0.2), (5.0, 0.3)]), 0.95),
            Err(ModelError::Undetermined { .. })
        ));
    }
}
