//! `outboard lab goodput`: how much a sender gets through a long wire that loses frames, on the
//! kernel's CUBIC and on the engine.
//!
//! Two worlds, one without an engine, one with it, in each nginx with a large file. Its clients are
//! on the kernel's TCP in both. The wire is the same in both, too, and loses by the same seeds; it
//! is so slow that the machine's own speed does not matter.

mod report;

pub use report::Report;

use crate::faults::{self, Faults, FaultyWire, Wire};
use crate::nginx::Nginx;
use crate::outboard::Outboard;
use crate::process::Process;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How to run the benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs engine and programs.
    pub binary: PathBuf,
    /// Rounds; each measures both stacks under every loss.
    pub rounds: usize,
    /// Length of each measurement, from when a connection stands.
    pub window: Duration,
    /// How likely a frame is to be lost, each way, from 0.0 to 1.0; one case each.
    pub losses: Vec<f64>,
    /// Connections at once.
    pub connections: usize,
    /// The round trip.
    pub round_trip: Duration,
    /// Bits a second, each way.
    pub bandwidth: u64,
    /// Bytes that may wait for bandwidth.
    pub queue: usize,
    /// What the seeds of the rounds begin with.
    pub seed: u64,
}

/// No connection waits longer than this for another byte.
const STALL: Duration = Duration::from_secs(20);
/// The file that is fetched: more than any measurement takes, and all of it a hole.
const FILE: (&str, u64) = ("large", 1 << 40);

/// Runs the benchmark. `say` is told what is being done.
pub fn run(plan: &Plan, mut say: impl FnMut(&str)) -> Result<Report> {
    if tool::find("nginx").is_none() {
        bail!("nginx is not installed: run make install-deps");
    }
    say("starting nginx on the kernel and on the engine");
    let subjects = [
        Subject::new(&plan.binary, false)?,
        Subject::new(&plan.binary, true)?,
    ];
    let mut report = Report::new(plan);
    for round in 0..plan.rounds {
        let seed = plan.seed + round as u64;
        for (case, &loss) in plan.losses.iter().enumerate() {
            // Whoever is measured first finds the machine differently: take turns.
            for turn in [round % 2, (round + 1) % 2] {
                let subject = &subjects[turn];
                say(&format!(
                    "round {} of {}: {} % loss, {}",
                    round + 1,
                    plan.rounds,
                    loss * 100.0,
                    ["kernel", "engine"][turn]
                ));
                report.add(case, turn, &once(plan, subject, loss, seed)?);
            }
        }
    }
    Ok(report)
}

/// Measures once.
pub(crate) fn once(plan: &Plan, subject: &Subject, loss: f64, seed: u64) -> Result<Found> {
    let wire = FaultyWire::start(&subject.world, plan.wire(loss), seed)?;
    let goodput = fetch(plan, &subject.world)?;
    // The server is to hear that they have gone, before the next.
    std::thread::sleep(4 * plan.round_trip);
    Ok(Found {
        goodput,
        wire: wire.stop()?,
    })
}

/// What came of one measurement.
#[derive(Debug)]
pub(crate) struct Found {
    /// Megabits a second that the clients got, all of them together.
    pub goodput: f64,
    wire: faults::Report,
}

/// A wire whose frames are later than this on average was not the one that was asked for.
const LATE: Duration = Duration::from_millis(2);

impl Found {
    /// Of all frames towards the clients, the share that was lost on purpose or for want of room.
    pub fn lost(&self) -> f64 {
        let passed = &self.wire.there;
        (passed.lost + passed.overflowed) as f64 / passed.received.max(1) as f64
    }

    /// What there is to say of a wire that was not the one that was asked for.
    pub fn late(&self) -> Vec<String> {
        let is_late = |passed: &&faults::Passed| {
            let late = passed.lateness.as_secs_f64() / passed.sent.max(1) as f64;
            passed.overrun > 0 || late > LATE.as_secs_f64()
        };
        let both = [&self.wire.there, &self.wire.back];
        both.into_iter()
            .filter(is_late)
            .map(ToString::to_string)
            .collect()
    }
}

impl Plan {
    /// Connections at once, if nobody says otherwise.
    pub const CONNECTIONS: usize = 4;
    /// The round trip.
    pub const ROUND_TRIP: Duration = Duration::from_millis(50);
    /// Bits a second, each way.
    pub const BANDWIDTH: u64 = 50_000_000;
    /// Bytes that may wait for bandwidth.
    pub const QUEUE: usize = 300_000;

    fn wire(&self, loss: f64) -> Wire {
        Wire {
            faults: Faults {
                loss,
                ..Faults::NONE
            },
            delay: self.round_trip / 2,
            bandwidth: Some(self.bandwidth),
            queue: self.queue,
        }
    }
}

/// One of the two that are compared.
pub(crate) struct Subject {
    _nginx: Nginx,
    _engine: Option<Process>,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Subject {
    /// nginx with a file without end, on the engine or on the kernel, behind a wire.
    pub fn new(binary: &Path, on_engine: bool) -> Result<Self> {
        let world = World::with_middle()?;
        let site = world.scratch().join("site");
        std::fs::create_dir_all(&site)?;
        let (name, length) = FILE;
        File::create(site.join(name))?.set_len(length)?;
        // By the route: where another algorithm is the machine's default, the setting that all
        // sockets of a namespace obey need not admit this one.
        tool::run(&format!(
            "ip -n {} route replace 10.77.0.0/24 dev {} proto kernel scope link src {} congctl cubic",
            world.name(Side::Server),
            Side::Server.interface(),
            Side::Server.ipv4()
        ))?;
        // Each connection begins without what earlier ones have learnt of the path.
        world.sysctl(Side::Server, "net.ipv4.tcp_no_metrics_save", "1")?;
        let wire = FaultyWire::start(&world, Wire::PERFECT, 0)?;
        let outboard = Outboard::new(binary, &world);
        let engine = on_engine
            .then(|| outboard.start_engine(&world, None))
            .transpose()?;
        let nginx = Nginx::start(&world, on_engine.then_some(&outboard), &site, None)?;
        wire.stop()?;
        Ok(Self {
            _nginx: nginx,
            _engine: engine,
            world,
        })
    }
}

/// Megabits a second that the clients get, all of them together.
fn fetch(plan: &Plan, world: &World) -> Result<f64> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.connections)
            .map(|_| {
                scope.spawn(|| {
                    world.enter(Side::Client)?;
                    fetch_one(plan.window)
                })
            })
            .collect();
        let mut sum = 0.0;
        for client in clients {
            match client.join() {
                Ok(goodput) => sum += goodput?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(sum)
    })
}

/// Megabits a second of one connection.
fn fetch_one(window: Duration) -> Result<f64> {
    let mut stream =
        TcpStream::connect_timeout(&Nginx::address(), STALL).context("no connection")?;
    stream.set_nodelay(true)?;
    let begin = Instant::now();
    write!(stream, "GET /{} HTTP/1.1\r\nHost: lab\r\n\r\n", FILE.0)?;
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        let Some(left) = window.checked_sub(begin.elapsed()).filter(|l| !l.is_zero()) else {
            return Ok(bytes as f64 * 8.0 / window.as_secs_f64() / 1e6);
        };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => bail!("the server has closed the connection"),
            Ok(count) => bytes += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("the connection broke"),
        }
    }
}
