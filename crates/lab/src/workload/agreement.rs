//! The one-sample Kolmogorov–Smirnov statistic: how far a sample is from a distribution.

/// The greatest distance between the sample's distribution and `cumulative`. Zero of nothing.
///
/// For a distribution with jumps the test by [`critical`] is on the safe side: it accepts more.
pub fn distance(sample: &[f64], cumulative: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut worst: f64 = 0.0;
    let mut index = 0;
    while index < sorted.len() {
        let value = sorted[index];
        let below = index as f64 / count;
        while index < sorted.len() && sorted[index] <= value {
            index += 1;
        }
        let up_to = index as f64 / count;
        // Just below the value, and at it.
        let just_below = cumulative(value.next_down());
        worst = worst.max((cumulative(value) - up_to).abs());
        worst = worst.max((just_below - below).abs());
    }
    worst
}

/// The distance that a sample of so many values exceeds with probability 1 % if it is of the
/// distribution: 1.63 / √n, for n from about 35 on (Massey 1951).
pub fn critical(count: usize) -> f64 {
    1.63 / (count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{critical, distance};

    #[test]
    fn distances_are_known() {
        let uniform = |x: f64| x.clamp(0.0, 1.0);
        // Four values at the middles of quarters: an eighth from it everywhere.
        let even = [0.125, 0.375, 0.625, 0.875];
        assert!((distance(&even, uniform) - 0.125).abs() < 1e-9);
        assert!((distance(&[0.9, 0.9], uniform) - 0.9).abs() < 1e-9);
        assert_eq!(distance(&[], uniform), 0.0);
        assert!((critical(10_000) - 0.0163).abs() < 1e-12);
    }
}
