//! What happened, for people: a page on a terminal, a line elsewhere.

use super::sample::Between;
use crate::load::short;
use ::lab::table::Table;
use std::collections::VecDeque;
use std::fmt::Write;

/// Times that the history shows.
const LONG: usize = 60;
/// Lines after which the columns are named again.
const PAGE: u64 = 20;
/// Programs that a page shows.
const PROGRAMS: usize = 20;

/// Bytes a second, some time back.
#[derive(Debug, Default)]
pub struct History(VecDeque<f64>);

impl History {
    /// Adds the latest.
    pub fn add(&mut self, value: f64) {
        if self.0.len() == LONG {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// In blocks of eight heights; the highest is the greatest.
    fn blocks(&self) -> String {
        const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.0.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let block = |value: &f64| BLOCKS[((value / most * 7.0).round() as usize).min(7)];
        self.0.iter().map(block).collect()
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// A page, which takes the place of the last.
pub fn page(between: &Between, history: &History) -> String {
    // To the corner, and nothing of the last page left.
    let mut text = String::from("\x1b[H\x1b[J");
    let worker: Vec<String> = between
        .worker
        .iter()
        .map(|(state, share)| format!("{state} {:.0} %", share * 100.0))
        .collect();
    let _ = write!(
        text,
        "{} connections, {} accepted/s, {} failed/s, {} exchanges/s\n\
         {}B/s in, {}B/s out, {} sent again/s, {} dropped/s\n\
         engine: {:.0} % of a core (worker: {})\n{}  up to {}B/s\n\n",
        between.connections,
        short(between.accepted),
        short(between.failed),
        short(between.exchanges),
        short(between.bytes_in),
        short(between.bytes_out),
        short(between.retransmits),
        short(between.drops),
        between.cpu * 100.0,
        worker.join(", "),
        history.blocks(),
        short(history.most()),
    );
    let mut table = Table::new([
        "Program",
        "PID",
        "Conns",
        "In B/s",
        "Out B/s",
        "Again/s",
        "Listens on",
    ]);
    table.left(0);
    table.left(6);
    for program in between.programs.iter().take(PROGRAMS) {
        let listens: Vec<String> = program.listens.iter().map(ToString::to_string).collect();
        table.row([
            program.name.clone(),
            program
                .pid
                .map_or_else(|| "-".into(), |pid| pid.to_string()),
            program.connections.to_string(),
            short(program.bytes_in),
            short(program.bytes_out),
            short(program.retransmits),
            listens.join(" "),
        ]);
    }
    text += &table.to_string();
    let more = between.programs.len().saturating_sub(PROGRAMS);
    if more > 0 {
        let _ = writeln!(text, "and {more} more (--program NAME, --sort)");
    }
    text
}

const COLUMNS: &str =
    "  conns  accept/s  exch/s    in-B/s   out-B/s  again/s   drop/s   cpu%  busiest program";

/// A line; the columns are named now and then.
pub fn line(between: &Between, number: u64) -> String {
    let mut text = String::new();
    if number.is_multiple_of(PAGE) {
        text += COLUMNS;
        text.push('\n');
    }
    let first = between.programs.first();
    let busiest = first.map_or("-", |program| program.name.as_str());
    let _ = writeln!(
        text,
        "{:>7} {:>9} {:>7} {:>9} {:>9} {:>8} {:>8} {:>6.0}  {busiest}",
        between.connections,
        short(between.accepted),
        short(between.exchanges),
        short(between.bytes_in),
        short(between.bytes_out),
        short(between.retransmits),
        short(between.drops),
        between.cpu * 100.0,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::two_seconds;
    use super::*;

    #[test]
    fn a_line_has_a_word_under_each_column() {
        let mut between = two_seconds();
        between.arrange(super::super::Sort::Bytes, None);
        let text = line(&between, 0);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        // Two words name the last column.
        assert_eq!(lines[0].len(), lines[1].len() + 1, "{text}");
        assert_eq!(
            lines[1],
            ["3", "0", "0", "0", "2000", "0", "2", "50", "nginx"]
        );
        assert_eq!(line(&between, 1).lines().count(), 1);
        assert_eq!(line(&between, PAGE).lines().count(), 2);
    }

    #[test]
    fn a_page_shows_who_and_how_it_was() {
        let mut history = History::default();
        for value in 0..100 {
            history.add(f64::from(value));
        }
        assert_eq!(history.blocks().chars().count(), LONG);
        assert!(history.blocks().ends_with('█') && history.most() == 99.0);
        let text = page(&two_seconds(), &history);
        for part in [
            "3 connections",
            "50 % of a core (worker: busy 50 %)",
            "nginx",
            "curl",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.contains("10.0.0.1:80") && text.starts_with("\x1b[H"),
            "{text}"
        );
        // Nothing has happened: that is a line, too.
        let mut still = History::default();
        still.add(0.0);
        assert_eq!(still.blocks(), "▁");
    }
}
