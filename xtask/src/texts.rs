//! Small rules that no other tool checks.

use crate::sources::{self, Source};
use anyhow::{Result, bail};

/// A rule: what it asks for, and the lines of a file that break it.
struct Rule {
    says: &'static str,
    broken_by: fn(&Source, &str) -> bool,
}

const RULES: &[Rule] = &[
    Rule {
        says: "finish it, or write it into the list of what does not work yet",
        broken_by: |_, line| MARKERS.iter().any(|marker| line.contains(marker)),
    },
    Rule {
        says: "white space at the end of a line",
        broken_by: |source, line| !source.is("snap") && line.ends_with([' ', '\t']),
    },
    Rule {
        says: "eprintln! is swallowed by the test harness: write the line to std::io::stderr()",
        broken_by: |source, line| source.is("rs") && line.contains(SWALLOWED),
    },
];

// Spelled in two parts, so that this file does not break its own rules.
const MARKERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];
const SWALLOWED: &str = concat!("eprintln!(\"", "SKIPPED");

/// Fails if a file breaks a rule, or a package does not take the workspace's lints.
pub fn check() -> Result<String> {
    let sources = sources::all()?;
    let mut wrong = Vec::new();
    for source in &sources {
        for (number, line) in source.text.lines().enumerate() {
            for rule in RULES {
                if (rule.broken_by)(source, line) {
                    wrong.push(format!(
                        "{}:{}: {}",
                        source.path.display(),
                        number + 1,
                        rule.says
                    ));
                }
            }
        }
        let manifest = source.path.ends_with("Cargo.toml") && !source.path.starts_with("fuzz");
        if manifest && !source.text.contains("[lints]\nworkspace = true") {
            wrong.push(format!(
                "{}: does not take the lints of the workspace",
                source.path.display()
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} files, {} rules", sources.len(), RULES.len()))
}
