//! How long files are: one that grows past 400 lines says that it holds two ideas, and 700 is
//! too many.

use crate::sources;
use anyhow::{Result, bail};

const WORTH_A_LOOK: usize = 400;
const TOO_LONG: usize = 700;

/// Lists the long files; fails if one is too long.
pub fn check() -> Result<String> {
    let mut long: Vec<(usize, String)> = sources::all()?
        .iter()
        .filter(|source| source.is("rs") || source.is("c") || source.is("h"))
        .map(|source| {
            (
                source.text.lines().count(),
                source.path.display().to_string(),
            )
        })
        .filter(|(lines, _)| *lines > WORTH_A_LOOK)
        .collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    for (lines, path) in &long {
        println!("  {lines:4} lines  {path}");
    }
    if let Some((lines, path)) = long.first().filter(|(lines, _)| *lines > TOO_LONG) {
        bail!("{path} has {lines} lines; {TOO_LONG} is the limit: find the second idea in it");
    }
    Ok(format!("{} files above {WORTH_A_LOOK} lines", long.len()))
}
