//! The table, and the reasons.

use super::network::Connections;
use super::results::Results;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Why tests fail on the engine, as far as it is known.
const REASONS: &str = include_str!("reasons.toml");

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

/// The page.
pub fn document(rows: &[Row]) -> Result<String> {
    let reasons = reasons()?;
    let mut text = String::from(
        "# Test suites of other projects\n\n\
         Made by `sudo cargo xtask suites --write`, which runs each suite twice in a network of its own: on the\n\
         kernel, and by `outboard run` with `local = true`, since they are both ends of their connections.\n\n\
         - *connections*: those that were opened in the run on the engine, by the engine and by the kernel. The\n  \
         kernel's are mostly refused on purpose, or go to listeners that were there before they could be offloaded;\n  \
         *in the other run* is how many there are without an engine.\n\
         - *pass*: tests that passed on the kernel, and in the run on the engine. Those that skip themselves are not\n  \
         counted.\n\n\
         | suite | connections: engine | kernel | in the other run | pass: kernel | engine |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        text += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            row.name,
            row.here.engine,
            row.here.kernel,
            row.there.kernel,
            Row::passed(&row.kernel),
            Row::passed(&row.engine),
        );
    }
    text += "\n## What passes on the kernel alone\n\n";
    if rows.iter().all(|row| row.worse().is_empty()) {
        text += "Nothing.\n";
    } else {
        text += "| test | why |\n| --- | --- |\n";
    }
    for row in rows {
        for name in row.worse() {
            let why = row.said(&reasons, name).replace('\n', " ");
            text += &format!("| `{name}` | {why} |\n");
        }
    }
    text += "\n## What is not here\n\n\
             Debian's packages of libuv, node, Perl, redis and memcached bring no tests.\n";
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(of: &[(&str, bool)]) -> Results {
        let owned = |(name, passed): &(&str, bool)| ((*name).to_owned(), *passed);
        of.iter().map(owned).collect()
    }

    #[test]
    fn what_fails_here_alone_is_named() {
        let mut row = Row {
            name: "some".into(),
            kernel: results(&[("a", true), ("b", true), ("c", false), ("d", true)]),
            engine: results(&[("a", true), ("b", false), ("c", false)]),
            sometimes: BTreeSet::new(),
            there: Connections::default(),
            here: Connections {
                engine: 7,
                kernel: 1,
            },
        };
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
}
