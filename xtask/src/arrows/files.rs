//! Inside a package: no file imports one that imports it, in however many steps.

use super::circles::{self, Circle};
use super::modules::Modules;
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Packages that are still being laid out, and how many of their files stand in circles. A number
/// here only falls, and with the code.
const BEING_LAID_OUT: &[(&str, usize)] = &[];

/// Fails if files of a package import each other in a circle.
pub fn check(packages: &[Value]) -> Result<String> {
    let root = shell::root();
    let text = |file: &Path| std::fs::read_to_string(root.join(file)).ok();
    let (mut files, mut arrows, mut left) = (0, 0, 0);
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let mut circles = Vec::new();
        for file in roots(package, &root)? {
            let modules = Modules::read(&file, &text)?;
            let found = modules.arrows();
            files += modules.count_files();
            arrows += found.len();
            circles.extend(circles::of(&found));
        }
        let allowed = BEING_LAID_OUT
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, files)| *files);
        left += allowed;
        wrong.extend(complaint(name, &circles, allowed));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!(
        "{files} files, {arrows} arrows, {left} files in circles"
    ))
}

/// Where the modules of a package begin, from the root of the repository: its library and its
/// programs, but neither its tests nor its examples.
fn roots(package: &Value, root: &Path) -> Result<Vec<PathBuf>> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let apart = ["test", "bench", "example", "custom-build"];
    targets
        .filter(|target| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            !kinds
                .filter_map(Value::as_str)
                .any(|kind| apart.contains(&kind))
        })
        .map(|target| {
            let file = target["src_path"]
                .as_str()
                .context("a target without a file")?;
            Ok(Path::new(file).strip_prefix(root)?.into())
        })
        .collect()
}

/// What is wrong with a package whose files stand in `circles`, if `allowed` may.
pub fn complaint(package: &str, circles: &[Circle], allowed: usize) -> Option<String> {
    let inside: usize = circles.iter().map(|circle| circle.files.len()).sum();
    if inside == allowed {
        return None;
    }
    if inside < allowed {
        return Some(format!(
            "{package}: {inside} files are left in circles: lower its number in \
             xtask/src/arrows/files.rs from {allowed}"
        ));
    }
    let mut said = format!("{package}: {inside} files import each other in circles");
    if allowed > 0 {
        said += &format!(", and {allowed} did before");
    }
    for circle in circles {
        said += &format!("\n  {} files; the shortest way round:", circle.files.len());
        for line in &circle.shortest {
            said += &format!("\n    {line}");
        }
    }
    Some(said)
}
