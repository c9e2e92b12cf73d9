//! Quantiles: the value below which a given share of the probability lies.

use super::{Distribution, Kind};

/// Steps of the bisection where there is no closed form: enough for full double precision.
const STEPS: u32 = 200;

impl Distribution {
    /// The least x with P(X ≤ x) ≥ `p`. `p` is taken into 0 to 1; at 1 an unbounded distribution
    /// gives infinity.
    pub fn quantile(&self, p: f64) -> f64 {
        let p = p.clamp(0.0, 1.0);
        self.quantile_of(p, 1.0 - p)
    }

    /// The same, given both p and 1 − p, so that neither end loses digits.
    pub(super) fn quantile_of(&self, lower: f64, upper: f64) -> f64 {
        match &self.0 {
            Kind::Deterministic { value } => *value,
            Kind::Exponential { rate } => {
                let log = if lower < 0.5 {
                    (-lower).ln_1p()
                } else {
                    upper.ln()
                };
                -log / rate
            }
            Kind::LogNormal { mu, sigma } => {
                let half = lower.min(upper);
                let z = std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * half);
                let z = if lower < upper { -z } else { z };
                (mu + sigma * z).exp()
            }
            Kind::Pareto { scale, alpha } => scale * upper.powf(-1.0 / alpha),
            Kind::BoundedPareto { low, high, alpha } => {
                let floor = (low / high).powf(*alpha);
                low * (upper + lower * floor).powf(-1.0 / alpha)
            }
            Kind::Empirical(samples) => {
                let sorted = samples.sorted();
                let rank = (lower * sorted.len() as f64).ceil() as usize;
                sorted[rank.saturating_sub(1).min(sorted.len() - 1)]
            }
            Kind::Scaled { factor, of } => factor * of.quantile_of(lower, upper),
            Kind::Shifted { by, of } => by + of.quantile_of(lower, upper),
            Kind::Hypoexponential { .. } | Kind::Erlang { .. } | Kind::Mixture(_) => {
                self.bisect(lower)
            }
        }
    }

    fn bisect(&self, p: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        while self.cdf(high) < p {
            low = high;
            high *= 2.0;
            if high == f64::INFINITY {
                return high;
            }
        }
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            if self.cdf(middle) < p {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}
