//! Running a test command and counting what it ran.

use crate::shell;
use crate::tally::{self, Tally};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

/// Runs a test command, shows what it prints as it comes, and adds what it counted to `tally`.
pub fn run(command: &mut Command, tally: &mut Tally) -> Result<String> {
    let (lines, status) = listen(command, |line| {
        if tally::worth_showing(line) {
            println!("{line}");
        }
    })?;
    let counted = count(&lines, status);
    *tally += counted;
    if !status.success() {
        bail!("{} failed ({status})", shell::describe(command));
    }
    Ok(counted.to_string())
}

/// Counts the tests of a command that ended with `status`.
pub fn count(lines: &[String], status: ExitStatus) -> Tally {
    let mut counted = Tally::of(lines.iter().map(String::as_str));
    if !status.success() && counted.failed == 0 {
        // It did not even build, or it died: nothing counted it.
        counted.failed = 1;
    }
    counted
}

/// Runs a command to its end, hands over each line of its output and of its complaints as it comes,
/// and returns them all.
pub fn listen(
    command: &mut Command,
    mut heard: impl FnMut(&str),
) -> Result<(Vec<String>, ExitStatus)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} does not start"))?;
    let mut lines = Vec::new();
    for line in output(&mut child)? {
        heard(&line);
        lines.push(line);
    }
    Ok((lines, child.wait()?))
}

/// The lines that a child prints on both of its streams, until both end.
fn output(child: &mut Child) -> Result<mpsc::Receiver<String>> {
    let stdout = child.stdout.take().context("no stdout")?;
    let stderr = child.stderr.take().context("no stderr")?;
    let (lines, received) = mpsc::channel();
    let forward = |stream: Box<dyn std::io::Read + Send>| {
        let lines = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                // The receiver lives as long as we have a sender: until both streams end.
                let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
    };
    forward(Box::new(stdout));
    forward(Box::new(stderr));
    Ok(received)
}
