//! `outboard lab flood`: what real clients notice of a SYN flood, on the kernel's TCP and on the
//! engine.

use crate::flood::SynFlood;
use crate::kept::{Kept, Made};
use crate::nginx::Nginx;
use crate::outboard::{Outboard, total};
use crate::process::Process;
use crate::statistics::median;
use crate::table::Table;
use crate::world::{Side, World};
use crate::{sampler, tool};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How to run it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs the engine.
    pub binary: PathBuf,
    /// Rounds; each floods both stacks.
    pub rounds: usize,
    /// How long clients come during a flood.
    pub window: Duration,
}

/// The core of the server and the engine.
const SERVER_CORE: usize = 0;
/// The core of the flood.
const FLOOD_CORE: usize = 1;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the flood goes on before anything is measured.
const BEFORE: Duration = Duration::from_secs(1);

/// What one stack came to, by round; times are those of single clients, of all rounds.
#[derive(Clone, Debug, Default)]
struct Series {
    sent: Vec<f64>,
    answered: Vec<f64>,
    clients_ms: Vec<f64>,
    failed: usize,
    grown: Vec<f64>,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Report {
    kernel: Series,
    engine: Series,
    /// What failed.
    notes: Vec<String>,
}

/// Runs it. `say` is told what is being done.
///
/// # Errors
/// What kept the experiment from being made. That a client is not served is a result.
///
/// `stop` is set by whoever interrupts: what was measured by then is reported.
pub fn run(plan: &Plan, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<Made<Report>> {
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("this needs two cores: one for the server, one for the flood");
    }
    for needed in ["nginx", "taskset"] {
        if tool::find(needed).is_none() {
            bail!("{needed} is not installed: scripts/deps.sh test");
        }
    }
    let mut report = Report::default();
    let mut kept = Kept::new(stop, &mut say);
    for round in 1..=plan.rounds {
        let seen = kept.one(&format!("round {round}: kernel"), || on_kernel(plan.window));
        seen.into_iter().for_each(|seen| report.kernel.add(seen));
        let seen = kept.one(&format!("round {round}: engine"), || {
            on_engine(&plan.binary, plan.window)
        });
        seen.into_iter().for_each(|seen| report.engine.add(seen));
    }
    kept.end(report, |report, notes| report.notes = notes)
}

/// What came of one measurement.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// SYNs a second that were sent.
    sent: f64,
    /// SYNs a second that were answered by a cookie.
    answered: f64,
    /// The times of single clients that were served, milliseconds.
    clients_ms: Vec<f64>,
    /// Clients that were not.
    failed: usize,
    /// Bytes that the engine's memory grew by, if there was an engine.
    grown: Option<f64>,
}

impl Series {
    fn add(&mut self, seen: Seen) {
        self.sent.push(seen.sent);
        self.answered.push(seen.answered);
        self.clients_ms.extend(seen.clients_ms);
        self.failed += seen.failed;
        self.grown.extend(seen.grown);
    }
}

/// Measures nginx on the kernel's TCP, under a flood.
fn on_kernel(window: Duration) -> Result<Seen> {
    let world = World::new()?;
    let site = world.scratch().to_owned();
    let server = Nginx::start(&world, None, &site, Some(SERVER_CORE))?;
    // The kernel answers nobody whom it has no way to; the engine answers the way that it was asked.
    let (network, by) = (super::STRANGERS_NETWORK, Side::Client.ipv4());
    let name = world.name(Side::Server);
    tool::run(&format!("ip -n {name} route add {network} via {by}"))?;
    let cookies = || kernel_cookies(&world);
    let seen = clients(&world, window, cookies)?;
    server.stop()?;
    Ok(seen)
}

/// Measures nginx on an engine, under a flood.
fn on_engine(binary: &Path, window: Duration) -> Result<Seen> {
    let world = World::new()?;
    let site = world.scratch().to_owned();
    let outboard = Outboard::new(binary, &world);
    let engine: Process = outboard.start_engine(&world, Some(SERVER_CORE))?;
    let server = Nginx::start(&world, Some(&outboard), &site, Some(SERVER_CORE))?;
    let cookies = || Ok(total(&outboard.stats()?, "tcp_syn_cookies_sent"));
    // It has seen one connection, so that what it has once is there.
    world.on(Side::Client, || fetch(Nginx::address()))?;
    let before = sampler::private_memory(engine.id())?;
    let mut seen = clients(&world, window, cookies)?;
    let after = sampler::private_memory(engine.id())?;
    seen.grown = Some(after as f64 - before as f64);
    server.stop()?;
    Ok(seen)
}

/// Floods, and measures what is answered, and the time of clients that come one after
/// another.
fn clients(world: &World, window: Duration, cookies: impl Fn() -> Result<f64>) -> Result<Seen> {
    let address = Nginx::address();
    let flood = SynFlood::start_from_core(world, address, FLOOD_CORE)?;
    std::thread::sleep(BEFORE);
    let (first, began) = (cookies()?, Instant::now());
    let mut seen = Seen::default();
    world.on(Side::Client, || {
        while began.elapsed() < window {
            match fetch(address)? {
                Some(time) => seen.clients_ms.push(time.as_secs_f64() * 1e3),
                None => seen.failed += 1,
            }
        }
        Ok(())
    })?;
    let passed = began.elapsed();
    seen.answered = (cookies()? - first) / passed.as_secs_f64();
    seen.sent = flood.stop()?.rate();
    Ok(seen)
}

/// SYN cookies that the kernel has sent on the server's side.
pub(crate) fn kernel_cookies(world: &World) -> Result<f64> {
    let text = world
        .program(Side::Server, "cat")
        .arg("/proc/net/netstat")
        .output()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next(), lines.next());
    let mut pairs = names
        .zip(values)
        .into_iter()
        .flat_map(|(names, values)| names.split(' ').zip(values.split(' ')));
    let value = pairs.find_map(|(name, value)| (name == "SyncookiesSent").then_some(value));
    value
        .and_then(|value| value.parse().ok())
        .context("the kernel does not count SYN cookies")
}

/// The time of one request on a connection of its own; `None`: it was not answered.
fn fetch(address: SocketAddr) -> Result<Option<Duration>> {
    fetch_within(address, PATIENCE)
}

/// As [`fetch`], by a client who waits no longer than this for anything.
pub(crate) fn fetch_within(address: SocketAddr, patience: Duration) -> Result<Option<Duration>> {
    let began = Instant::now();
    let exchange = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(b"GET /64 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    Ok(exchange().unwrap_or(false).then(|| began.elapsed()))
}

impl Report {
    fn row(table: &mut Table, name: &str, values: [Option<f64>; 2], digits: usize) {
        let cell =
            |value: Option<f64>| value.map_or_else(|| "–".into(), |v| format!("{v:.digits$}"));
        table.row([name.to_string(), cell(values[0]), cell(values[1])]);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = [&self.kernel, &self.engine];
        let mut table = Table::new(["", "kernel", "engine"]);
        Self::row(
            &mut table,
            "SYNs sent a second",
            both.map(|s| median(&s.sent)),
            0,
        );
        let answered = both.map(|s| median(&s.answered));
        Self::row(
            &mut table,
            "SYNs answered by a cookie, a second",
            answered,
            0,
        );
        // Of one there may be more rounds than of the other.
        let of_a_round =
            |s: &Series, all: f64| (!s.sent.is_empty()).then(|| all / s.sent.len() as f64);
        let served = both.map(|s| of_a_round(s, s.clients_ms.len() as f64));
        Self::row(&mut table, "clients served, a round", served, 1);
        let failed = both.map(|s| of_a_round(s, s.failed as f64));
        Self::row(&mut table, "clients not served, a round", failed, 1);
        for (name, part) in [
            ("median", 0.5),
            ("95 %", 0.95),
            ("99 %", 0.99),
            ("worst", 1.0),
        ] {
            let name = format!("a client's time, {name}, ms");
            let time = both.map(|s| quantile(&s.clients_ms, part));
            Self::row(&mut table, &name, time, 2);
        }
        let grown = both.map(|s| s.grown.iter().copied().reduce(f64::max));
        let grown = grown.map(|bytes| bytes.map(|bytes| bytes / 1024.0));
        Self::row(&mut table, "the engine's memory grew by, KiB", grown, 0);
        write!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

/// The value that this part of all does not exceed.
pub(crate) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}
