//! What tells the lines of a plot apart without colours, and the numbers at its axes.

use crate::table;
use plotters::prelude::*;

/// A place in a picture, in pixels.
type Pixels = (i32, i32);

/// Lengths of dashes and of what is between them; no gap: a whole line.
const DASHES: [(u32, u32); 4] = [(1, 0), (10, 5), (4, 4), (2, 6)];
/// Marks that there are.
pub const MARKS: usize = 10;

/// The dashes of the line with a number, and the gaps between them. With as many lines as there are marks, they begin
/// again with other dashes.
pub fn dashes(number: usize) -> (u32, u32) {
    DASHES[(number + number / MARKS) % DASHES.len()]
}

/// The mark with a number, so many pixels to the right: its inside and its edge. Marks are filled and
/// open in turn.
pub fn shape(number: usize, ink: RGBAColor, right: i32) -> (Polygon<Pixels>, PathElement<Pixels>) {
    let corners: &[(i32, i32)] = match number / 2 % (MARKS / 2) {
        0 => &[
            (-2, -4),
            (2, -4),
            (4, -2),
            (4, 2),
            (2, 4),
            (-2, 4),
            (-4, 2),
            (-4, -2),
        ],
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -5), (5, 4), (-5, 4)],
        3 => &[(0, 5), (5, -4), (-5, -4)],
        _ => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
    };
    let mut corners: Vec<Pixels> = corners.iter().map(|(x, y)| (x + right, *y)).collect();
    let fill = if number.is_multiple_of(2) {
        ink
    } else {
        WHITE.mix(1.0)
    };
    let inside = Polygon::new(corners.clone(), fill.filled());
    corners.extend(corners.first().copied());
    (inside, PathElement::new(corners, ink.stroke_width(1)))
}

/// A number at an axis. On a logarithmic scale those stand close that begin with a high digit: some are left out.
pub fn at_axis(value: f64, log: bool) -> String {
    let text = short(value);
    let digits: Vec<char> = text.chars().filter(char::is_ascii_digit).collect();
    let first = digits.iter().find(|digit| **digit != '0');
    if log && first.is_some_and(|first| !matches!(first, '1' | '2' | '5')) {
        return String::new();
    }
    text
}

/// A number, as short as it can be written.
fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return table::figure(Some(value));
    }
    // Without the noise of binary fractions, and without zeros at the end.
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{DASHES, MARKS, at_axis, dashes};

    #[test]
    fn as_many_lines_as_marks_and_dashes_are_told_apart() {
        let count = MARKS * DASHES.len();
        let mut looks: Vec<_> = (0..count)
            .map(|number| (dashes(number), number % MARKS))
            .collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), count);
        // The first ones by their dashes alone.
        let mut first: Vec<_> = (0..DASHES.len()).map(dashes).collect();
        first.dedup();
        assert_eq!(first.len(), DASHES.len());
    }

    #[test]
    fn numbers_that_would_touch_are_left_out_at_a_logarithmic_axis() {
        let shown =
            |log| [0.002, 0.03, 1.0, 5.0, 90.0, 200.0, 700_000.0, 1e6].map(|n| at_axis(n, log));
        let all = [
            "0.002",
            "0.03",
            "1",
            "5",
            "90",
            "200",
            "700,000",
            "1,000,000",
        ];
        assert_eq!(shown(false), all);
        let some = ["0.002", "", "1", "5", "", "200", "", "1,000,000"];
        assert_eq!(shown(true), some);
    }
}
