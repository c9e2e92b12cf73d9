//! How many Poisson arrivals fall into one service: what M/G/1/K needs of a distribution.

use super::{Distribution, Kind};

/// Nodes of the composite Gauss–Legendre rule a panel (8 points, exact to degree 15).
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// Panels over the probability axis: refined towards both ends, where quantiles run away.
const PANELS_AN_END: u32 = 48;

impl Distribution {
    /// Fills `out[n]` with P(n arrivals during one service) at `arrival_rate` a second.
    pub(crate) fn arrivals(&self, arrival_rate: f64, out: &mut [f64]) {
        out.fill(0.0);
        self.add_arrivals(1.0, 1.0, arrival_rate, out);
    }

    /// Adds `share` × P(n arrivals) to `out[n]`, the service being `factor` times this variable.
    fn add_arrivals(&self, share: f64, factor: f64, arrival_rate: f64, out: &mut [f64]) {
        match &self.0 {
            Kind::Deterministic { value } => {
                add_poisson(share, arrival_rate * factor * value, out);
            }
            Kind::Exponential { rate } => {
                add_convolved(share, &[rate / factor], arrival_rate, out);
            }
            Kind::Hypoexponential { rates } => {
                let rates: Vec<f64> = rates.iter().map(|rate| rate / factor).collect();
                add_convolved(share, &rates, arrival_rate, out);
            }
            Kind::Erlang { stages, rate } => {
                add_convolved(
                    share,
                    &vec![rate / factor; *stages as usize],
                    arrival_rate,
                    out,
                );
            }
            Kind::Empirical(samples) => {
                let each = share / samples.len() as f64;
                for sample in samples.sorted() {
                    add_poisson(each, arrival_rate * factor * sample, out);
                }
            }
            Kind::Mixture(parts) => {
                for (weight, part) in parts {
                    part.add_arrivals(share * weight, factor, arrival_rate, out);
                }
            }
            Kind::Scaled { factor: inner, of } => {
                of.add_arrivals(share, factor * inner, arrival_rate, out);
            }
            Kind::Shifted { by, of } => {
                // Those of both parts are independent.
                let mut rest = vec![0.0; out.len()];
                of.add_arrivals(share, factor, arrival_rate, &mut rest);
                let mut constant = vec![0.0; out.len()];
                add_poisson(1.0, arrival_rate * factor * by, &mut constant);
                for (n, slot) in out.iter_mut().enumerate() {
                    let pairs = rest[..=n].iter().zip(constant[..=n].iter().rev());
                    *slot += pairs.map(|(a, b)| a * b).sum::<f64>();
                }
            }
            Kind::LogNormal { .. } | Kind::Pareto { .. } | Kind::BoundedPareto { .. } => {
                over_quantiles(|weight, low, high| {
                    let value = self.quantile_of(low, high);
                    add_poisson(share * weight, arrival_rate * factor * value, out);
                });
            }
        }
    }
}

/// Calls `visit(weight, p, 1 − p)` at the nodes of a rule over p in (0, 1), in panels that halve
/// towards both ends; the last panel of each end holds 2⁻⁴⁸ of the mass.
fn over_quantiles(mut visit: impl FnMut(f64, f64, f64)) {
    let mut panel = |from: f64, to: f64| {
        let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
        for (node, weight) in NODES {
            for at in [middle - half * node, middle + half * node] {
                visit(weight * half, at, 1.0 - at);
                visit(weight * half, 1.0 - at, at);
            }
        }
    };
    let mut to = 0.5;
    for _ in 0..PANELS_AN_END {
        panel(to / 2.0, to);
        to /= 2.0;
    }
    panel(0.0, to);
}

/// Adds `share` × the Poisson probabilities of mean `mean`.
fn add_poisson(share: f64, mean: f64, out: &mut [f64]) {
    if mean == 0.0 {
        out[0] += share;
        return;
    }
    let log_mean = mean.ln();
    let mut log_probability = -mean;
    for (n, slot) in out.iter_mut().enumerate() {
        *slot += share * log_probability.exp();
        log_probability += log_mean - ((n + 1) as f64).ln();
    }
}

/// Adds `share` × the probabilities of arrivals during a sum of exponential stages: a geometric
/// number a stage, convolved.
fn add_convolved(share: f64, rates: &[f64], arrival_rate: f64, out: &mut [f64]) {
    let mut total = vec![0.0; out.len()];
    total[0] = share;
    for rate in rates {
        let more = arrival_rate / (arrival_rate + rate);
        let mut carried = 0.0;
        for slot in &mut total {
            carried = carried * more + *slot;
            *slot = carried * (1.0 - more);
        }
    }
    for (slot, sum) in out.iter_mut().zip(total) {
        *slot += sum;
    }
}
