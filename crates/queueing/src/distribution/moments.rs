//! The first three moments of a service time, and how they combine.

use crate::ModelError;
use crate::error::{non_negative, positive};
use serde::Serialize;

/// The first three raw moments of a non-negative random variable, in seconds and their powers.
///
/// The third is needed for the variance of the wait alone, and a heavy tail may have two moments
/// but not three: then it is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// E\[X\], seconds.
    pub mean: f64,
    /// E\[X²\], seconds squared.
    pub second: f64,
    /// E\[X³\], seconds cubed, where it exists.
    pub third: Option<f64>,
}

/// As much may the mean square of a constant be off, as a share of it.
const ROUNDING: f64 = 1e-9;

impl Moments {
    /// The moments of a variable that is always zero: a stage that does nothing.
    pub const ZERO: Moments = Moments {
        mean: 0.0,
        second: 0.0,
        third: Some(0.0),
    };

    /// Moments from a mean and a squared coefficient of variation, as measurements give them. The
    /// third moment is not determined by the two.
    ///
    /// # Errors
    /// A mean that is not positive, or a negative `scv`.
    pub fn from_mean_and_scv(mean: f64, scv: f64) -> Result<Moments, ModelError> {
        let mean = positive("mean service time", mean)?;
        let scv = non_negative("squared coefficient of variation", scv)?;
        Ok(Moments {
            mean,
            second: mean * mean * (1.0 + scv),
            third: None,
        })
    }

    /// These, unless no random variable has them: E\[X²\] is at least E\[X\]².
    ///
    /// # Errors
    /// [`ModelError::Impossible`].
    pub fn possible(&self) -> Result<&Moments, ModelError> {
        if self.second >= self.mean * self.mean * (1.0 - ROUNDING) {
            Ok(self)
        } else {
            Err(ModelError::Impossible {
                mean: self.mean,
                second: self.second,
            })
        }
    }

    /// Var\[X\], seconds squared.
    pub fn variance(&self) -> f64 {
        (self.second - self.mean * self.mean).max(0.0)
    }

    /// The squared coefficient of variation Var\[X\]/E\[X\]²: 0 for a constant, 1 for the
    /// exponential distribution. Zero for a variable that is always zero.
    pub fn scv(&self) -> f64 {
        if self.mean == 0.0 {
            0.0
        } else {
            self.variance() / (self.mean * self.mean)
        }
    }

    /// The moments of the sum of this and an **independent** variable.
    ///
    /// E\[(X+Y)²\] = E\[X²\] + 2E\[X\]E\[Y\] + E\[Y²\] (003, 3.3), and likewise for the third.
    #[must_use]
    pub fn plus(&self, other: &Moments) -> Moments {
        let third = match (self.third, other.third) {
            (Some(x3), Some(y3)) => {
                Some(x3 + 3.0 * self.second * other.mean + 3.0 * self.mean * other.second + y3)
            }
            _ => None,
        };
        Moments {
            mean: self.mean + other.mean,
            second: self.second + 2.0 * self.mean * other.mean + other.second,
            third,
        }
    }

    /// The moments of this variable times a constant, such as an engine that is `factor` times as
    /// slow.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Moments {
        Moments {
            mean: self.mean * factor,
            second: self.second * factor * factor,
            third: self.third.map(|x3| x3 * factor * factor * factor),
        }
    }

    /// The moments of a mixture: with probability proportional to its weight, one of `parts`.
    ///
    /// # Errors
    /// A weight that is negative or not finite, weights that are all zero, or impossible moments.
    pub fn mixture(parts: &[(f64, Moments)]) -> Result<Moments, ModelError> {
        let mut total = 0.0;
        for (weight, _) in parts {
            total += non_negative("weight", *weight)?;
        }
        let total = positive("sum of weights", total)?;
        let mut mixed = Moments::ZERO;
        for (weight, moments) in parts {
            moments.possible()?;
            let share = weight / total;
            if share == 0.0 {
                continue;
            }
            mixed.mean += share * moments.mean;
            mixed.second += share * moments.second;
            mixed.third = match (mixed.third, moments.third) {
                (Some(sum), Some(x3)) => Some(sum + share * x3),
                _ => None,
            };
        }
        Ok(mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn the_sum_of_two_exponentials_is_erlang_two() {
        let one = Distribution::exponential(4.0).unwrap().moments().unwrap();
        let two = Distribution::erlang(2, 4.0).unwrap().moments().unwrap();
        let sum = one.plus(&one);
        assert!((sum.mean - two.mean).abs() < 1e-15);
        assert!((sum.second - two.second).abs() < 1e-15);
        assert!((sum.third.unwrap() - two.third.unwrap()).abs() < 1e-15);
    }

    #[test]
    fn a_mixture_without_weight_is_refused_and_a_missing_third_moment_stays_missing() {
        assert!(Moments::mixture(&[(0.0, Moments::ZERO)]).is_err());
        let heavy = Moments::from_mean_and_scv(1.0, 3.0).unwrap();
        let mixed = Moments::mixture(&[(1.0, heavy), (1.0, Moments::ZERO)]).unwrap();
        assert_eq!(mixed.third, None);
        assert!((mixed.mean - 0.5).abs() < 1e-15);
    }
}
