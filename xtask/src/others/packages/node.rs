//! node's tests of its net and http modules, by the node that is installed. It may be another version than
//! the source: what a test finds different for that reason, it finds on the kernel as well.

use super::printed;
use super::suite::{Suite, Tests};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SUITE: Suite = Suite {
    name: "node",
    source: "nodejs",
    needs: &[
        ("/usr/bin/node", "nodejs"),
        ("/usr/bin/dpkg-source", "dpkg-dev"),
    ],
    prepare,
    each: Duration::from_secs(20),
    all: Duration::from_secs(2400),
    read: printed::by_status,
};

/// How the names of these tests begin.
const STARTS: &[&str] = &["test-net-", "test-http-"];

fn prepare(source: &Path) -> Result<Tests> {
    let mut list = Vec::new();
    for directory in ["test/parallel", "test/sequential"] {
        for entry in std::fs::read_dir(source.join(directory))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if STARTS.iter().any(|start| name.starts_with(start)) && name.ends_with(".js") {
                let text = std::fs::read_to_string(source.join(directory).join(&name))?;
                list.push((format!("{directory}/{name}"), flags(&text).to_owned()));
            }
        }
    }
    list.sort();
    let list = list.into_iter();
    let mut command = Command::new("/usr/bin/node");
    command.current_dir(source);
    Ok(Tests {
        command,
        list: list
            .map(|(name, flags)| format!("{flags} {name}").trim_start().to_owned())
            .collect(),
    })
}

/// What a test wants node to be started with: it says so in a comment.
fn flags(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("// Flags:"));
    line.unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_flags_that_it_asks_for() {
        let text = "// Copyright\n\n// Flags: --expose-gc --no-warnings\n'use strict';\n";
        assert_eq!(flags(text), "--expose-gc --no-warnings");
        assert_eq!(flags("'use strict';\n"), "");
    }
}
