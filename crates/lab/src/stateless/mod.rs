//! `outboard lab stateless`: responder and load client together, beside the bare rate of the
//! platform: the share of it that they reach is what their own work costs.
//!
//! In two placements. *A core each*: the driver's receive work of the server's interface, and the
//! program in it, run in a thread of their own (threaded NAPI) on the first core, the client on the
//! second. *One core*: a veth does that work where the sender is, so both ends share the client's
//! core, which saves the waking.

mod bare;

use crate::cores;
use crate::experiment::analysis::{Interval, paired_ratio};
use crate::experiment::used::SERVER;
use crate::kept::{Kept, Made};
use crate::process::Process;
use crate::sampler::account::{Spent, Watched};
use crate::statistics::median;
use crate::table::Table;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The core of the responder, and the client's.
const CORES: (usize, usize) = (0, 1);
/// How long the responder may take to answer.
const STARTING: Duration = Duration::from_secs(10);
/// Bytes of body of a response, where nobody says otherwise.
pub(crate) const SIZE: u32 = 64;
/// The share of the bare rate that is to be reached.
pub(crate) const GOAL: f64 = 0.8;

/// How to run the benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary.
    pub binary: PathBuf,
    /// Rounds; each measures everything.
    pub rounds: usize,
    /// Length of each measurement.
    pub window: Duration,
    /// Connections outstanding at once; as many frames are on their way in the bare measurement.
    pub connections: usize,
}

/// One way to make connections.
pub(crate) struct Case {
    pub name: &'static str,
    arguments: &'static [&'static str],
    /// Frames that must go each way for a request, by the protocol.
    pub frames: f64,
}

pub(crate) const CASES: [Case; 2] = [
    Case {
        name: "keep-alive, 64 bytes",
        arguments: &[],
        // The request, which acknowledges the response before; the response.
        frames: 1.0,
    },
    Case {
        name: "close, 64 bytes",
        arguments: &["--close"],
        // SYN, acknowledgement with request, FIN; SYN-ACK, response with FIN, acknowledgement.
        frames: 3.0,
    },
];

/// Where the responder's work is done.
pub(crate) const PLACEMENTS: [&str; 2] = ["a core each", "one core"];

/// What was measured of a case in a placement.
#[derive(Debug, Default)]
struct Series {
    case: &'static str,
    placement: &'static str,
    frames: f64,
    /// Bytes of a frame, in the mean of both ways, in the round before.
    length: Option<usize>,
    /// Frames that went out and came in for a request, and their bytes, by round.
    counted: Vec<Counted>,
    bare: Vec<f64>,
    requests: Vec<f64>,
    connections: Vec<f64>,
    errors: u64,
    lost: u64,
}

/// What the client's device counted, for each request.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    frames_out: f64,
    frames_in: f64,
    bytes_out: f64,
    bytes_in: f64,
}

impl Counted {
    fn of(said: &Value) -> Self {
        let requests = said["requests"].as_f64().unwrap_or(0.0).max(1.0);
        let each = |name: &str| said["device"][name].as_f64().unwrap_or(0.0) / requests;
        Self {
            frames_out: each("sent_frames"),
            frames_in: each("received_frames"),
            bytes_out: each("sent_bytes"),
            bytes_in: each("received_bytes"),
        }
    }

    /// Bytes of a frame, in the mean of both ways.
    fn length(&self) -> usize {
        let frames = self.frames_out + self.frames_in;
        ((self.bytes_out + self.bytes_in) / frames.max(1e-9)) as usize
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    series: Vec<Series>,
    window: Duration,
    connections: usize,
    /// What failed.
    notes: Vec<String>,
}

/// Runs the benchmark. `say` is told what is being done.
/// `stop` is set by whoever interrupts: what was measured by then is reported.
pub fn run(plan: &Plan, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<Made<Report>> {
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("this benchmark needs two cores: one for each end");
    }
    let worlds = worlds()?;
    let mut report = Report {
        series: Vec::new(),
        window: plan.window,
        connections: plan.connections,
        notes: Vec::new(),
    };
    let mut kept = Kept::new(stop, &mut say);
    for round in 0..plan.rounds {
        let mut at = 0;
        for case in &CASES {
            for (placement, world) in PLACEMENTS.into_iter().zip(&worlds) {
                let doing = format!(
                    "round {} of {}: {}, {placement}",
                    round + 1,
                    plan.rounds,
                    case.name
                );
                if round == 0 {
                    report.series.push(Series {
                        case: case.name,
                        placement,
                        frames: case.frames,
                        ..Series::default()
                    });
                }
                let series = &mut report.series[at];
                kept.one(&doing, || measure(world, plan, case, series));
                at += 1;
            }
        }
    }
    kept.end(report, |report, notes| report.notes = notes)
}

/// A world for each of the [`PLACEMENTS`].
pub(crate) fn worlds() -> Result<[World; 2]> {
    let worlds = [World::new()?, World::new()?];
    own_thread(&worlds[0])?;
    Ok(worlds)
}

fn measure(world: &World, plan: &Plan, case: &Case, series: &mut Series) -> Result<()> {
    // By turns, one or the other first: what changes slowly must not favour either.
    let bare_first = match series.length {
        Some(length) if series.bare.len() % 2 == 1 => Some(bare_rate(world, plan, length)?),
        _ => None,
    };
    let (said, _) = both_ends(world, plan, case, SIZE)?;
    let number = |name: &str| said[name].as_f64().unwrap_or(0.0);
    let counted = Counted::of(&said);
    let bare = match bare_first {
        Some(bare) => bare,
        None => bare_rate(world, plan, counted.length())?,
    };
    series.bare.push(bare);
    series.length = Some(counted.length());
    series.counted.push(counted);
    series.requests.push(number("requests_per_second"));
    series.connections.push(number("connections_per_second"));
    series.errors += said["errors"].as_u64().unwrap_or(0);
    series.lost += said["counters"]["syns_again"].as_u64().unwrap_or(0);
    Ok(())
}

/// Frames a second that go out and come back, each of `length` bytes.
pub(crate) fn bare_rate(world: &World, plan: &Plan, length: usize) -> Result<f64> {
    let _mirror = bare::mirror(world)?;
    world.on(Side::Client, || {
        cores::stay_on(CORES.1)?;
        bare::round_trips(world, length, plan.connections, plan.window)
    })
}

/// What came of both ends.
pub(crate) struct Ends {
    /// Requests a second.
    pub requests: f64,
    /// Connections a second.
    pub connections: f64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of a frame, in the mean of both ways.
    pub length: usize,
    /// What that took.
    pub spent: Spent,
}

/// Measures responder and client once, with bodies of `size` bytes.
pub(crate) fn ends(world: &World, plan: &Plan, case: &Case, size: u32) -> Result<Ends> {
    let (said, spent) = both_ends(world, plan, case, size)?;
    let number = |name: &str| said[name].as_f64().unwrap_or(0.0);
    Ok(Ends {
        requests: number("requests_per_second"),
        connections: number("connections_per_second"),
        errors: said["errors"].as_u64().unwrap_or(0),
        length: Counted::of(&said).length(),
        spent,
    })
}

fn both_ends(world: &World, plan: &Plan, case: &Case, size: u32) -> Result<(Value, Spent)> {
    let responder = start_responder(world, plan)?;
    let client = world
        .program(Side::Client, &plan.binary)
        .on_core(CORES.1)
        .args(["load", &format!("http://{}/?s={size}", Side::Server.ipv4())])
        .args(["-c", &plan.connections.to_string(), "--json"])
        .args(["-d", &format!("{}ms", plan.window.as_millis())])
        .args(case.arguments);
    let watched = Watched {
        processes: vec![(SERVER, responder.id())],
        ..Watched::default()
    };
    let (printed, spent) = watched.during(|_| client.output())?;
    responder.stop(STARTING)?;
    let said = serde_json::from_str(&printed);
    let said = said.with_context(|| format!("the load client said: {printed}"))?;
    Ok((said, spent))
}

fn start_responder(world: &World, plan: &Plan) -> Result<Process> {
    let log = world.scratch().join("respond.log");
    let mut responder = world
        .program(Side::Server, &plan.binary)
        .on_core(CORES.0)
        .args([
            "respond",
            "-i",
            Side::Server.interface(),
            "-L",
            ":80",
            "--json",
        ])
        .log(&log)
        .start()?;
    // It says something once a second when it is at work. (To ask it for an answer would need a
    // client whose interface polls.)
    responder.wait_until(STARTING, || {
        std::fs::metadata(&log).is_ok_and(|log| log.len() > 0)
    })?;
    Ok(responder)
}

/// Gives the server's interface a thread of its own for what it receives, on the responder's core.
fn own_thread(world: &World) -> Result<()> {
    let interface = Side::Server.interface();
    let before = receivers()?;
    // With coalescing on, a veth polls even without a program; what does not poll has no thread.
    tool::output(
        std::process::Command::new("ip")
            .args(["netns", "exec", world.name(Side::Server), "sh", "-c"])
            .arg(format!(
                "ethtool -K {interface} gro on && echo 1 >/sys/class/net/{interface}/threaded"
            )),
        "threaded NAPI",
    )?;
    let mut cores = CpuSet::new();
    cores.set(CORES.0);
    for thread in receivers()?.difference(&before) {
        sched_setaffinity(Some(*thread), &cores)?;
    }
    Ok(())
}

/// The threads that receive for interfaces of the server's name, here or in other worlds.
fn receivers() -> Result<HashSet<Pid>> {
    let name = format!("napi/{}", Side::Server.interface());
    let mut found = HashSet::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if let Some(pid) = pid.and_then(Pid::from_raw)
            && comm.starts_with(&name)
        {
            found.insert(pid);
        }
    }
    Ok(found)
}

impl Report {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let cases: Vec<_> = self
            .series
            .iter()
            .map(|series| {
                json!({
                    "case": series.case,
                    "placement": series.placement,
                    "frames_each_way": series.frames,
                    "frames_out": series.median(|one| one.frames_out),
                    "frames_in": series.median(|one| one.frames_in),
                    "bytes_out": series.median(|one| one.bytes_out),
                    "bytes_in": series.median(|one| one.bytes_in),
                    "bare_frame_bytes": series.length,
                    "bare_round_trips_per_second": series.bare,
                    "requests_per_second": series.requests,
                    "connections_per_second": series.connections,
                    "errors": series.errors,
                    "sent_again": series.lost,
                    "bare_allows_per_second": allowed(series),
                    "share_of_bare": share(series).map(|share| share.median),
                })
            })
            .collect();
        json!({
            "window_seconds": self.window.as_secs_f64(),
            "connections": self.connections,
            "cases": cases,
            "notes": self.notes,
        })
    }
}

impl Series {
    /// The median over the rounds.
    fn median(&self, of: impl Fn(&Counted) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.counted.iter().map(of).collect();
        median(&values)
    }
}

/// Requests a second that the bare rate allows, round by round: a request takes so many of its
/// round trips.
fn allowed(series: &Series) -> Vec<f64> {
    let bare = series.bare.iter();
    bare.map(|rate| rate / series.frames).collect()
}

/// The share of that which is reached, round by round.
fn share(series: &Series) -> Option<Interval> {
    paired_ratio(&series.requests, &allowed(series))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "case",
            "placement",
            "bare frames/s",
            "allows requests/s",
            "requests/s",
            "connections/s",
            "share",
            "interval",
            "goal",
            "frames out",
            "in",
            "bytes out",
            "in",
            "errors",
            "again",
        ]);
        table.left(0);
        table.left(1);
        for series in &self.series {
            let median = |values: &[f64]| {
                median(values).map_or(String::new(), |value| format!("{value:.0}"))
            };
            let each = |digits: usize, of: fn(&Counted) -> f64| {
                let value = series.median(of);
                value.map_or(String::new(), |value| format!("{value:.digits$}"))
            };
            let share = share(series);
            table.row([
                series.case.to_owned(),
                series.placement.to_owned(),
                median(&series.bare),
                median(&allowed(series)),
                median(&series.requests),
                median(&series.connections),
                share.map_or(String::new(), |share| format!("{:.2}", share.median)),
                share.map_or(String::new(), |share| share.shown(2)),
                format!("≥ {GOAL}"),
                each(2, |one| one.frames_out),
                each(2, |one| one.frames_in),
                each(0, |one| one.bytes_out),
                each(0, |one| one.bytes_in),
                series.errors.to_string(),
                series.lost.to_string(),
            ]);
        }
        writeln!(
            f,
            "Both stateless ends; {} connections, {} s a measurement",
            self.connections,
            self.window.as_secs_f64()
        )?;
        write!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(
            f,
            "Bare: frames of the same mean length, out by AF_XDP, back by XDP_TX, in by AF_XDP, as \
             many under way; in the same run. It allows a request for every {} frames each way with \
             keep-alive (request; response), for every {} with close (SYN, acknowledgement with \
             request, FIN; SYN-ACK, response with FIN, acknowledgement). Frames and bytes, each \
             way and for each request, are as the client's device counted them.",
            CASES[0].frames, CASES[1].frames
        )
    }
}
