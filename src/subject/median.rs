//! The middle of what was measured.

/// The middle of them, which are at least one.
pub fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
