//! A distribution given by samples.

use crate::ModelError;
use crate::error::{at_least_one, non_negative};
use rand::Rng;

/// Samples, each with equal probability, kept in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    sorted: Vec<f64>,
}

impl Empirical {
    /// Takes the samples.
    ///
    /// # Errors
    /// None at all, or one that is negative or not finite.
    pub fn new(samples: &[f64]) -> Result<Self, ModelError> {
        at_least_one("number of samples", samples.len())?;
        for sample in samples {
            non_negative("sample", *sample)?;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// How many samples there are; never zero.
    #[expect(clippy::len_without_is_empty, reason = "there is always a sample")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The samples in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    pub(super) fn moment(&self, power: i32) -> f64 {
        self.sorted.iter().map(|x| x.powi(power)).sum::<f64>() / self.sorted.len() as f64
    }

    /// P(X ≤ x): the share of the samples that are not above `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        self.sorted.partition_point(|sample| *sample <= x) as f64 / self.sorted.len() as f64
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.sorted[rng.random_range(0..self.sorted.len())]
    }
}
