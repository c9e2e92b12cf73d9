//! Mixes of file sizes: WebStone's, SPECweb99's, and files by class as 003 has them.

use rand::Rng;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedIndex;

/// A mix: sizes in bytes, and how often each is asked for, in parts that add up to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// What it is called.
    pub name: &'static str,
    /// Size, and part of the requests.
    pub sizes: Vec<(u64, f64)>,
}

impl Mix {
    /// WebStone 2.5's standard file list (Trent and Sake 1995, table of its manual).
    pub fn webstone() -> Self {
        Self {
            name: "WebStone",
            sizes: vec![
                (500, 0.35),
                (5_000, 0.50),
                (50_000, 0.14),
                (500_000, 0.009),
                (5_000_000, 0.001),
            ],
        }
    }

    /// SPECweb99's four classes (35, 50, 14 and 1 %), with nine sizes in each, from one to nine times
    /// 102.4 B, 1,024 B, 10,240 B and 102,400 B; inside a class as the benchmark asks for them, by parts that are
    /// published with three digits and add up to 0.999.
    pub fn specweb99() -> Self {
        const CLASSES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
        const INSIDE: [f64; 9] = [
            0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.044,
        ];
        let all: f64 = INSIDE.iter().sum();
        let class = |(number, part): (usize, f64)| {
            let unit = 102.4 * 10_f64.powi(i32::try_from(number).unwrap_or(0));
            INSIDE.iter().enumerate().map(move |(index, inside)| {
                let size = (unit * (index + 1) as f64).floor() as u64;
                (size, part * inside / all)
            })
        };
        Self {
            name: "SPECweb99",
            sizes: CLASSES.into_iter().enumerate().flat_map(class).collect(),
        }
    }

    /// Draws a size.
    pub fn draw<R: Rng + ?Sized>(&self, random: &mut R) -> u64 {
        self.sizes[self.draw_place(random)].0
    }

    /// Draws one, and says which of its sizes it is.
    pub fn draw_place<R: Rng + ?Sized>(&self, random: &mut R) -> usize {
        let parts = WeightedIndex::new(self.sizes.iter().map(|(_, part)| *part));
        parts.map_or(0, |parts| parts.sample(random))
    }

    /// P(X ≤ x).
    pub fn cumulative(&self, x: f64) -> f64 {
        let below = self.sizes.iter().filter(|(size, _)| *size as f64 <= x);
        below.map(|(_, part)| part).sum()
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> f64 {
        let each = self.sizes.iter();
        each.map(|(size, part)| *size as f64 * part).sum()
    }
}

/// The largest sizes of classes 0 to 3 of 003, table 3-3, in bytes (of KB of 1,024).
pub const CLASS_LIMITS: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

/// The class of a file by 003: 0 to 3 by [`CLASS_LIMITS`], 4 above.
pub fn class(size: u64) -> usize {
    let smaller = CLASS_LIMITS.iter().take_while(|limit| size > **limit);
    smaller.count()
}
