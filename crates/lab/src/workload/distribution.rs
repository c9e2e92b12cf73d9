//! Distributions that the workloads are made of, each with its cumulative function.

use rand::Rng;
use rand_distr::{Distribution, LogNormal};

/// A Pareto distribution that ends: P(X ≤ x) = (1 − (low/x)^shape) / (1 − (low/high)^shape).
/// Web sizes have a shape below 2, so without an end they would have no second moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedPareto {
    /// The least value, above 0.
    pub low: f64,
    /// The greatest, above `low`.
    pub high: f64,
    /// α, above 0.
    pub shape: f64,
}

impl BoundedPareto {
    /// P(X ≤ x).
    pub fn cumulative(&self, x: f64) -> f64 {
        let x = x.clamp(self.low, self.high);
        (1.0 - (self.low / x).powf(self.shape)) / (1.0 - (self.low / self.high).powf(self.shape))
    }

    /// What X stays below with probability `share`, from 0 to 1.
    pub fn quantile(&self, share: f64) -> f64 {
        let rest = 1.0 - share * (1.0 - (self.low / self.high).powf(self.shape));
        (self.low / rest.powf(1.0 / self.shape)).min(self.high)
    }
}

impl Distribution<f64> for BoundedPareto {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> f64 {
        self.quantile(random.random())
    }
}

/// A lognormal distribution below a limit: of the logarithm, mean and deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BelowLogNormal {
    /// Mean of ln X.
    pub mean: f64,
    /// Standard deviation of ln X, above 0.
    pub deviation: f64,
    /// What X stays below. It should not be far below the median: values above are drawn again.
    pub limit: f64,
}

impl BelowLogNormal {
    /// P(X ≤ x).
    pub fn cumulative(&self, x: f64) -> f64 {
        let whole = |x: f64| {
            let standard = (x.ln() - self.mean) / self.deviation;
            0.5 * statrs::function::erf::erfc(-standard / std::f64::consts::SQRT_2)
        };
        if x <= 0.0 {
            return 0.0;
        }
        (whole(x) / whole(self.limit)).min(1.0)
    }
}

impl Distribution<f64> for BelowLogNormal {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> f64 {
        let Ok(whole) = LogNormal::new(self.mean, self.deviation) else {
            return self.limit;
        };
        loop {
            let value = whole.sample(random);
            if value < self.limit {
                return value;
            }
        }
    }
}
