//! `outboard lab respond`: the stateless responder and nginx on the kernel's TCP, in turn, under
//! the same wrk over a veth.

pub(crate) mod flood;
mod responder;

use crate::experiment::analysis::paired_ratio;
use crate::kept::{Kept, Made, keep};
use crate::nginx::Nginx;
use crate::process::Process;
use crate::statistics::median;
use crate::table::Table;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use aya::sys::{Stats, enable_stats};
pub use responder::Plan;
pub(crate) use responder::end;
use responder::{PORT, start_with, target};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests a second by round: keep-alive, close; of nginx and of the responder.
    rates: [[Vec<f64>; 2]; 2],
    /// Nanoseconds of a run of the programs, by round: steering and responder together, and one
    /// that lets frames pass, which is what counting alone costs and little more.
    costs: [Vec<f64>; 2],
    /// By round.
    floods: Vec<flood::Flood>,
    /// What failed.
    notes: Vec<String>,
}

/// Runs it. `say` is told what is being done.
/// `stop` is set by whoever interrupts: what was measured by then is reported.
pub fn run(plan: &Plan, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<Made<Report>> {
    for needed in ["nginx", "wrk"] {
        if tool::find(needed).is_none() {
            bail!("{needed} is not installed: scripts/deps.sh test");
        }
    }
    let pair = Pair::new(&plan.binary, plan.connections)?;
    let mut report = Report::default();
    let mut kept = Kept::new(stop, &mut say);
    for round in 1..=plan.rounds {
        for (index, close) in [false, true].into_iter().enumerate() {
            let kind = if close { "close" } else { "keep-alive" };
            let doing = format!("round {round}: {kind}, nginx");
            let nginx = || {
                let nginx = pair.nginx()?;
                let rate = pair.rate_of_nginx(close, plan.window)?;
                nginx.stop()?;
                Ok(rate)
            };
            if let Some(rate) = kept.one(&doing, nginx) {
                keep(&mut report.rates[index][0], round - 1, rate);
            }
            let doing = format!("round {round}: {kind}, responder");
            let responder = || pair.with_responder(|_| pair.rate_of_responder(close, plan.window));
            if let Some(rate) = kept.one(&doing, responder) {
                keep(&mut report.rates[index][1], round - 1, rate);
            }
        }
        let doing = format!("round {round}: cost of the program");
        let cost = || pair.with_responder(|responder| pair.cost(responder, plan.window));
        if let Some((most, least)) = kept.one(&doing, cost).flatten() {
            report.costs[0].push(most);
            report.costs[1].push(least);
        }
        let doing = format!("round {round}: a flood of SYNs");
        let flooded = kept.one(&doing, || flood::measure(plan, &pair.world));
        report.floods.extend(flooded);
    }
    kept.end(report, |report, notes| report.notes = notes)
}

/// Both servers of one world, each started when it is measured.
pub(crate) struct Pair {
    binary: PathBuf,
    connections: usize,
    site: PathBuf,
    world: World,
}

impl Pair {
    /// The world, and no server yet.
    pub fn new(binary: &Path, connections: usize) -> Result<Self> {
        let world = World::new()?;
        // From the responder's own ports no connection is answered; wrk would have one less.
        let reserved = PORT.to_string();
        world.sysctl(Side::Client, "net.ipv4.ip_local_reserved_ports", &reserved)?;
        let site = world.scratch().join("site");
        fs::create_dir_all(&site)?;
        Ok(Self {
            binary: binary.to_owned(),
            connections,
            site,
            world,
        })
    }

    /// The network of both.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Where the responder listens.
    pub fn target() -> SocketAddr {
        target()
    }

    /// Starts nginx.
    pub fn nginx(&self) -> Result<Nginx> {
        Nginx::start(&self.world, None, &self.site, None)
    }

    /// Starts the responder.
    pub fn responder(&self) -> Result<Process> {
        start_with(&self.binary, &self.world, &["-q"])
    }

    /// As [`responder`](Self::responder), and it prints what it has counted.
    pub fn counting_responder(&self) -> Result<Process> {
        start_with(&self.binary, &self.world, &["--json"])
    }

    /// Starts the responder, does `work`, and ends it.
    fn with_responder<T>(&self, work: impl FnOnce(&Process) -> Result<T>) -> Result<T> {
        let responder = self.responder()?;
        let done = work(&responder)?;
        end(responder)?;
        Ok(done)
    }

    /// Requests a second of nginx.
    pub fn rate_of_nginx(&self, close: bool, window: Duration) -> Result<f64> {
        self.wrk(&format!("{}/64", Nginx::address()), close, window)
    }

    /// Requests a second of the responder.
    pub fn rate_of_responder(&self, close: bool, window: Duration) -> Result<f64> {
        self.wrk(&asked(), close, window)
    }

    /// Nanoseconds of a run of the programs: steering and responder together, and one that lets
    /// frames pass. Counting costs something itself, so it is on in a measurement of its own.
    pub fn cost(&self, responder: &Process, window: Duration) -> Result<Option<(f64, f64)>> {
        // The kernel counts as long as somebody has the descriptor, and no longer, however we end.
        let counting = enable_stats(Stats::RunTime)?;
        self.wrk(&asked(), false, window)?;
        let mut costs = costs(responder.id())?;
        drop(counting);
        costs.sort_by(f64::total_cmp);
        Ok(match costs[..] {
            [least, .., most] => Some((most, least)),
            _ => None,
        })
    }

    /// Requests a second that wrk reaches.
    fn wrk(&self, target: &str, close: bool, window: Duration) -> Result<f64> {
        let mut program = self
            .world
            .program(Side::Client, "wrk")
            .args(["-t2", &format!("-c{}", self.connections)])
            .arg(format!("-d{}s", window.as_secs().max(1)));
        if close {
            program = program.args(["-H", "Connection: close"]);
        }
        let printed = program.arg(format!("http://{target}")).output()?;
        let rate = printed
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"));
        rate.and_then(|rate| rate.trim().parse().ok())
            .with_context(|| format!("wrk did not say how many requests a second: {printed}"))
    }
}

/// What wrk asks the responder for.
fn asked() -> String {
    format!("{}/", target())
}

/// Nanoseconds of a run of every program that a process holds and that ran often: the kernel tells
/// them with the descriptors.
fn costs(pid: u32) -> Result<Vec<f64>> {
    let directory = Path::new("/proc").join(pid.to_string()).join("fdinfo");
    let mut costs = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let value = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        if let (Some(time), Some(runs)) = (value("run_time_ns:"), value("run_cnt:"))
            && runs > 1000.0
        {
            costs.push(time / runs);
        }
    }
    Ok(costs)
}

impl Report {
    /// Every round's figures.
    pub fn to_json(&self) -> Value {
        let rates = |rates: &[Vec<f64>; 2]| json!({ "nginx": rates[0], "responder": rates[1] });
        json!({
            "requests_per_second": {
                "keep_alive": rates(&self.rates[0]),
                "close": rates(&self.rates[1]),
            },
            "nanoseconds_a_run": { "responder": self.costs[0], "passing": self.costs[1] },
            "notes": self.notes,
            "syn_flood": self.floods.iter().map(|flood| flood.to_json()).collect::<Vec<_>>(),
        })
    }
}

/// A figure, if it was measured.
fn shown(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.0}"))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["", "nginx req/s", "responder req/s", "ratio", "goal"]);
        let names = [("keep-alive", "1.8"), ("close", "4")];
        for ((name, goal), rates) in names.into_iter().zip(&self.rates) {
            let figure = |values: &[f64]| shown(median(values));
            let ratio = paired_ratio(&rates[1], &rates[0])
                .map(|ratio| format!("{:.2} {}", ratio.median, ratio.shown(2)));
            table.row([
                name.to_string(),
                figure(&rates[0]),
                figure(&rates[1]),
                ratio.unwrap_or_default(),
                goal.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        let mut floods: Vec<_> = self.floods.iter().collect();
        floods.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        if let Some(flood) = floods.get(floods.len() / 2) {
            writeln!(f, "{}", flood.describe())?;
        }
        let cost = |values: &[f64]| shown(median(values));
        writeln!(
            f,
            "one run of the program: {} ns (steering and responder, acknowledgements included); of \
             one that lets frames pass, by the same count: {} ns; goal: 150",
            cost(&self.costs[0]),
            cost(&self.costs[1])
        )?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
