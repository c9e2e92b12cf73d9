//! Inside a package: no file imports one that imports it, in however many steps.

use super::circles::{self, Circle};
use super::modules::Modules;
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Fails if files of a package import each other in a circle.
pub fn check(packages: &[Value]) -> Result<String> {
    let root = shell::root();
    let text = |file: &Path| std::fs::read_to_string(root.join(file)).ok();
    let (mut files, mut arrows) = (0, 0);
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
        wrong.extend(complaint(name, &circles));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{files} files, {arrows} arrows, none in a circle"))
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

/// What is wrong with a package whose files stand in `circles`.
pub fn complaint(package: &str, circles: &[Circle]) -> Option<String> {
    let inside: usize = circles.iter().map(|circle| circle.files.len()).sum();
    if inside == 0 {
        return None;
    }
    let mut said = format!("{package}: {inside} files import each other in circles");
    for circle in circles {
        said += &format!("\n  {} files; the shortest way round:", circle.files.len());
        for line in &circle.shortest {
            said += &format!("\n    {line}");
        }
    }
    Some(said)
}
