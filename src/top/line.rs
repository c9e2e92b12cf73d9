//! What happened, as a line, for logs and scripts.

use super::sample::Between;
use super::served::Served;
use crate::load::short;
use std::fmt::Write;

/// Lines after which the columns are named again.
const PAGE: u64 = 20;

const COLUMNS: &str = "  conns  accept/s  exch/s  segs/s    in-B/s   out-B/s  again/s   drop/s   wait   \
                       cpu%  first";

/// A line; the columns are named now and then.
pub fn line(between: &Between, served: &[&Served], number: u64) -> String {
    let mut text = String::new();
    if number.is_multiple_of(PAGE) {
        text += COLUMNS;
        text.push('\n');
    }
    let first = served.first().map_or("-", |served| served.name.as_str());
    let _ = writeln!(
        text,
        "{:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8} {:>6} {:>6.0}  {first}",
        between.connections,
        short(between.accepted),
        short(between.exchanges),
        short(between.segments),
        short(between.bytes_in),
        short(between.bytes_out),
        short(between.retransmits),
        short(between.drops),
        between.waiting(),
        between.cpu * 100.0,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::two_seconds;
    use super::super::served::{By, Sort};
    use super::*;

    #[test]
    fn a_line_has_a_word_under_each_column() {
        let between = two_seconds();
        let served = between.served(By::Program, Sort::Bytes, false, "");
        let text = line(&between, &served, 0);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0].len(), lines[1].len(), "{text}");
        assert_eq!(
            lines[1],
            [
                "3", "0", "0", "0", "0", "2000", "0", "2", "10", "50", "nginx"
            ]
        );
        assert_eq!(line(&between, &[], 1).lines().count(), 1);
        assert_eq!(line(&between, &[], PAGE).lines().count(), 2);
    }
}
