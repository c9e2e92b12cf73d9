//! Suites of crates: their tests are built from a copy of the crate as cargo has fetched it, and run as
//! programs.

use super::network::{Connections, LONGEST, Network};
use super::results::Results;
use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate whose tests are run.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// Features that its tests need.
    features: &'static str,
    /// Those of its test programs that are about connections.
    programs: &'static [&'static str],
}

/// Every suite of this kind. (Few crates bring their tests.)
pub const ALL: &[Suite] = &[Suite {
    name: "tokio",
    features: "full",
    programs: &[
        "tcp_accept",
        "tcp_connect",
        "tcp_echo",
        "tcp_into_split",
        "tcp_into_std",
        "tcp_peek",
        "tcp_shutdown",
        "tcp_socket",
        "tcp_split",
        "tcp_stream",
        "net_bind_resource",
        "net_lookup_host",
    ],
}];

/// A test program, and where it expects to be started.
pub struct Program {
    name: String,
    file: PathBuf,
    directory: PathBuf,
}

impl Suite {
    /// Builds its tests.
    ///
    /// # Errors
    /// The crate is not among those that this project has fetched, or its tests do not build.
    pub fn build(&self, scratch: &Path) -> Result<Vec<Program>> {
        let source = self.source()?;
        let copy = scratch.join(self.name);
        shell::quiet(Command::new("rm").arg("-rf").arg(&copy))?;
        shell::quiet(Command::new("cp").arg("-a").arg(&source).arg(&copy))?;
        // Not a member of this workspace, and without the lock of its authors' day.
        let manifest = copy.join("Cargo.toml");
        let mut text = std::fs::read_to_string(&manifest)?;
        text += "\n[workspace]\n";
        std::fs::write(&manifest, text)?;
        let said = shell::quiet(
            shell::cargo()
                .current_dir(&copy)
                .env("CARGO_TARGET_DIR", scratch.join("build"))
                .args(["test", "--no-run", "--message-format=json"])
                .args(self.programs.iter().flat_map(|name| ["--test", name]))
                .arg(format!("--features={}", self.features)),
        )?;
        let built = said
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let programs: Vec<Program> = built
            .filter_map(|message| self.program(&message, &copy))
            .collect();
        if programs.is_empty() {
            bail!("{}: no test of it was built", self.name);
        }
        Ok(programs)
    }

    fn source(&self) -> Result<PathBuf> {
        let metadata = shell::quiet(shell::cargo().args(["metadata", "--format-version=1"]))?;
        let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array();
        let package = packages
            .into_iter()
            .flatten()
            .find(|package| package["name"] == self.name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let manifest = manifest.with_context(|| format!("{} is not a dependency", self.name))?;
        let directory = Path::new(manifest).parent();
        Ok(directory
            .context("a manifest lies in a directory")?
            .to_owned())
    }

    fn program(&self, message: &serde_json::Value, copy: &Path) -> Option<Program> {
        let name = message["target"]["name"].as_str()?;
        let is_test = message["target"]["kind"][0] == "test";
        let wanted = self.programs.contains(&name);
        let file = message["executable"]
            .as_str()
            .filter(|_| is_test && wanted)?;
        Some(Program {
            name: name.to_owned(),
            file: file.into(),
            directory: copy.to_owned(),
        })
    }

    /// Runs them one after the other.
    ///
    /// # Errors
    /// There is no network for it.
    pub fn run(
        &self,
        network: &Network,
        programs: &[Program],
        on_engine: bool,
    ) -> Result<(Results, Connections)> {
        let mut results = Results::new();
        let mut connections = Connections::default();
        for program in programs {
            let ended = network.run(
                &program.name,
                on_engine,
                LONGEST,
                Command::new(&program.file).current_dir(&program.directory),
            )?;
            let printed = std::fs::read_to_string(network.printed(&program.name, on_engine))?;
            let read = read(&program.name, &printed);
            if read.is_empty() {
                let whole = format!("{} as a whole: {}", program.name, ended.why);
                results.insert(whole, false);
            }
            results.extend(read);
            connections.engine += ended.connections.engine;
            connections.kernel += ended.connections.kernel;
        }
        Ok((results, connections))
    }
}

/// What libtest printed.
fn read(program: &str, printed: &str) -> Results {
    let line = |line: &str| {
        let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let passed = match result {
            "ok" => true,
            "FAILED" => false,
            _ => return None,
        };
        Some((format!("{program}::{name}"), passed))
    };
    printed.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_its_result() {
        let printed = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... ignored\n";
        let expected = [("tcp::a", true), ("tcp::b::c", false)];
        let expected = expected.map(|(name, passed)| (name.to_owned(), passed));
        assert_eq!(read("tcp", printed), Results::from(expected));
    }
}
