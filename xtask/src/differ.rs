//! The endless comparison of socket calls, on demand.

use crate::shell;
use anyhow::Result;
use std::process::Command;

/// Builds what it needs, optimised as the tests are, and runs it with these arguments.
///
/// # Errors
/// A program differs, and has been printed.
pub fn run(arguments: &[String]) -> Result<String> {
    shell::loud(shell::cargo().args([
        "build",
        "--quiet",
        "--package=outboard",
        "--package=outboard-preload",
        "--package=outboard-differ",
    ]))?;
    let differ = shell::target_dir().join("debug/outboard-differ");
    shell::loud(
        Command::new(differ)
            .current_dir(shell::root())
            .args(arguments),
    )?;
    Ok("as on the kernel".into())
}
