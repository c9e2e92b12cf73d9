//! The table, and the reasons.

use super::network::Connections;
use super::results::Results;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Why tests fail on the engine, as far as it is known.
const REASONS: &str = include_str!("reasons.toml");

/// Begins the page.
const ABOUT: &str = include_str!("about.md");
/// Ends it: what the suites are.
const WHAT: &str = include_str!("what.md");

/// The columns of the table of suites.
const SUITES: &[&str] = &[
    "suite",
    "connections: engine",
    "kernel",
    "in the other run",
    "pass: kernel",
    "engine",
];
/// And those of the table of tests that pass on the kernel alone.
const WORSE: &[&str] = &["suite", "test", "why"];

/// A suite on either side.
pub struct Row {
    pub name: String,
    pub kernel: Results,
    pub engine: Results,
    /// Of those that failed on the engine alone, those that passed when they were run again.
    pub sometimes: BTreeSet<String>,
    /// What it connected in the run on the kernel.
    pub there: Connections,
    /// What it connected in the run on the engine.
    pub here: Connections,
}

#[derive(Deserialize)]
struct Reasons {
    reason: Vec<Reason>,
}

/// Why some tests fail.
#[derive(Deserialize)]
struct Reason {
    /// Names of tests; a star at either end stands for any rest.
    tests: Vec<String>,
    why: String,
}

impl Row {
    fn passed(results: &Results) -> usize {
        results.values().filter(|passed| **passed).count()
    }

    /// Tests that pass on the kernel and not on the engine.
    fn worse(&self) -> Vec<&str> {
        let passes = |results: &Results, name: &str| results.get(name) == Some(&true);
        let here = |name: &&String| passes(&self.kernel, name) && !passes(&self.engine, name);
        let names = self.kernel.keys().filter(here);
        names.map(String::as_str).collect()
    }
}

impl Row {
    /// Its line in the table of suites.
    fn in_table(&self) -> String {
        format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            self.name,
            self.here.engine,
            self.here.kernel,
            self.there.kernel,
            Self::passed(&self.kernel),
            Self::passed(&self.engine),
        )
    }

    /// Whether a test fails on the engine that has no reason for it, as far as is known.
    pub fn has_unknown(&self) -> Result<bool> {
        let reasons = reasons()?;
        let unknown =
            |name: &&str| why(&reasons, name).is_none() && !self.sometimes.contains(*name);
        Ok(self.worse().iter().any(unknown))
    }

    /// Takes another run on the engine into account.
    pub fn again(&mut self, engine: &Results) {
        let passes = |name: &&str| engine.get(*name) == Some(&true);
        let names: Vec<String> = self
            .worse()
            .into_iter()
            .filter(passes)
            .map(str::to_owned)
            .collect();
        self.sometimes.extend(names);
    }

    /// What is said of a test that fails.
    fn said<'a>(&self, reasons: &'a [Reason], name: &str) -> &'a str {
        match why(reasons, name) {
            Some(why) => why,
            None if self.sometimes.contains(name) => "Not each time; not known why",
            None => "Not known yet",
        }
    }
}

fn reasons() -> Result<Vec<Reason>> {
    let reasons: Reasons = toml::from_str(REASONS).context("reasons.toml")?;
    Ok(reasons.reason)
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

fn why<'a>(reasons: &'a [Reason], name: &str) -> Option<&'a str> {
    let of = |reason: &&Reason| reason.tests.iter().any(|pattern| matches(pattern, name));
    reasons.iter().find(of).map(|reason| reason.why.trim())
}

/// Tests that fail without a reason.
pub fn unexplained(rows: &[Row]) -> Result<Vec<&str>> {
    let reasons = reasons()?;
    let names = rows
        .iter()
        .flat_map(|row| row.worse().into_iter().map(move |name| (row, name)));
    let unexplained =
        names.filter(|(row, name)| why(&reasons, name).is_none() && !row.sometimes.contains(*name));
    Ok(unexplained.map(|(_, name)| name).collect())
}

/// A suite in a line.
pub fn line(row: &Row) -> String {
    let mut text = format!(
        "{}: {} pass on the kernel, {} on the engine; {} connections of the engine, {} of the kernel",
        row.name,
        Row::passed(&row.kernel),
        Row::passed(&row.engine),
        row.here.engine,
        row.here.kernel,
    );
    for name in row.worse() {
        let sometimes = row.sometimes.contains(name);
        let when = if sometimes { ", not each time" } else { "" };
        text += &format!("\n  fails on the engine{when}: {name}");
    }
    text
}

/// The page, with `rows`. Those of the other suites among `names` are kept as they are in `old`.
pub fn document(names: &[&str], rows: &[Row], old: &str) -> Result<String> {
    let reasons = reasons()?;
    let mut suites = String::new();
    let mut worse = String::new();
    for name in names {
        if let Some(row) = rows.iter().find(|row| row.name == *name) {
            suites += &row.in_table();
            for test in row.worse() {
                let why = row.said(&reasons, test).replace('\n', " ");
                worse += &format!("| {name} | `{test}` | {why} |\n");
            }
        } else {
            suites.extend(kept(old, name, SUITES));
            worse.extend(kept(old, name, WORSE));
        }
    }
    if worse.is_empty() {
        worse = "Nothing.\n".into();
    } else {
        worse.insert_str(0, &head(WORSE));
    }
    let suites = head(SUITES) + &suites;
    Ok(format!(
        "{ABOUT}{suites}\n## What passes on the kernel alone\n\n{worse}{WHAT}"
    ))
}

/// The first lines of a table.
fn head(columns: &[&str]) -> String {
    let rule = vec!["---"; columns.len()];
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    line(columns) + &line(&rule)
}

/// The lines about the suite `name` in that table of `old` that has these columns.
fn kept<'a>(old: &'a str, name: &str, columns: &[&str]) -> impl Iterator<Item = &'a str> {
    let start = format!("| {name} | ");
    let head = head(columns);
    let table = old.split_once(&head).map_or("", |(_, rest)| rest);
    let lines = table.split_inclusive('\n');
    lines
        .take_while(|line| line.starts_with('|'))
        .filter(move |line| line.starts_with(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(of: &[(&str, bool)]) -> Results {
        let owned = |(name, passed): &(&str, bool)| ((*name).to_owned(), *passed);
        of.iter().map(owned).collect()
    }

    fn row() -> Row {
        Row {
            name: "some".into(),
            kernel: results(&[("a", true), ("b", true), ("c", false), ("d", true)]),
            engine: results(&[("a", true), ("b", false), ("c", false)]),
            sometimes: BTreeSet::new(),
            there: Connections::default(),
            here: Connections {
                engine: 7,
                kernel: 1,
            },
        }
    }

    #[test]
    fn what_fails_here_alone_is_named() {
        let mut row = row();
        assert_eq!(row.worse(), ["b", "d"]);
        assert!(row.has_unknown().unwrap());
        row.again(&results(&[("b", true)]));
        assert_eq!(unexplained(&[row]).unwrap(), ["d"]);
    }

    #[test]
    fn stars_stand_for_any_rest() {
        for (pattern, name, matched) in [
            ("*oob*", "a.oob.b", true),
            ("a.*", "a.b", true),
            ("*.b", "a.b", true),
            ("a", "a.b", false),
        ] {
            assert_eq!(matches(pattern, name), matched, "{pattern} {name}");
        }
    }

    #[test]
    fn suites_that_did_not_run_stay_in_the_table() {
        let mut other = row();
        other.name = "other".into();
        let names = ["some", "other"];
        let old = document(&names, &[row(), other], "").unwrap();
        let mut better = row();
        better.engine = better.kernel.clone();
        better.here.engine = 8;
        let new = document(&names, &[better], &old).unwrap();
        let lines: Vec<&str> = new.lines().filter(|line| line.starts_with("| ")).collect();
        let lines: Vec<&str> = lines
            .into_iter()
            .filter(|line| !line.contains("---"))
            .collect();
        let expected = [
            "| suite | connections: engine | kernel | in the other run | pass: kernel | engine |",
            "| some | 8 | 1 | 0 | 3 | 3 |",
            "| other | 7 | 1 | 0 | 3 | 1 |",
            "| suite | test | why |",
            "| other | `b` | Not known yet |",
            "| other | `d` | Not known yet |",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn where_all_is_well_there_is_no_second_table() {
        let mut row = row();
        row.engine = row.kernel.clone();
        let page = document(&["some"], &[row], "").unwrap();
        assert!(page.contains("kernel alone\n\nNothing.\n\n## What is run"));
    }
}
