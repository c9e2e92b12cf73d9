//! Outboard itself as a subject: its engine and what runs on it, started as a user would.

use crate::process::{Process, Program, runs};
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long an engine, or a server, may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);

/// The binary, and the engine that it is to talk to.
#[derive(Clone, Debug)]
pub struct Outboard {
    binary: PathBuf,
    socket: PathBuf,
    /// How programs on it wait, if not as the engine is set.
    profile: Option<&'static str>,
}

impl Outboard {
    /// The engine of `world`, driven by `binary`. Its control socket is in the world's scratch
    /// directory, so that it is nobody else's engine.
    pub fn new(binary: &Path, world: &World) -> Self {
        Self {
            binary: binary.to_owned(),
            socket: world.scratch().join("engine.sock"),
            profile: None,
        }
    }

    /// The same, whose programs wait by this profile.
    #[must_use]
    pub fn waiting_by(mut self, profile: &'static str) -> Self {
        self.profile = Some(profile);
        self
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A subcommand, to be run on the server's side.
    pub fn command(&self, world: &World, name: &str) -> Program {
        world
            .program(Side::Server, &self.binary)
            .arg(name)
            .env("OUTBOARD_SOCKET", &self.socket)
            // What is started with an old library would be measured as if it were with this one. Binaries of before
            // do not know of it.
            .env(
                "OUTBOARD_SAME_BUILD",
                if is_any_wanted() { "0" } else { "1" },
            )
    }

    /// Starts the engine on the server's interface and waits until it answers.
    pub fn start_engine(&self, world: &World, core: Option<usize>) -> Result<Process> {
        self.start_engine_told(world, core, &[])
    }

    /// As [`Self::start_engine`], with further options.
    pub fn start_engine_told(
        &self,
        world: &World,
        core: Option<usize>,
        options: &[&str],
    ) -> Result<Process> {
        let mut program = self.command(world, "engine").args(options);
        if let Some(core) = core {
            program = program.args(["--core", &core.to_string()]);
        }
        self.start_ready(world, program)
    }

    /// As [`Self::start_engine`], with settings in TOML (without the interface).
    pub fn start_engine_with(&self, world: &World, settings: &str) -> Result<Process> {
        let file = world.scratch().join("engine.toml");
        std::fs::write(&file, settings)?;
        self.start_ready(
            world,
            self.command(world, "engine").arg("--config").arg(file),
        )
    }

    fn start_ready(&self, world: &World, program: Program) -> Result<Process> {
        let mut engine = program
            .args(["-i", Side::Server.interface()])
            .log(world.scratch().join("engine.log"))
            .start()?;
        engine.wait_until(STARTING, || self.stats().is_ok())?;
        Ok(engine)
    }

    /// Starts `outboard respond` at port 80 of the server's interface, with `further` arguments, and
    /// waits until it says, in JSON, what it counts. That goes to `respond.log` in the world's
    /// scratch directory.
    pub fn start_respond(&self, world: &World, further: &[&str]) -> Result<Process> {
        let log = world.scratch().join("respond.log");
        let mut responder = self
            .command(world, "respond")
            .args(["-i", Side::Server.interface(), "-L", ":80", "--json"])
            .args(further)
            .log(&log)
            .start()?;
        responder.wait_until(STARTING, || {
            std::fs::read_to_string(&log).is_ok_and(|said| said.contains('{'))
        })?;
        Ok(responder)
    }

    /// Starts `outboard serve` for `site` at `address` of the server's side, and waits until a
    /// client of the other side reaches it: through the engine, if there is one (the kernel takes
    /// clients from the moment that the server listens).
    pub fn start_serve(&self, world: &World, site: &Path, address: SocketAddr) -> Result<Process> {
        self.start_serve_told(world, site, address, None, &[])
    }

    /// As [`Self::start_serve`], on this core, with further options.
    pub fn start_serve_told(
        &self,
        world: &World,
        site: &Path,
        address: SocketAddr,
        core: Option<usize>,
        options: &[&str],
    ) -> Result<Process> {
        let mut program = self.command(world, "serve").arg(site).args(options);
        if let Some(core) = core {
            program = program.on_core(core);
        }
        let mut server = program
            .args(["-L", &address.to_string()])
            // No client is given up because the machine is slow.
            .args(["--idle-timeout", "3600", "--drain", "3600"])
            .log(world.scratch().join("serve.log"))
            .start()?;
        self.wait_until_taken(&mut server, STARTING, address.port(), || {
            world.is_reached(address)
        })?;
        Ok(server)
    }

    /// Whether the engine takes the connections of a port: has a listener there, or is not running.
    pub fn takes(&self, port: u16) -> bool {
        self.takes_for(port, |_| true)
    }

    /// Whether it takes them for programs of which one is such.
    fn takes_for(&self, port: u16, is_such: impl Fn(u32) -> bool) -> bool {
        // Connections that are over for a while yet may be many.
        match self.sockets_that("--listening") {
            Ok(rows) => rows.iter().any(|row| is_at(row, port, &is_such)),
            Err(error) => error.to_string().contains("no engine"),
        }
    }

    /// Waits until the engine takes the connections of a port of a server that was started on it, and until
    /// `also` holds. What one had there that has ended is known to the engine a moment longer.
    ///
    /// # Errors
    /// As those of [`Process::wait_until`], with what `outboard explain` says of the server: a library of
    /// another version than the engine's, say, leaves it to the kernel without a word of its own.
    pub fn wait_until_taken(
        &self,
        server: &mut Process,
        limit: Duration,
        port: u16,
        mut also: impl FnMut() -> bool,
    ) -> Result<()> {
        let pid = server.id().to_string();
        server
            .wait_until(limit, || also() && self.takes_for(port, runs))
            .map_err(|error| {
                let mut explain = Command::new(&self.binary);
                explain
                    .args(["explain", &pid])
                    .env("OUTBOARD_SOCKET", &self.socket);
                let said = tool::output(&mut explain, "outboard explain");
                let said = said.unwrap_or_else(|error| format!("{error:#}"));
                anyhow!("{error:#}; outboard explain says: {}", said.trim_end())
            })
    }

    /// The engine's sockets, listeners included, as `outboard ss --json` tells of them.
    pub fn sockets(&self) -> Result<Vec<Value>> {
        self.sockets_that("--all")
    }

    fn sockets_that(&self, are: &str) -> Result<Vec<Value>> {
        let mut command = Command::new(&self.binary);
        command
            .args(["ss", are, "--json"])
            .env("OUTBOARD_SOCKET", &self.socket);
        let text = tool::output(&mut command, "outboard ss")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Has the engine follow so many sends, of the connection that sends first.
    pub fn trace(&self, sends: u64) -> Result<()> {
        // What a run has left that failed would be somebody else's, and is not to be dropped for this one.
        self.traced()?;
        let mut command = Command::new(&self.binary);
        command
            .args(["trace", "begin", "--sends", &sends.to_string()])
            .env("OUTBOARD_SOCKET", &self.socket);
        tool::output(&mut command, "outboard trace begin").map(drop)
    }

    /// What it did of them, and when. It follows no more.
    pub fn traced(&self) -> Result<Vec<Traced>> {
        let mut command = Command::new(&self.binary);
        command
            .args(["trace", "end", "--json"])
            .env("OUTBOARD_SOCKET", &self.socket);
        let text = tool::output(&mut command, "outboard trace end")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A program to be run on the engine.
    pub fn on_engine(&self, world: &World, name: impl AsRef<OsStr>) -> Program {
        let mut run = self.command(world, "run");
        if let Some(profile) = self.profile {
            run = run.args(["--profile", profile]);
        }
        run.arg("--").arg(name)
    }

    /// The engine's counters: name, labels, value.
    pub fn stats(&self) -> Result<Vec<Counter>> {
        let mut command = Command::new(&self.binary);
        command
            .args(["stats", "--json"])
            .env("OUTBOARD_SOCKET", &self.socket);
        let text = tool::output(&mut command, "outboard stats")?;
        let metrics: Value = serde_json::from_str(&text)?;
        let metrics = metrics.as_array().context("no list of metrics")?;
        Ok(metrics.iter().filter_map(Counter::read).collect())
    }
}

/// What the engine did of a send.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Traced {
    /// What, as `outboard trace end --json` calls it.
    pub moment: String,
    /// When, by the [clock](crate::clock) of everybody.
    pub at: u64,
    /// Bytes of all sends that it is of, up to this one.
    pub bytes: u64,
}

/// The variable by which somebody measures with a library of another build, and knows it.
pub const ANY_BUILD: &str = "OUTBOARD_ANY_BUILD";

/// Whether somebody does.
pub fn is_any_wanted() -> bool {
    std::env::var_os(ANY_BUILD).is_some_and(|value| !value.is_empty() && value != "0")
}

/// One counter of the engine's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// The values of its labels.
    pub labels: Vec<String>,
    /// Its value; of a histogram, how many there were.
    pub value: f64,
    /// How they are distributed, if it is a histogram.
    pub spread: Option<Spread>,
}

/// How what a histogram counts is distributed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Spread {
    /// The largest since the engine has begun.
    longest: f64,
    /// Limits, ascending, and how many were at most so large and larger than the limit before.
    buckets: Vec<(f64, u64)>,
}

impl Spread {
    /// The largest of those that came after `earlier`. It is exact where it is the largest since the engine has
    /// begun; otherwise it is the limit that it did not exceed.
    pub fn longest_since(&self, earlier: &Self) -> f64 {
        if self.longest > earlier.longest {
            return self.longest;
        }
        let before = |limit: f64| {
            let known = earlier.buckets.iter().find(|(other, _)| *other == limit);
            known.map_or(0, |(_, count)| *count)
        };
        let mut came = self.buckets.iter().rev();
        let last = came.find(|(limit, count)| *count > before(*limit));
        last.map_or(0.0, |(limit, _)| limit.min(self.longest))
    }
}

impl Counter {
    fn read(metric: &Value) -> Option<Self> {
        let labels = metric["labels"].as_array().into_iter().flatten();
        Some(Self {
            name: metric["name"].as_str()?.to_string(),
            labels: labels
                .filter_map(|pair| Some(pair.get(1)?.as_str()?.to_string()))
                .collect(),
            value: metric["value"].as_f64()?,
            spread: Spread::deserialize(&metric["histogram"]).ok(),
        })
    }
}

/// The sum of the counters called `name`, whatever their labels.
pub fn total(counters: &[Counter], name: &str) -> f64 {
    counters
        .iter()
        .filter(|counter| counter.name == name)
        .map(|counter| counter.value)
        .sum()
}

/// Whether a socket is a listener at a port, of a program that is such.
fn is_at(row: &Value, port: u16, is_such: impl Fn(u32) -> bool) -> bool {
    let end = format!(":{port}");
    row["state"] == "LISTEN"
        && row["local"]
            .as_str()
            .is_some_and(|local| local.ends_with(&end))
        && row["pid"]
            .as_u64()
            .and_then(|pid| u32::try_from(pid).ok())
            .is_none_or(is_such)
}

#[cfg(test)]
mod tests {
    use super::{Counter, Spread, is_at, runs};
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use serde_json::json;

    fn spread(longest: f64, counts: [u64; 3]) -> Spread {
        let limits = [1.0, 2.0, 4.0];
        Spread {
            longest,
            buckets: limits.into_iter().zip(counts).collect(),
        }
    }

    #[test]
    fn the_longest_of_a_while_is_exact_where_it_can_be() {
        let before = spread(3.5, [9, 1, 1]);
        assert_eq!(spread(3.75, [9, 1, 2]).longest_since(&before), 3.75);
        assert_eq!(spread(3.5, [12, 1, 1]).longest_since(&before), 1.0);
        assert_eq!(spread(3.5, [12, 2, 1]).longest_since(&before), 2.0);
        // No longer than the longest of all.
        assert_eq!(spread(3.5, [12, 2, 2]).longest_since(&before), 3.5);
        assert_eq!(before.longest_since(&before), 0.0);
    }

    #[test]
    fn a_histogram_is_read_as_it_is_written() {
        let metric = json!({
            "name": "turn_seconds", "labels": [["worker", "0"]], "kind": "histogram", "value": 3.0,
            "histogram": { "sum": 0.5, "longest": 0.25, "buckets": [[0.125, 2], [0.25, 1]] },
        });
        let counter = Counter::read(&metric).expect("a metric");
        let spread = counter.spread.expect("a histogram");
        assert_eq!(spread.longest, 0.25);
        assert_eq!(spread.buckets, [(0.125, 2), (0.25, 1)]);
        let plain = json!({ "name": "turns", "kind": "counter", "value": 3.0 });
        assert_eq!(Counter::read(&plain).expect("a metric").spread, None);
    }

    #[test]
    fn a_listener_of_a_program_that_has_ended_is_not_its_successors() {
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        let info = waitid(
            WaitId::Pid(Pid::from_child(&gone)),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
        assert!(info.unwrap().is_some());
        let of = |pid: u32| json!({"state": "LISTEN", "local": "0.0.0.0:80", "pid": pid});
        assert!(is_at(&of(std::process::id()), 80, runs));
        assert!(!is_at(&of(std::process::id()), 8080, runs));
        assert!(
            !is_at(&of(gone.id()), 80, runs),
            "it has not been waited for"
        );
        gone.wait().unwrap();
        assert!(!is_at(&of(gone.id()), 80, runs));
        let open = json!({"state": "ESTAB", "local": "0.0.0.0:80", "pid": 1});
        assert!(!is_at(&open, 80, runs));
    }
}
