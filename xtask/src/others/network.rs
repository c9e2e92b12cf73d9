//! A network for one suite at a time, with an engine or without.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Makes the network, and goes with it.
const SCRIPT: &str = include_str!("network.sh");
/// What the longest of CPython's modules may take, and the longest test program of a crate.
pub const LONGEST: Duration = Duration::from_secs(900);
/// Where suites run.
pub struct Network {
    script: PathBuf,
    scratch: PathBuf,
    outboard: PathBuf,
}

/// Who opened the connections of a suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The engine.
    pub engine: u64,
    /// The kernel, those included that were refused.
    pub kernel: u64,
}

/// How a suite ended.
pub struct Ended {
    /// In words.
    pub why: String,
    /// What it connected.
    pub connections: Connections,
}

impl Network {
    /// With its files in `scratch`, and engines of `outboard`.
    pub fn new(scratch: &Path, outboard: &Path) -> Result<Self> {
        let script = scratch.join("network.sh");
        std::fs::write(&script, SCRIPT)?;
        Ok(Self {
            script,
            scratch: scratch.to_owned(),
            outboard: outboard.to_owned(),
        })
    }

    /// Where files of a suite can be.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The file with what the suite `name` has printed.
    pub fn printed(&self, name: &str, on_engine: bool) -> PathBuf {
        let side = if on_engine { "engine" } else { "kernel" };
        self.scratch.join(format!("{name}.{side}"))
    }

    /// Runs the command of the suite `name`, for `limit` at most; what it prints goes to the file [`printed`](Self::printed).
    ///
    /// # Errors
    /// There is no network, or no engine.
    pub fn run(
        &self,
        name: &str,
        on_engine: bool,
        limit: Duration,
        suite: &Command,
    ) -> Result<Ended> {
        for file in ["engine.json", "kernel"] {
            let _ = std::fs::remove_file(self.scratch.join(file));
        }
        let printed = std::fs::File::create(self.printed(name, on_engine))?;
        let mut command = Command::new("unshare");
        command
            .args([
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
            ])
            .arg(&self.script)
            .arg(&self.scratch);
        if on_engine {
            command.arg(&self.outboard);
        }
        command
            .args(["--", "timeout", "--kill-after=10"])
            .arg(limit.as_secs().to_string())
            .arg(suite.get_program())
            .args(suite.get_args())
            .stdin(Stdio::null())
            .stdout(printed.try_clone()?)
            .stderr(printed);
        if let Some(directory) = suite.get_current_dir() {
            command.current_dir(directory);
        }
        for (name, value) in suite.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let status = command.status().context("unshare (of util-linux)")?;
        let Ok(counts) = std::fs::read_to_string(self.scratch.join("kernel")) else {
            bail!(
                "no network for a suite: it takes root, iproute2 and, for the engine, what \
                 {}/engine.log says",
                self.scratch.display()
            );
        };
        let engine = std::fs::read_to_string(self.scratch.join("engine.json"));
        Ok(Ended {
            why: match status.code() {
                Some(124 | 137) => "it did not end".to_owned(),
                _ => status.to_string(),
            },
            connections: Connections {
                engine: engine.map_or(0, |json| active_opens_of_engine(&json)),
                kernel: active_opens_of_kernel(&counts).unwrap_or(0),
            },
        })
    }
}

/// From `outboard stats --json`.
fn active_opens_of_engine(json: &str) -> u64 {
    let metrics: Vec<serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let opens = metrics
        .iter()
        .filter(|metric| metric["name"] == "tcp_active_opens")
        .filter_map(|metric| metric["value"].as_f64());
    opens.sum::<f64>() as u64
}

/// From `/proc/net/snmp`: a line of names, and one of values, each behind the protocol's name.
fn active_opens_of_kernel(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "ActiveOpens")?;
    values.split(' ').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_on_both_sides() {
        let kernel = "Ip: A\nIp: 1\nTcp: RtoAlgorithm ActiveOpens PassiveOpens\nTcp: 1 23 4\n";
        assert_eq!(active_opens_of_kernel(kernel), Some(23));
        assert_eq!(active_opens_of_kernel("Tcp: ActiveOpens\n"), None);
        let engine = r#"[{"name": "tcp_active_opens", "value": 7.0}, {"name": "x", "value": 1.0}]"#;
        assert_eq!(active_opens_of_engine(engine), 7);
    }
}
