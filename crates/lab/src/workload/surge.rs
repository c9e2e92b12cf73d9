//! SURGE (Barford and Crovella, SIGMETRICS 1998): what the requests of many people look like.
//!
//! Tails are cut, because a file of any size fits no disk: files at [`LARGEST`], embedded references
//! at [`MOST_EMBEDDED`], pauses at [`LONGEST_PAUSE`].

use super::distribution::{BelowLogNormal, BoundedPareto};
use rand::Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution, Weibull};

/// Where the body of the sizes ends and the tail begins, in bytes.
pub const TAIL: f64 = 133_000.0;
/// The largest file, in bytes: where the tail is cut.
pub const LARGEST: f64 = 50e6;
/// The part of files that are of the body.
pub const BODY: f64 = 0.93;
/// Where embedded references are cut.
pub const MOST_EMBEDDED: f64 = 150.0;
/// Where pauses are cut, in seconds.
pub const LONGEST_PAUSE: f64 = 3_600.0;

const SIZES_BODY: BelowLogNormal = BelowLogNormal {
    mean: 9.357,
    deviation: 1.318,
    limit: TAIL,
};
const SIZES_TAIL: BoundedPareto = BoundedPareto {
    low: TAIL,
    high: LARGEST,
    shape: 1.1,
};
const REQUESTED: BoundedPareto = BoundedPareto {
    low: 1_000.0,
    high: LARGEST,
    shape: 1.0,
};
const EMBEDDED: BoundedPareto = BoundedPareto {
    low: 1.0,
    high: MOST_EMBEDDED,
    shape: 2.43,
};
const INACTIVE: BoundedPareto = BoundedPareto {
    low: 1.0,
    high: LONGEST_PAUSE,
    shape: 1.5,
};
/// Scale and shape of the pauses within a page, in seconds.
const ACTIVE: (f64, f64) = (1.46, 0.382);

/// Sizes of files, in bytes: a lognormal body and a Pareto tail.
#[derive(Clone, Copy, Debug)]
pub struct Sizes;

impl Sizes {
    /// P(X ≤ x).
    pub fn cumulative(x: f64) -> f64 {
        if x < TAIL {
            BODY * SIZES_BODY.cumulative(x)
        } else {
            BODY + (1.0 - BODY) * SIZES_TAIL.cumulative(x)
        }
    }
}

impl Distribution<f64> for Sizes {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> f64 {
        if random.random_bool(BODY) {
            SIZES_BODY.sample(random)
        } else {
            SIZES_TAIL.sample(random)
        }
    }
}

/// The size of what a request is for, in bytes, popular files counting as often as they are asked
/// for: Pareto.
pub fn requested<R: Rng + ?Sized>(random: &mut R) -> f64 {
    REQUESTED.sample(random)
}

/// P(X ≤ x) of it.
pub fn requested_cumulative(x: f64) -> f64 {
    REQUESTED.cumulative(x)
}

/// What it is below with probability `share`.
pub fn requested_quantile(share: f64) -> f64 {
    REQUESTED.quantile(share)
}

/// How many objects a page has besides itself: Pareto, rounded down.
pub fn embedded<R: Rng + ?Sized>(random: &mut R) -> u32 {
    EMBEDDED.sample(random).floor() as u32
}

/// P(N ≤ n) of them.
pub fn embedded_cumulative(count: f64) -> f64 {
    EMBEDDED.cumulative(count.floor() + 1.0)
}

/// Seconds between two pages of a user: Pareto.
pub fn inactive<R: Rng + ?Sized>(random: &mut R) -> f64 {
    INACTIVE.sample(random)
}

/// P(T ≤ t) of them.
pub fn inactive_cumulative(seconds: f64) -> f64 {
    INACTIVE.cumulative(seconds)
}

/// Seconds between two objects of a page: Weibull.
pub fn active<R: Rng + ?Sized>(random: &mut R) -> f64 {
    let (scale, shape) = ACTIVE;
    Weibull::new(scale, shape).map_or(0.0, |pauses| pauses.sample(random))
}

/// P(T ≤ t) of them.
pub fn active_cumulative(seconds: f64) -> f64 {
    let (scale, shape) = ACTIVE;
    1.0 - (-(seconds.max(0.0) / scale).powf(shape)).exp()
}

/// Which of so many files is asked for: the n-th most popular with probability in proportion to 1/n
/// (Zipf's law with exponent 1).
#[derive(Clone, Debug)]
pub struct Popularity {
    choice: WeightedAliasIndex<f64>,
    weights: Vec<f64>,
}

impl Popularity {
    /// Among `files`, at least one.
    ///
    /// # Errors
    /// There is none, or there are too many to count.
    pub fn of(files: usize) -> anyhow::Result<Self> {
        Self::weighted((1..=files).map(|rank| 1.0 / rank as f64).collect())
    }

    /// Among things that are asked for in proportion to these weights, instead of by Zipf's law.
    ///
    /// # Errors
    /// There is none, a weight is not one, or all are zero.
    pub fn weighted(weights: Vec<f64>) -> anyhow::Result<Self> {
        let choice = WeightedAliasIndex::new(weights.clone())?;
        Ok(Self { choice, weights })
    }

    /// P(R ≤ rank), ranks from 0.
    pub fn cumulative(&self, rank: f64) -> f64 {
        if rank < 0.0 {
            return 0.0;
        }
        let upto = (rank.floor() as usize + 1).min(self.weights.len());
        self.weights[..upto].iter().sum::<f64>() / self.weights.iter().sum::<f64>()
    }
}

impl Distribution<usize> for Popularity {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> usize {
        self.choice.sample(random)
    }
}
