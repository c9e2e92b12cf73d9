//! What tells the lines of a plot apart without colours, and the numbers at its axes.

use crate::table;
use plotters::prelude::*;

/// A place in a picture, in pixels.
type Pixels = (i32, i32);

/// Lengths of dashes and of what is between them; no gap: a whole line.
const DASHES: [(u32, u32); 4] = [(1, 0), (10, 5), (4, 4), (2, 6)];
/// Marks that there are.
pub const MARKS: usize = 12;

/// The dashes of the line with a number, and the gaps between them. With as many lines as there are marks, they begin
/// again with other dashes.
pub fn dashes(number: usize) -> (u32, u32) {
    DASHES[(number + number / MARKS) % DASHES.len()]
}

/// Pieces of a line in the legend, at most.
const PIECES: usize = 4;

/// The line with these dashes as the legend shows it, so long: its pieces.
pub fn legend_line((dash, gap): (u32, u32), length: i32) -> [Vec<Pixels>; PIECES] {
    std::array::from_fn(|piece| {
        let (from, to) = match gap {
            0 if piece == 0 => (0, length),
            0 => (0, 0),
            _ => {
                let from = piece as i32 * (dash + gap).cast_signed();
                (from, (from + dash.cast_signed()).min(length))
            }
        };
        match from < to {
            true => vec![(from, 0), (to, 0)],
            false => Vec::new(),
        }
    })
}

/// The corners of the mark with a number. Marks are filled and open in turn.
fn corners(number: usize) -> &'static [Pixels] {
    match number / 2 % (MARKS / 2) {
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
        4 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => &[
            (-2, -6),
            (2, -6),
            (2, -2),
            (6, -2),
            (6, 2),
            (2, 2),
            (2, 6),
            (-2, 6),
            (-2, 2),
            (-6, 2),
            (-6, -2),
            (-2, -2),
        ],
    }
}

/// The mark with a number, so many pixels to the right: its inside and its edge.
pub fn shape(number: usize, ink: RGBAColor, right: i32) -> (Polygon<Pixels>, PathElement<Pixels>) {
    let mut corners: Vec<Pixels> = corners(number)
        .iter()
        .map(|(x, y)| (x + right, *y))
        .collect();
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
    use super::{DASHES, MARKS, at_axis, corners, dashes, legend_line};

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
    fn each_mark_looks_otherwise() {
        let look = |number: usize| (corners(number), number % 2);
        let mut looks: Vec<_> = (0..MARKS).map(look).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), MARKS);
    }

    #[test]
    fn a_line_has_its_dashes_in_the_legend() {
        let ends = |dashes| {
            let pieces = legend_line(dashes, 28).into_iter();
            let pieces = pieces.filter_map(|piece| Some((piece.first()?.0, piece.last()?.0)));
            pieces.collect::<Vec<_>>()
        };
        assert_eq!(ends((1, 0)), [(0, 28)]);
        assert_eq!(ends((10, 5)), [(0, 10), (15, 25)]);
        assert_eq!(ends((4, 4)), [(0, 4), (8, 12), (16, 20), (24, 28)]);
        assert_eq!(ends((2, 6)), [(0, 2), (8, 10), (16, 18), (24, 26)]);
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
