//! Distributions of service times and object sizes, with exact moments up to the third.
//!
//! Parameters follow the field: rates are per second, `alpha` is the tail index of a Pareto, `mu`
//! and `sigma` of a lognormal are those of the logarithm. A moment that does not exist is refused
//! by name ([`ModelError::NoMoment`]), because web sizes have α < 2 and a formula that quietly
//! needs the second moment is the classic way to a wrong plan.

mod arrivals;
mod empirical;
mod moments;
mod pareto;
mod quantile;
mod stages;

pub use empirical::Empirical;
pub use moments::Moments;

use crate::ModelError;
use crate::error::{at_least_one, non_negative, positive};
use rand::Rng;
use rand_distr::Distribution as _;
use stages::factorial;
use statrs::distribution::ContinuousCDF;
use std::fmt;

/// A distribution of a non-negative quantity. Made by the constructors, which check the
/// parameters; a value of this type is therefore always valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Deterministic { value: f64 },
    Exponential { rate: f64 },
    Hypoexponential { rates: Vec<f64> },
    Erlang { stages: u32, rate: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Pareto { scale: f64, alpha: f64 },
    BoundedPareto { low: f64, high: f64, alpha: f64 },
    Empirical(Empirical),
    Mixture(Vec<(f64, Distribution)>),
    Scaled { factor: f64, of: Box<Distribution> },
    Shifted { by: f64, of: Box<Distribution> },
}

impl Distribution {
    /// Always `value`.
    ///
    /// # Errors
    /// `value` is negative or not finite. Zero is allowed: a stage that does nothing.
    pub fn deterministic(value: f64) -> Result<Self, ModelError> {
        let value = non_negative("value", value)?;
        Ok(Self(Kind::Deterministic { value }))
    }

    /// Exponential with `rate` a second; the mean is 1/rate.
    ///
    /// # Errors
    /// `rate` is not positive.
    pub fn exponential(rate: f64) -> Result<Self, ModelError> {
        let rate = positive("rate", rate)?;
        Ok(Self(Kind::Exponential { rate }))
    }

    /// The sum of independent exponential stages with the given rates (a second).
    ///
    /// # Errors
    /// No stage, or a rate that is not positive.
    pub fn hypoexponential(rates: &[f64]) -> Result<Self, ModelError> {
        at_least_one("number of stages", rates.len())?;
        for rate in rates {
            positive("rate", *rate)?;
        }
        let rates = rates.to_vec();
        Ok(Self(Kind::Hypoexponential { rates }))
    }

    /// The sum of `stages` independent exponential stages, each with `rate` a second; the mean is
    /// stages/rate.
    ///
    /// # Errors
    /// No stage, or a rate that is not positive.
    pub fn erlang(stages: u32, rate: f64) -> Result<Self, ModelError> {
        at_least_one("number of stages", stages as usize)?;
        let rate = positive("rate", rate)?;
        Ok(Self(Kind::Erlang { stages, rate }))
    }

    /// The logarithm is normal with mean `mu` and standard deviation `sigma`.
    ///
    /// # Errors
    /// `mu` is not finite, or `sigma` is not positive.
    pub fn log_normal(mu: f64, sigma: f64) -> Result<Self, ModelError> {
        if !mu.is_finite() {
            return Err(ModelError::OutOfRange {
                what: "mu",
                value: mu,
                low: f64::MIN,
                high: f64::MAX,
            });
        }
        let sigma = positive("sigma", sigma)?;
        Ok(Self(Kind::LogNormal { mu, sigma }))
    }

    /// A lognormal with the given mean and squared coefficient of variation.
    ///
    /// # Errors
    /// Either is not positive.
    pub fn log_normal_from_mean_and_scv(mean: f64, scv: f64) -> Result<Self, ModelError> {
        let mean = positive("mean", mean)?;
        let scv = positive("squared coefficient of variation", scv)?;
        let variance_of_log = scv.ln_1p();
        Self::log_normal(mean.ln() - variance_of_log / 2.0, variance_of_log.sqrt())
    }

    /// Pareto: P(X > x) = (scale/x)^alpha for x ≥ scale.
    ///
    /// # Errors
    /// Either parameter is not positive.
    pub fn pareto(scale: f64, alpha: f64) -> Result<Self, ModelError> {
        let scale = positive("scale", scale)?;
        let alpha = positive("alpha", alpha)?;
        Ok(Self(Kind::Pareto { scale, alpha }))
    }

    /// Pareto with tail index `alpha`, restricted to `low..=high`. The upper bound is part of the
    /// answer to every question about it: state it.
    ///
    /// # Errors
    /// A parameter is not positive, or `high` is not above `low`.
    pub fn bounded_pareto(low: f64, high: f64, alpha: f64) -> Result<Self, ModelError> {
        let low = positive("low", low)?;
        let alpha = positive("alpha", alpha)?;
        if !(high.is_finite() && high > low) {
            return Err(ModelError::OutOfRange {
                what: "high",
                value: high,
                low,
                high: f64::MAX,
            });
        }
        Ok(Self(Kind::BoundedPareto { low, high, alpha }))
    }

    /// Each of `samples` with equal probability.
    ///
    /// # Errors
    /// No samples, or one that is negative or not finite.
    pub fn empirical(samples: &[f64]) -> Result<Self, ModelError> {
        Ok(Self(Kind::Empirical(Empirical::new(samples)?)))
    }

    /// With probability proportional to its weight, one of `parts`.
    ///
    /// # Errors
    /// No parts, a negative weight, or no weight above zero.
    pub fn mixture(parts: Vec<(f64, Distribution)>) -> Result<Self, ModelError> {
        let mut total = 0.0;
        for (weight, _) in &parts {
            total += non_negative("weight", *weight)?;
        }
        let total = positive("sum of weights", total)?;
        let parts = parts
            .into_iter()
            .filter(|(weight, _)| *weight > 0.0)
            .map(|(weight, part)| (weight / total, part))
            .collect();
        Ok(Self(Kind::Mixture(parts)))
    }

    /// This distribution with every value multiplied by `factor`: service times from sizes, or
    /// another unit.
    ///
    /// # Errors
    /// `factor` is not positive.
    pub fn scaled(self, factor: f64) -> Result<Self, ModelError> {
        let factor = positive("factor", factor)?;
        Ok(Self(Kind::Scaled {
            factor,
            of: Box::new(self),
        }))
    }

    /// This distribution with `by` added to every value: what a request costs whatever its size, and
    /// what it costs by its size.
    ///
    /// # Errors
    /// `by` is negative or not finite.
    pub fn shifted(self, by: f64) -> Result<Self, ModelError> {
        let by = non_negative("value", by)?;
        Ok(Self(Kind::Shifted {
            by,
            of: Box::new(self),
        }))
    }

    /// Whether this is known to be exponential, so that what holds for no other distribution
    /// (Burke's theorem) may be used.
    pub fn is_exponential(&self) -> bool {
        match &self.0 {
            Kind::Exponential { .. } => true,
            Kind::Erlang { stages, .. } => *stages == 1,
            Kind::Hypoexponential { rates } => rates.len() == 1,
            Kind::Mixture(parts) => parts.len() == 1 && parts[0].1.is_exponential(),
            Kind::Scaled { of, .. } => of.is_exponential(),
            _ => false,
        }
    }

    /// Whether this is always zero: a stage that does nothing.
    pub fn is_zero(&self) -> bool {
        match &self.0 {
            Kind::Deterministic { value } => *value == 0.0,
            Kind::Scaled { of, .. } => of.is_zero(),
            Kind::Shifted { by, of } => *by == 0.0 && of.is_zero(),
            _ => false,
        }
    }

    /// E\[Xⁿ\] for `order` n from 1 to 3, exact.
    ///
    /// # Errors
    /// The order is outside 1–3, the moment does not exist, or it is greater than a number can be.
    pub fn moment(&self, order: u32) -> Result<f64, ModelError> {
        let moment = self.unbounded_moment(order)?;
        if moment.is_finite() {
            return Ok(moment);
        }
        Err(ModelError::TooGreat {
            distribution: self.to_string(),
            order,
        })
    }

    /// The same; infinite where it is greater than a number can be.
    fn unbounded_moment(&self, order: u32) -> Result<f64, ModelError> {
        if !(1..=3).contains(&order) {
            return Err(ModelError::OutOfRange {
                what: "order of the moment",
                value: f64::from(order),
                low: 1.0,
                high: 3.0,
            });
        }
        let n = f64::from(order);
        let power = order as i32;
        Ok(match &self.0 {
            Kind::Deterministic { value } => value.powi(power),
            Kind::Exponential { rate } => factorial(order) / rate.powi(power),
            Kind::Hypoexponential { rates } => stages::hypoexponential_moment(rates, order),
            Kind::Erlang { stages, rate } => {
                let rising: f64 = (0..order)
                    .map(|i| f64::from(*stages) + f64::from(i))
                    .product();
                rising / rate.powi(power)
            }
            Kind::LogNormal { mu, sigma } => (n * mu + n * n * sigma * sigma / 2.0).exp(),
            Kind::Pareto { scale, alpha } => {
                if *alpha <= n {
                    return Err(ModelError::NoMoment {
                        distribution: self.to_string(),
                        order,
                        needs: format!("alpha > {order}"),
                    });
                }
                alpha * scale.powi(power) / (alpha - n)
            }
            Kind::BoundedPareto { low, high, alpha } => {
                pareto::bounded_moment(*low, *high, *alpha, n)
            }
            Kind::Empirical(samples) => samples.moment(power),
            Kind::Mixture(parts) => {
                let mut sum = 0.0;
                for (share, part) in parts {
                    sum += share * part.moment(order)?;
                }
                sum
            }
            Kind::Scaled { factor, of } => factor.powi(power) * of.moment(order)?,
            Kind::Shifted { by, of } => {
                // (c + X)ⁿ by the binomial formula.
                let mut sum = by.powi(power);
                for taken in 1..=order {
                    let ways = factorial(order) / factorial(taken) / factorial(order - taken);
                    sum += ways * by.powi((order - taken) as i32) * of.moment(taken)?;
                }
                sum
            }
        })
    }

    /// The first three moments. The third is `None` where it does not exist.
    ///
    /// # Errors
    /// The mean or the second moment does not exist.
    pub fn moments(&self) -> Result<Moments, ModelError> {
        Ok(Moments {
            mean: self.moment(1)?,
            second: self.moment(2)?,
            third: self.moment(3).ok(),
        })
    }

    /// P(X ≤ x).
    pub fn cdf(&self, x: f64) -> f64 {
        if x.is_nan() || x < 0.0 {
            return 0.0;
        }
        match &self.0 {
            Kind::Deterministic { value } => f64::from(u8::from(x >= *value)),
            Kind::Exponential { rate } => -(-rate * x).exp_m1(),
            Kind::Hypoexponential { rates } => stages::hypoexponential_cdf(rates, x),
            Kind::Erlang { stages, rate } => stages::erlang_cdf(*stages, *rate, x),
            Kind::LogNormal { mu, sigma } => {
                if x == 0.0 {
                    0.0
                } else {
                    statrs::distribution::Normal::standard().cdf((x.ln() - mu) / sigma)
                }
            }
            Kind::Pareto { scale, alpha } => pareto::cdf(*scale, *alpha, x),
            Kind::BoundedPareto { low, high, alpha } => pareto::bounded_cdf(*low, *high, *alpha, x),
            Kind::Empirical(samples) => samples.cdf(x),
            Kind::Mixture(parts) => parts.iter().map(|(share, part)| share * part.cdf(x)).sum(),
            Kind::Scaled { factor, of } => of.cdf(x / factor),
            Kind::Shifted { by, of } => of.cdf(x - by),
        }
    }

    /// Draws one value.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.0 {
            Kind::Deterministic { value } => *value,
            Kind::Exponential { rate } => exponential_sample(*rate, rng),
            Kind::Hypoexponential { rates } => rates
                .iter()
                .map(|rate| exponential_sample(*rate, rng))
                .sum(),
            Kind::Erlang { stages, rate } => {
                (0..*stages).map(|_| exponential_sample(*rate, rng)).sum()
            }
            Kind::LogNormal { mu, sigma } => {
                let normal: f64 = rand_distr::StandardNormal.sample(rng);
                (mu + sigma * normal).exp()
            }
            Kind::Pareto { scale, alpha } => pareto::sample(*scale, *alpha, rng),
            Kind::BoundedPareto { low, high, alpha } => {
                pareto::bounded_sample(*low, *high, *alpha, rng)
            }
            Kind::Empirical(samples) => samples.sample(rng),
            Kind::Mixture(parts) => {
                let mut left: f64 = rng.random();
                for (share, part) in parts {
                    left -= share;
                    if left < 0.0 {
                        return part.sample(rng);
                    }
                }
                // The shares sum to one up to rounding; what falls beyond belongs to the last.
                parts.last().map_or(0.0, |(_, part)| part.sample(rng))
            }
            Kind::Scaled { factor, of } => factor * of.sample(rng),
            Kind::Shifted { by, of } => by + of.sample(rng),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Deterministic { value } => write!(f, "deterministic({value})"),
            Kind::Exponential { rate } => write!(f, "exponential(rate {rate})"),
            Kind::Hypoexponential { rates } => write!(f, "hypoexponential(rates {rates:?})"),
            Kind::Erlang { stages, rate } => write!(f, "erlang(stages {stages}, rate {rate})"),
            Kind::LogNormal { mu, sigma } => write!(f, "lognormal(mu {mu}, sigma {sigma})"),
            Kind::Pareto { scale, alpha } => write!(f, "pareto(scale {scale}, alpha {alpha})"),
            Kind::BoundedPareto { low, high, alpha } => {
                write!(f, "bounded pareto(low {low}, high {high}, alpha {alpha})")
            }
            Kind::Empirical(samples) => write!(f, "empirical({} samples)", samples.len()),
            Kind::Mixture(parts) => {
                write!(f, "mixture(")?;
                for (i, (share, part)) in parts.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{share:.4} {part}")?;
                }
                write!(f, ")")
            }
            Kind::Scaled { factor, of } => write!(f, "{factor} × {of}"),
            Kind::Shifted { by, of } => write!(f, "{by} + {of}"),
        }
    }
}

fn exponential_sample<R: Rng + ?Sized>(rate: f64, rng: &mut R) -> f64 {
    let unit: f64 = rand_distr::Exp1.sample(rng);
    unit / rate
}

#[cfg(test)]
mod tests;
