//! Runs the workspace's test binaries beside each other, one for each core.
//!
//! Most of them wait most of the time: for programs that they started, for timers of the kernel.
//! Cargo runs one after another, which takes twice as long.

use crate::shell;
use crate::suites;
use crate::tally::{self, Tally};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

/// A test binary.
struct Binary {
    /// Its crate's directory and its target, for example `tcp::closing`.
    name: String,
    executable: PathBuf,
    /// The root of its package, where cargo would run it.
    root: PathBuf,
}

/// What cargo says of a thing that it has built, as far as it matters here.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test binaries, runs them, says how each ended, and adds what they counted to `tally`.
pub fn run(tally: &mut Tally) -> Result<String> {
    let waiting: VecDeque<Binary> = build()?.into();
    let count = waiting.len();
    if count == 0 {
        bail!("the workspace has no test binary, which cannot be");
    }
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(waiting);
    let (ended, endings) = mpsc::channel();
    let mut sum = Tally::default();
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            let ended = ended.clone();
            scope.spawn(|| {
                // Moved here alone, so that the endings end when the last thread does.
                let ended = ended;
                while let Some(binary) = next(&waiting) {
                    let ending = binary.run();
                    let _ = ended.send((binary.name, ending));
                }
            });
        }
        drop(ended);
        for (name, ending) in endings {
            let counted = match ending {
                Ok(ending) => {
                    ending.show(&name);
                    ending.counted
                }
                Err(error) => {
                    println!("{name}: {error:#}");
                    Tally {
                        failed: 1,
                        ..Tally::default()
                    }
                }
            };
            sum += counted;
            if counted.failed > 0 {
                failed.push(name);
            }
        }
    });
    *tally += sum;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(format!("{sum} in {count} binaries, {at_once} at once"))
}

fn next(waiting: &Mutex<VecDeque<Binary>>) -> Option<Binary> {
    waiting.lock().ok()?.pop_front()
}

/// How the run of a binary ended.
struct Ending {
    seconds: f64,
    counted: Tally,
    lines: Vec<String>,
}

impl Ending {
    fn show(&self, name: &str) {
        println!("{:7.1} s  {name}: {}", self.seconds, self.counted);
        let failed = self.counted.failed > 0;
        for line in &self.lines {
            // Of what passed only what was not tried is news.
            if line.starts_with("SKIPPED") || failed && tally::worth_showing(line) {
                println!("{line}");
            }
        }
    }
}

impl Binary {
    /// Runs it as cargo does: in the root of its package, which it also finds in its environment.
    fn run(&self) -> Result<Ending> {
        let started = Instant::now();
        let (lines, status) = suites::listen(
            Command::new(&self.executable)
                .current_dir(&self.root)
                .env("CARGO_MANIFEST_DIR", &self.root),
            |_| (),
        )?;
        Ok(Ending {
            seconds: started.elapsed().as_secs_f64(),
            counted: suites::count(&lines, status),
            lines,
        })
    }
}

/// Builds the test binaries, and returns them in the order in which they are to start: those of the
/// program itself first, because they take longest, and the last to start should be short.
fn build() -> Result<Vec<Binary>> {
    let mut cargo = shell::cargo();
    cargo
        .args(["test", "--workspace", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = cargo.output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("{} failed ({})", shell::describe(&cargo), output.status);
    }
    let mut binaries: Vec<Binary> = String::from_utf8(output.stdout)?
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(binary)
        .collect();
    let workspace = shell::root();
    binaries.sort_by_cached_key(|binary| (binary.root != workspace, binary.name.clone()));
    Ok(binaries)
}

/// The test binary that an artifact is, if it is one.
fn binary(artifact: Artifact) -> Option<Binary> {
    if !artifact.profile.test {
        return None;
    }
    let root = artifact.manifest_path.parent()?.to_owned();
    let of = if root == shell::root() {
        "outboard".into()
    } else {
        root.file_name()?.to_string_lossy()
    };
    Some(Binary {
        name: format!("{of}::{}", artifact.target.name),
        executable: artifact.executable?,
        root,
    })
}

#[cfg(test)]
mod tests {
    use super::binary;
    use crate::shell;
    use std::path::Path;

    fn named(manifest_path: &Path, test: bool) -> Option<String> {
        let artifact = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest_path,
            "target": { "name": "closing" },
            "profile": { "test": test },
            "executable": "/somewhere/target/debug/deps/closing-0123",
        });
        binary(serde_json::from_value(artifact).expect("an artifact")).map(|binary| binary.name)
    }

    #[test]
    fn a_test_binary_is_named_by_its_crate_and_its_target() {
        let one = shell::root().join("crates/tcp/Cargo.toml");
        assert_eq!(named(&one, true).as_deref(), Some("tcp::closing"));
        let program = shell::root().join("Cargo.toml");
        assert_eq!(named(&program, true).as_deref(), Some("outboard::closing"));
    }

    #[test]
    fn what_tests_only_start_is_not_run() {
        assert_eq!(named(&shell::root().join("Cargo.toml"), false), None);
    }
}
