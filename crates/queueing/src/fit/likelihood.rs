//! Distributions from samples, by maximum likelihood, and the index of a tail.

use crate::error::{at_least_one, positive};
use crate::{Distribution, ModelError};

fn checked(samples: &[f64], needed: usize, what: &'static str) -> Result<(), ModelError> {
    if samples.len() < needed {
        return Err(ModelError::TooFewSamples {
            what,
            needed,
            given: samples.len(),
        });
    }
    for sample in samples {
        positive("sample", *sample)?;
    }
    Ok(())
}

/// Exponential: the rate is one over the mean.
///
/// # Errors
/// No sample, or one that is not positive.
pub fn exponential(samples: &[f64]) -> Result<Distribution, ModelError> {
    checked(samples, 1, "an exponential distribution")?;
    Distribution::exponential(samples.len() as f64 / samples.iter().sum::<f64>())
}

/// Lognormal: mean and standard deviation of the logarithms.
///
/// # Errors
/// Fewer than two samples, one that is not positive, or samples that are all equal.
pub fn log_normal(samples: &[f64]) -> Result<Distribution, ModelError> {
    checked(samples, 2, "a lognormal distribution")?;
    let count = samples.len() as f64;
    let mu = samples.iter().map(|x| x.ln()).sum::<f64>() / count;
    let variance = samples.iter().map(|x| (x.ln() - mu).powi(2)).sum::<f64>() / count;
    Distribution::log_normal(mu, variance.sqrt())
}

/// Pareto: the scale is the least sample, the tail index its maximum-likelihood estimate n/Σ
/// ln(xᵢ/min).
///
/// # Errors
/// Fewer than two samples, one that is not positive, or samples that are all equal.
pub fn pareto(samples: &[f64]) -> Result<Distribution, ModelError> {
    checked(samples, 2, "a Pareto distribution")?;
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let logs: f64 = samples.iter().map(|x| (x / least).ln()).sum();
    if logs == 0.0 {
        return Err(ModelError::Undetermined {
            what: "the tail index",
            why: "all samples are equal",
        });
    }
    Distribution::pareto(least, samples.len() as f64 / logs)
}

/// Bounded Pareto between the least and the greatest sample: the tail index solves the likelihood
/// equation of the truncated Pareto (Aban, Meerschaert and Panorska 2006), by bisection.
///
/// # Errors
/// Fewer than three samples, one that is not positive, or samples for which no index above zero
/// is likeliest (they are spread more evenly than any Pareto tail).
pub fn bounded_pareto(samples: &[f64]) -> Result<Distribution, ModelError> {
    checked(samples, 3, "a bounded Pareto distribution")?;
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(0.0, f64::max);
    let count = samples.len() as f64;
    let mean_log = samples.iter().map(|x| (x / low).ln()).sum::<f64>() / count;
    let ratio = (high / low).ln();
    // 1/α − ratio/(e^(α·ratio) − 1) falls from ratio/2 at α = 0 to 0; the samples' mean logarithm
    // is where it has to be met.
    if ratio == 0.0 || mean_log >= ratio / 2.0 {
        return Err(ModelError::Undetermined {
            what: "the tail index",
            why: "the samples fall off more slowly than any Pareto tail",
        });
    }
    let expected = |alpha: f64| 1.0 / alpha - ratio / (alpha * ratio).exp_m1();
    let (mut few, mut many) = (1e-9, 1.0);
    while expected(many) > mean_log {
        many *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(few, many);
        if expected(middle) > mean_log {
            few = middle;
        } else {
            many = middle;
        }
    }
    Distribution::bounded_pareto(low, high, many)
}

/// Hill's estimate of the tail index from the `largest` largest samples.
///
/// # Errors
/// Fewer than `largest` + 1 samples, one that is not positive, or a tail of equal samples.
pub fn hill(samples: &[f64], largest: usize) -> Result<f64, ModelError> {
    at_least_one("number of largest samples", largest)?;
    checked(samples, largest + 1, "the tail index")?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let threshold = sorted[largest];
    let logs: f64 = sorted[..largest].iter().map(|x| (x / threshold).ln()).sum();
    if logs == 0.0 {
        return Err(ModelError::Undetermined {
            what: "the tail index",
            why: "the largest samples are all equal",
        });
    }
    Ok(largest as f64 / logs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn draw(distribution: &Distribution) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        (0..50_000).map(|_| distribution.sample(&mut rng)).collect()
    }

    /// The parameters are recovered if both medians and both upper deciles agree.
    fn same(truth: &Distribution, found: &Distribution) {
        for p in [0.1, 0.5, 0.9] {
            let (truth, found) = (truth.quantile(p), found.quantile(p));
            assert!(
                (found / truth - 1.0).abs() < 0.03,
                "at {p}: {found}, not {truth}"
            );
        }
    }

    #[test]
    fn parameters_are_recovered_from_samples() {
        let truth = Distribution::exponential(3.0).unwrap();
        same(&truth, &exponential(&draw(&truth)).unwrap());
        let truth = Distribution::log_normal(-2.0, 1.3).unwrap();
        same(&truth, &log_normal(&draw(&truth)).unwrap());
        let truth = Distribution::pareto(0.5, 1.4).unwrap();
        same(&truth, &pareto(&draw(&truth)).unwrap());
        let truth = Distribution::bounded_pareto(1.0, 500.0, 1.1).unwrap();
        same(&truth, &bounded_pareto(&draw(&truth)).unwrap());
    }

    #[test]
    fn hill_finds_the_index_of_a_tail() {
        let samples = draw(&Distribution::pareto(1.0, 1.2).unwrap());
        assert!((hill(&samples, 5_000).unwrap() - 1.2).abs() < 0.06);
    }

    #[test]
    fn what_determines_nothing_is_refused() {
        assert!(log_normal(&[2.0, 2.0]).is_err());
        assert!(pareto(&[2.0, 2.0]).is_err());
        assert!(bounded_pareto(&[1.0, 2.0, 3.0, 4.0]).is_err());
        assert!(hill(&[1.0, 2.0], 2).is_err());
        assert!(exponential(&[1.0, -1.0]).is_err());
    }
}
