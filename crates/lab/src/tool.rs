//! Calling small system tools (`ip`, `ethtool`): each call is short, and its failure says what
//! the tool said.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `line`, split at white space, and returns what it printed.
pub fn run(line: &str) -> Result<String> {
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command")?;
    output(Command::new(program).args(words), line)
}

/// Runs `command` and returns what it printed; `line` names it in errors.
pub fn output(command: &mut Command, line: &str) -> Result<String> {
    let output = command
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{line}: cannot be run"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {} ({})", complaint.trim(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Copies a program that is to be run. Another one does it: what one thread writes to, the programs that others
/// begin at that moment have open as well, and the kernel runs nothing that is open for writing (ETXTBSY).
///
/// # Errors
/// It cannot be copied.
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    output(Command::new("cp").arg(from).arg(to), "cp").map(drop)
}

/// The caller's PATH, and the directories where Debian keeps what administrators use.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}

/// Where the program `name` is installed, if it is.
pub fn find(name: &str) -> Option<std::path::PathBuf> {
    search_path()
        .split(':')
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.is_file())
}
