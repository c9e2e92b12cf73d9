//! Pareto and bounded Pareto: the tail of web object sizes.

use rand::Rng;

/// P(X ≤ x) of a Pareto.
pub(super) fn cdf(scale: f64, alpha: f64, x: f64) -> f64 {
    if x <= scale {
        0.0
    } else {
        1.0 - (scale / x).powf(alpha)
    }
}

/// One value of a Pareto, by inversion.
pub(super) fn sample<R: Rng + ?Sized>(scale: f64, alpha: f64, rng: &mut R) -> f64 {
    let survival = 1.0 - rng.random::<f64>();
    scale * survival.powf(-1.0 / alpha)
}

/// E\[Xⁿ\] of a bounded Pareto: c(Hᵈ − Lᵈ)/d with d = n − α and c = αLᵅ/(1 − (L/H)ᵅ), and
/// c·ln(H/L) where n = α.
///
/// Written with L taken out, Lⁿ·α/(1−q)·((H/L)ᵈ − 1)/d, so that neither Lᵅ nor Hᵈ overflows and the
/// case n ≈ α needs no threshold: (rᵈ − 1)/d = ln r · expm1(y)/y at y = d·ln r.
pub(super) fn bounded_moment(low: f64, high: f64, alpha: f64, n: f64) -> f64 {
    let log_ratio = (high / low).ln();
    let mass = -(-alpha * log_ratio).exp_m1();
    let y = (n - alpha) * log_ratio;
    let growth = if y == 0.0 { 1.0 } else { y.exp_m1() / y };
    low.powf(n) * alpha / mass * log_ratio * growth
}

/// P(X ≤ x) of a bounded Pareto.
pub(super) fn bounded_cdf(low: f64, high: f64, alpha: f64, x: f64) -> f64 {
    if x <= low {
        0.0
    } else if x >= high {
        1.0
    } else {
        let mass = |ratio: f64| -(-alpha * ratio.ln()).exp_m1();
        mass(x / low) / mass(high / low)
    }
}

/// One value of a bounded Pareto, by inversion.
pub(super) fn bounded_sample<R: Rng + ?Sized>(low: f64, high: f64, alpha: f64, rng: &mut R) -> f64 {
    let mass = -(-alpha * (high / low).ln()).exp_m1();
    let survival = 1.0 - rng.random::<f64>() * mass;
    (low * survival.powf(-1.0 / alpha)).min(high)
}
