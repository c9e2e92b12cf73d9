//! Sums of exponential stages: Erlang, and hypoexponential with rates of their own.

/// E\[Xⁿ\] of a sum of exponentials, from its cumulants κₙ = (n−1)! Σ rᵢ⁻ⁿ. Exact also where rates
/// coincide, where the textbook's partial fractions break down.
pub(super) fn hypoexponential_moment(rates: &[f64], order: u32) -> f64 {
    let cumulant = |n: i32| -> f64 {
        factorial(n as u32 - 1) * rates.iter().map(|rate| rate.powi(-n)).sum::<f64>()
    };
    let (k1, k2, k3) = (cumulant(1), cumulant(2), cumulant(3));
    match order {
        1 => k1,
        2 => k2 + k1 * k1,
        _ => k3 + 3.0 * k2 * k1 + k1 * k1 * k1,
    }
}

/// P(X ≤ x) of an Erlang: 1 − e^(−rx) Σ (rx)ⁱ/i!.
pub(super) fn erlang_cdf(stages: u32, rate: f64, x: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    statrs::function::gamma::gamma_lr(f64::from(stages), rate * x)
}

/// P(X ≤ x) of a sum of exponentials by uniformisation: the chain through the stages is watched at
/// the jumps of a Poisson process of the highest rate, so no difference of rates is ever a divisor.
pub(super) fn hypoexponential_cdf(rates: &[f64], x: f64) -> f64 {
    let top = rates.iter().copied().fold(0.0_f64, f64::max);
    let mean_jumps = top * x;
    // Beyond forty standard deviations the Poisson weights vanish in double precision.
    let jumps = (mean_jumps + 40.0 * mean_jumps.sqrt() + 40.0).ceil() as u64;
    let mut at = vec![0.0; rates.len()];
    at[0] = 1.0;
    let mut done = 0.0;
    let mut log_weight = -mean_jumps;
    let mut probability = 0.0;
    for jump in 0..=jumps {
        probability += log_weight.exp() * done;
        for stage in (0..rates.len()).rev() {
            let leaves = at[stage] * rates[stage] / top;
            at[stage] -= leaves;
            match at.get_mut(stage + 1) {
                Some(next) => *next += leaves,
                None => done += leaves,
            }
        }
        log_weight += mean_jumps.ln() - ((jump + 1) as f64).ln();
    }
    probability.clamp(0.0, 1.0)
}

pub(super) fn factorial(n: u32) -> f64 {
    (1..=n).map(f64::from).product()
}
