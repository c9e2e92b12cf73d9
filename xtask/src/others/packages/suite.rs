//! A suite that comes with the source of a package.

use super::fetch;
use super::printed::{self, Ran};
use crate::others::network::{Connections, Network};
use crate::others::results::Results;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs the programs of a suite.
const SCRIPT: &str = include_str!("each.sh");

/// A package whose tests are run.
pub struct Suite {
    /// Its name here.
    pub name: &'static str,
    /// Debian's name of its source.
    pub source: &'static str,
    /// Files that have to be there, and the packages that bring them.
    pub needs: &'static [(&'static str, &'static str)],
    /// Makes its tests ready in the directory with its source.
    pub prepare: fn(&Path) -> Result<Tests>,
    /// How long one of its programs may take.
    pub each: Duration,
    /// How long all of them may take.
    pub all: Duration,
    /// The results of one of its programs.
    pub read: fn(&Ran<'_>) -> Results,
}

/// Tests that can be run.
pub struct Tests {
    /// What runs one of them: the words of its line come behind it.
    pub command: Command,
    /// A line each. The last word is its name.
    pub list: Vec<String>,
}

impl Suite {
    /// Fetches it, and makes it ready.
    ///
    /// # Errors
    /// Its source cannot be had, something it needs is missing, or it cannot be built.
    pub fn build(&self, scratch: &Path) -> Result<Tests> {
        for (file, package) in self.needs {
            if !Path::new(file).exists() {
                bail!("{} needs {file}: as root, apt install {package}", self.name);
            }
        }
        let source = fetch::source(scratch, self.source)?;
        let tests = (self.prepare)(&source)?;
        if tests.list.is_empty() {
            bail!("{}: no test of it was found", self.name);
        }
        std::fs::write(scratch.join("each.sh"), SCRIPT)?;
        let mut list = tests.list.join("\n");
        list.push('\n');
        std::fs::write(scratch.join(format!("{}.list", self.name)), list)?;
        Ok(tests)
    }

    /// Runs the tests one after the other.
    ///
    /// # Errors
    /// There is no network for it.
    pub fn run(
        &self,
        network: &Network,
        tests: &Tests,
        on_engine: bool,
    ) -> Result<(Results, Connections)> {
        let mut command = Command::new("sh");
        command
            .arg(network.scratch().join("each.sh"))
            .arg(self.each.as_secs().to_string())
            .arg(network.scratch().join(format!("{}.list", self.name)))
            .arg(tests.command.get_program())
            .args(tests.command.get_args());
        if let Some(directory) = tests.command.get_current_dir() {
            command.current_dir(directory);
        }
        for (name, value) in tests.command.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let ended = network.run(self.name, on_engine, self.all, &command)?;
        let text = std::fs::read(network.printed(self.name, on_engine))?;
        let text = String::from_utf8_lossy(&text);
        let mut results = Results::new();
        for ran in printed::split(&text) {
            results.extend((self.read)(&ran));
        }
        if results.is_empty() {
            let whole = format!("{} as a whole: {}", self.name, ended.why);
            results.insert(whole, false);
        }
        Ok((results, ended.connections))
    }
}
