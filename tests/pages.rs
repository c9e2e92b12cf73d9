//! The documentation: pages of commands are as the commands are, links lead somewhere, and the site has
//! every page.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files of a directory, and of those below.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A page without its blocks of code.
fn prose(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a page");
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Where the links of a page lead.
fn links(path: &Path) -> Vec<String> {
    let prose = prose(path);
    let links = prose.split("](").skip(1);
    links
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// The names by which the headings of a page are linked to.
fn anchors(path: &Path) -> BTreeSet<String> {
    let prose = prose(path);
    let headings = prose.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut all = pages(&root().join("docs"));
    all.extend(["README.md", "CHANGELOG.md"].map(|name| root().join(name)));
    let mut count = 0;
    for page in &all {
        for link in links(page) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().expect("a directory").join(file)
            };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            let is_there = anchor.is_empty() || anchors(&target).contains(anchor);
            assert!(is_there, "{}: no heading for {link}", page.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn the_pages_of_commands_are_what_the_commands_say() {
    let name = format!("outboard-pages-{}", std::process::id());
    let scratch = std::env::temp_dir().join(name);
    let made = Command::new(env!("CARGO_BIN_EXE_outboard"))
        .arg("generate")
        .arg(&scratch)
        .status()
        .expect("to generate");
    assert!(made.success());
    let read = |directory: &Path| -> BTreeMap<PathBuf, String> {
        let named = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).expect("a page");
            (PathBuf::from(path.file_name().expect("a name")), text)
        };
        pages(directory).into_iter().map(named).collect()
    };
    let wanted = read(&scratch.join("commands"));
    let _ = std::fs::remove_dir_all(&scratch);
    assert!(wanted.len() > 14);
    let there = read(&root().join("docs/commands"));
    for (name, text) in &wanted {
        let same = there.get(name) == Some(text);
        assert!(
            same,
            "docs/commands/{} is not up to date: make pages",
            name.display()
        );
    }
    assert_eq!(there.len(), wanted.len(), "a page of no command is there");
}

#[test]
fn the_site_has_every_page() {
    let docs = root().join("docs");
    let listed: BTreeSet<String> = links(&docs.join("SUMMARY.md")).into_iter().collect();
    for page in pages(&docs) {
        let name = page.strip_prefix(&docs).expect("below");
        let mut parts = name.components();
        // Decisions are listed when the site is built.
        let first = parts.next().expect("a name");
        let is_decision = first == Component::Normal("decisions".as_ref())
            && parts.next() != Some(Component::Normal("README.md".as_ref()));
        let name = name.display().to_string();
        let has_it = is_decision || name == "SUMMARY.md" || listed.contains(&name);
        assert!(has_it, "docs/SUMMARY.md does not list {name}");
    }
}

#[test]
fn the_site_is_built_where_its_builder_is() {
    if lab::skip_without(
        "the_site_is_built_where_its_builder_is",
        &["mdbook", "make"],
    ) {
        return;
    }
    let name = format!("outboard-site-{}", std::process::id());
    let scratch = std::env::temp_dir().join(name);
    let output = Command::new("make")
        .current_dir(root())
        .args(["-s", "site"])
        .arg(format!("TARGET={}", scratch.display()))
        .output()
        .expect("make");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let site = scratch.join("site");
    let has = |name: &str| site.join(name).exists();
    let built = output.status.success()
        && [
            "index.html",
            "first-hour.html",
            "commands/ss.html",
            "decisions/one-queue-pair-a-process.html",
        ]
        .into_iter()
        .all(has);
    let search = std::fs::read_dir(&site).is_ok_and(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .into_iter()
            .any(|name| name.to_string_lossy().starts_with("searchindex"))
    });
    let _ = std::fs::remove_dir_all(&scratch);
    assert!(built && search && !said.contains("ERROR"), "{said}");
}
