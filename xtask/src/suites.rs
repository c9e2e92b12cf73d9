//! Running test suites and counting what they ran.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// How the tests of a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ran, and held.
    pub passed: usize,
    /// Ran, and did not hold.
    pub failed: usize,
    /// Ignored, or said `SKIPPED` because the machine lacks what they need.
    pub skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Tally {
    /// Takes into account one line that a test harness printed.
    fn read(&mut self, line: &str) {
        // A test that finds itself without root says so and returns; its harness then counts it
        // as passed, which it did not.
        if line.starts_with("SKIPPED") {
            self.skipped += 1;
            self.passed = self.passed.saturating_sub(1);
        }
        let Some(result) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            if let (Some(count), Some(kind)) = (words.next(), words.next())
                && let Ok(count) = count.parse::<usize>()
            {
                match kind {
                    "passed" => self.passed += count,
                    "failed" => self.failed += count,
                    "ignored" => self.skipped += count,
                    _ => {}
                }
            }
        }
    }
}

/// Runs a test command, shows what it prints, and adds what it counted to `tally`.
///
/// Lines of tests that passed are not shown: there are hundreds, and the closing line counts them.
pub fn run(command: &mut Command, tally: &mut Tally) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} does not start"))?;
    let (lines, received) = mpsc::channel();
    let stdout = child.stdout.take().context("no stdout")?;
    let stderr = child.stderr.take().context("no stderr")?;
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
    drop(lines);

    let mut counted = Tally::default();
    // SKIPPED lines come before the result that counts their tests as passed.
    let mut skipped = 0;
    for line in received {
        if line.starts_with("SKIPPED") {
            skipped += 1;
        } else {
            counted.read(&line);
        }
        if worth_showing(&line) {
            println!("{line}");
        }
    }
    for _ in 0..skipped {
        counted.read("SKIPPED");
    }
    let status = child.wait()?;
    *tally += counted;
    if !status.success() {
        if counted.failed == 0 {
            // It did not even build, or it died: nothing counted it.
            tally.failed += 1;
        }
        bail!("{} failed ({status})", shell::describe(command));
    }
    Ok(format!(
        "{} passed, {} skipped",
        counted.passed, counted.skipped
    ))
}

fn worth_showing(line: &str) -> bool {
    let line = line.trim();
    let noise = line.is_empty()
        || line.starts_with("test ") && line.ends_with("... ok")
        || line.starts_with("test result: ok")
        || line.starts_with("running ")
        || line.starts_with("Running ")
        || line.starts_with("Doc-tests ")
        || line.starts_with("Compiling ");
    !noise
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        tally.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s");
        let expected = Tally {
            passed: 15,
            failed: 2,
            skipped: 1,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_test_that_skips_itself_is_not_counted_as_passed() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.read("SKIPPED (needs root): steering");
        let expected = Tally {
            passed: 1,
            failed: 0,
            skipped: 1,
        };
        assert_eq!(tally, expected);
    }
}
