//! What is logged: in words, and at the levels that docs/metrics.md promises of each part.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LEVELS: [&str; 3] = ["warn", "info", "debug"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources of a crate, with the modules that they are.
fn modules(source: &Path, name: &str) -> Vec<(String, String)> {
    let mut modules = Vec::new();
    let mut directories = vec![source.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let inside = path
                .strip_prefix(source)
                .expect("below it")
                .with_extension("");
            let mut parts = vec![name.to_owned()];
            parts.extend(
                inside
                    .iter()
                    .map(|part| part.to_string_lossy().into_owned()),
            );
            parts.retain(|part| !["mod", "lib", "main"].contains(&part.as_str()));
            let text = std::fs::read_to_string(&path).expect("a source");
            modules.push((parts.join("::"), text));
        }
    }
    modules
}

/// What stands before the parenthesis that closes what has just been opened.
fn before_the_end(text: &str) -> &str {
    let (mut depth, mut in_words, mut escaped) = (0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if in_words => escaped = true,
            '"' => in_words = !in_words,
            _ if in_words => {}
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("it does not end: {text}");
}

/// Every event that the programs log: its module, its level, and how it is written.
fn events() -> Vec<(String, &'static str, String)> {
    let mut sources = modules(&root().join("src"), "outboard");
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .replace('-', "_");
        if path.join("src").is_dir() {
            sources.extend(modules(&path.join("src"), &name));
        }
    }
    let mut events = Vec::new();
    for (module, text) in &sources {
        for (at, _) in text.match_indices("tracing::") {
            let rest = &text[at + "tracing::".len()..];
            let Some((level, event)) = rest.split_once("!(") else {
                continue;
            };
            let level = match level {
                "error" | "warn" => "warn",
                "info" => "info",
                "debug" | "trace" => "debug",
                _ => continue,
            };
            events.push((module.clone(), level, before_the_end(event).to_owned()));
        }
    }
    assert!(events.len() > 50, "{}", events.len());
    events
}

/// The parts that docs/metrics.md names, and at which levels it says something of each.
fn promised() -> Vec<(String, BTreeSet<&'static str>)> {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).expect("the page");
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| part |"))
        .skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 1 + LEVELS.len(), "{line}");
        let said = LEVELS.into_iter().zip(&cells[1..]);
        let levels = said
            .filter(|(_, cell)| **cell != "–")
            .map(|(level, _)| level);
        (cells[0].trim_matches('`').to_owned(), levels.collect())
    });
    rows.collect()
}

#[test]
fn each_part_logs_at_the_levels_that_are_documented() {
    let promised = promised();
    let part_of = |module: &str| {
        let parts = promised.iter().map(|(part, _)| part);
        let of = parts.filter(|part| module == *part || module.starts_with(&format!("{part}::")));
        of.max_by_key(|part| part.len()).cloned()
    };
    let mut kept: BTreeSet<(String, &str)> = BTreeSet::new();
    for (module, level, event) in events() {
        let part = part_of(&module).unwrap_or_else(|| panic!("{module} logs {event}: of no part"));
        kept.insert((part, level));
    }
    let promises = promised
        .iter()
        .flat_map(|(part, levels)| levels.iter().map(|level| (part.clone(), *level)));
    assert_eq!(
        kept,
        promises.collect(),
        "what is logged, and what is documented"
    );
}

#[test]
fn no_event_shows_a_form_of_rusts() {
    for (module, _, event) in events() {
        // A debugger's view of a value, as a field or within the message.
        let shows = event
            .split([',', '='])
            .any(|field| field.trim_start().starts_with('?'));
        let formats = event.contains(":?}") || event.contains(":#?}");
        assert!(!shows && !formats, "{module}: {event}");
    }
}
