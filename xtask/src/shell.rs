//! Running other programs: loudly (the user sees their output) or quietly (we read it).

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the repository: the directory above xtask's own.
pub fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}

/// A cargo command at the root of the repository, with the cargo that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The directory that holds what cargo builds.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Runs `command` with the user's own output and input; an error if it fails.
pub fn loud(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} does not start"))?;
    if !status.success() {
        bail!("{} failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs `command` and returns what it printed; an error, with what it complained of, if it fails.
pub fn quiet(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", describe(command), complaint.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The command as one would type it.
pub fn describe(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
    ];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
