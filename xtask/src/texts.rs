//! Small rules that no other tool checks.

use crate::sources::{self, Source};
use anyhow::{Result, bail};
use std::path::Path;

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
        says: "a log says what people read: write the field as %name, or as a number, not in Rust's debug form",
        broken_by: |source, line| {
            source.is("rs") && is_logged(&source.path) && has_debug_field(line)
        },
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

/// Whether a file is of what users run, and so of what logs.
fn is_logged(path: &Path) -> bool {
    let tools = ["differ", "lab", "scripts", "sim"].map(|tool| Path::new("crates").join(tool));
    let is_source = path.components().any(|part| part.as_os_str() == "src");
    is_source && !path.starts_with("xtask") && !tools.iter().any(|tool| path.starts_with(tool))
}

/// Whether a line of code has a field such as `?name`, which nothing but the macros of the log knows.
fn has_debug_field(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    let after = code.match_indices(" ?").chain(code.match_indices("(?"));
    after.into_iter().any(|(at, mark)| {
        let name = &code[at + mark.len()..];
        name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_forms_are_found_in_what_logs() {
        for field in [
            "tracing::info!(?signal, \"x\");",
            "    pid, ?names,",
            "tracing::warn!(a, ?b)",
        ] {
            assert!(has_debug_field(field), "{field}");
        }
        for other in [
            "let x = read()?;",
            "T: ?Sized",
            "// is it ?so",
            "    .ok()? + 1",
        ] {
            assert!(!has_debug_field(other), "{other}");
        }
        assert!(is_logged(Path::new("src/engine.rs")));
        assert!(is_logged(Path::new("crates/engine/src/fast/worker.rs")));
        assert!(!is_logged(Path::new("crates/sim/src/link.rs")));
        assert!(!is_logged(Path::new("crates/engine/tests/it/forks.rs")));
    }
}
