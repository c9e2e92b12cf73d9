//! Statistics for a few noisy rounds: medians, ratios of paired rounds, and how far to trust them.

/// The median; the mean of the middle two if their number is even. `None` of nothing. What is no number
/// was not measured.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| !value.is_nan())
        .collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A figure with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the 95 % bootstrap interval of the median.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// How often the rounds are drawn anew for an interval.
const RESAMPLES: usize = 2_000;

/// The median of `values` with its 95 % percentile-bootstrap interval. `None` of nothing.
///
/// The draws are the same at every call: the same values give the same interval.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let median_of_all = median(values)?;
    let mut random = SplitMix(0x6f75_7462_6f61_7264);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let drawn: Vec<f64> = values
                .iter()
                .map(|_| values[random.below(values.len())])
                .collect();
            median(&drawn)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    Some(Estimate {
        median: median_of_all,
        low: medians[RESAMPLES * 25 / 1_000],
        high: medians[RESAMPLES * 975 / 1_000 - 1],
    })
}

/// SplitMix64: enough randomness for drawing rounds.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // The bias of the remainder is far below the noise of any round.
        usize::try_from(bits % bound as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{estimate, median};

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_shrinks_to_it_without_noise() {
        let noisy = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(noisy.low < noisy.median && noisy.median < noisy.high);
        let exact = estimate(&[2.0; 5]).unwrap();
        assert_eq!((exact.low, exact.median, exact.high), (2.0, 2.0, 2.0));
    }
}
