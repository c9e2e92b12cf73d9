//! Tables in plain text: names to the left, figures to the right.

use std::fmt;

/// A table with one heading row.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
}

impl Table {
    /// A table with these column headings.
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// Sets a column (the first is 0) to the left: it holds words.
    pub fn left(&mut self, column: usize) {
        self.left.push(column);
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                if column == 0 || self.left.contains(&column) {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("{cell:>width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A figure with as many digits as its size is worth.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value >= 1_000.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, figure};

    #[test]
    fn names_left_figures_right_and_no_blanks_at_the_end() {
        let mut table = Table::new(["case", "kernel", ""]);
        table.row(["close", "31,000"]);
        table.row(["keep-alive", "165,000", "x"]);
        let expected = "case         kernel\nclose        31,000\nkeep-alive  165,000  x\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn figures_are_grouped_and_rounded() {
        assert_eq!(figure(Some(1_234_567.8)), "1,234,568");
        assert_eq!(figure(Some(999.6)), "1000");
        assert_eq!(figure(Some(1.2345)), "1.23");
        assert_eq!(figure(None), "-");
    }
}
