//! redis's tests, against the redis that is installed.

use super::printed::Ran;
use super::suite::{Suite, Tests};
use crate::others::results::Results;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SUITE: Suite = Suite {
    name: "redis",
    source: "redis",
    needs: &[
        ("/usr/bin/redis-server", "redis-server"),
        ("/usr/bin/redis-cli", "redis-tools"),
        ("/usr/bin/tclsh", "tcl"),
        ("/usr/bin/dpkg-source", "dpkg-dev"),
    ],
    prepare,
    each: Duration::from_secs(300),
    all: Duration::from_secs(1800),
    read,
};

/// Those units that are about connections, and what is said over them.
const UNITS: &[&str] = &[
    "unit/auth",
    "unit/protocol",
    "unit/quit",
    "unit/multi",
    "unit/pubsub",
    "unit/querybuf",
    "unit/pendingquerybuf",
    "unit/networking",
    "unit/introspection",
    "unit/limits",
    "unit/obuf-limits",
    "unit/replybufsize",
    "unit/client-eviction",
    "unit/tracking",
    "unit/pause",
    "unit/wait",
    "unit/shutdown",
    "unit/cluster/links",
    "integration/block-repl",
    "integration/replication-2",
    "integration/redis-cli",
    "integration/redis-benchmark",
];

/// What the tests start, where they expect to have built it.
const PROGRAMS: &[&str] = &[
    "redis-server",
    "redis-cli",
    "redis-benchmark",
    "redis-check-aof",
];

fn prepare(source: &Path) -> Result<Tests> {
    for program in PROGRAMS {
        let place = source.join("src").join(program);
        let _ = std::fs::remove_file(&place);
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(program), &place)
            .with_context(|| place.display().to_string())?;
    }
    let mut command = Command::new("/usr/bin/tclsh");
    command.current_dir(source).args([
        "tests/test_helper.tcl",
        // A mistake of a test ends it alone, not all behind it.
        "--durable",
        "--clients",
        "1",
        "--single",
    ]);
    Ok(Tests {
        command,
        list: UNITS.iter().map(|&unit| unit.to_owned()).collect(),
    })
}

/// A unit says of each of its tests how it went: `[ok]: NAME (3 ms)` or `[err]: NAME in FILE`, in colours.
fn read(ran: &Ran<'_>) -> Results {
    let mut results = Results::new();
    for line in ran.text.lines() {
        let line = without_colours(line);
        let (name, passed) = if let Some(rest) = line.strip_prefix("[ok]: ") {
            (rest.rsplit_once(" (").map_or(rest, |(name, _)| name), true)
        } else if let Some(rest) = line.strip_prefix("[err]: ") {
            (
                rest.rsplit_once(" in ").map_or(rest, |(name, _)| name),
                false,
            )
        } else {
            continue;
        };
        // Some names stand for several tests.
        *results
            .entry(format!("{}: {name}", ran.name))
            .or_insert(true) &= passed;
    }
    results.insert(format!("{} to its end", ran.name), ran.status == Some(0));
    results
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.split_once('m').map_or(part, |(_, rest)| rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_its_result() {
        let text = "[\u{1b}[0;32mok\u{1b}[0m]: AUTH works (again) (2 ms)\n\
            [err]: twice in tests/unit/auth.tcl\nExpected 1\n[ok]: twice (1 ms)\n\
            [ignore]: other: large memory\n";
        let ran = Ran {
            name: "unit/auth",
            status: Some(1),
            text,
        };
        let expected = [
            ("unit/auth to its end", false),
            ("unit/auth: AUTH works (again)", true),
            ("unit/auth: twice", false),
        ];
        let expected = expected.map(|(name, passed)| (name.to_owned(), passed));
        assert_eq!(read(&ran), Results::from(expected));
    }
}
