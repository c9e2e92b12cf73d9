//! Who may import whom: package by package, and inside each package file by file. Both are law in
//! `docs/ARCHITECTURE.md`, which says what counts as an arrow.

mod circles;
mod files;
mod modules;
mod packages;
mod reading;
#[cfg(test)]
mod tests;
mod tokens;

use anyhow::Result;

/// Fails if a package imports what it must not, or if files of a package import each other in a
/// circle.
pub fn check() -> Result<String> {
    let packages = packages::read()?;
    let between = packages::check(&packages)?;
    let inside = files::check(&packages)?;
    Ok(format!("{between}; {inside}"))
}
