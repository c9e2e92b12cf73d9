//! 002: latency and throughput by the size of messages, with the interface's offload features off,
//! with checksums only, and with all of them, and with MTUs of 1500 and 9000; on the kernel and on the engine.

use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::process::{Process, Program};
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

pub const LATENCY: Entry = Entry {
    name: "message-latency",
    source: "002",
    about: "one-way latency by message size, with offload features off and on",
    needs: &["sockperf", "ethtool", "taskset"],
    seconds: (5, 1),
    declare: |extent| declare(Kind::Latency, extent),
    open: |setup| open(Kind::Latency, setup),
};

pub const THROUGHPUT: Entry = Entry {
    name: "message-throughput",
    source: "002",
    about: "Mb/s and CPU by message size, with offload features off and on",
    needs: &["sockperf", "ethtool", "taskset"],
    seconds: (5, 1),
    declare: |extent| declare(Kind::Throughput, extent),
    open: |setup| open(Kind::Throughput, setup),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Latency,
    Throughput,
}

const SIZE: &str = "message";
const MTU: &str = "MTU";
/// What an Ethernet has, and jumbo frames.
const MTUS: [f64; 2] = [1_500.0, 9_000.0];
const ONE_WAY: &str = "one-way latency";
const RATE: &str = "throughput";
const CPU: &str = "CPU of the machine";
/// Names, and what ethtool is told. Segmentation needs scatter-gather, and that needs checksums.
const FEATURES: [(&str, &str); 3] = [
    ("off", "tx off rx off sg off tso off gso off gro off"),
    ("checksums", "tx on rx on sg off tso off gso off gro off"),
    ("all", "tx on rx on sg on tso on gso on gro on"),
];
/// sockperf's messages have a head of 14 bytes, and no more than 65,507 in all.
const SIZES: [f64; 13] = [
    16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0, 32_768.0,
    65_507.0,
];
const PORT: u16 = 7_008;
/// How long a server may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(30);

fn subject(stack: &str, features: &str) -> String {
    format!("{stack}, {features}")
}

fn declare(kind: Kind, extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick {
        &[64.0, 4_096.0, 65_507.0]
    } else {
        &SIZES[..]
    };
    let features = FEATURES
        .iter()
        .filter(|(name, _)| !quick || *name != "checksums");
    let features: Vec<&str> = features.map(|(name, _)| *name).collect();
    let each = |stack: &&'static str| {
        let stack = *stack;
        features
            .iter()
            .map(move |name| subject(stack, name))
            .collect::<Vec<_>>()
    };
    let (entry, measure, unit) = match kind {
        Kind::Latency => (LATENCY, ONE_WAY, "µs"),
        Kind::Throughput => (THROUGHPUT, RATE, "Mb/s"),
    };
    let claim = |says: &str, size: &str, ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "002".into(),
            place: "section 5".into(),
        },
        measure: measure.into(),
        subject: subject(STACKS[0], "all"),
        to: subject(STACKS[0], "off"),
        at: vec![(SIZE.into(), size.into())],
        ratio,
    };
    let mut measures = vec![Measure::new(measure, unit)];
    if kind == Kind::Throughput {
        measures.push(Measure::new(CPU, "%"));
    }
    let mut pictures = vec![
        Picture::new(
            match kind {
                Kind::Latency => "One-way latency by size (002, graph 4.1.1)",
                Kind::Throughput => "Throughput by size (002, graph 4.2.3)",
            },
            SIZE,
            measure,
        )
        .log_x()
        .log_y(),
    ];
    if kind == Kind::Throughput {
        pictures.push(Picture::new("CPU by size (002, graph 4.2.3)", SIZE, CPU).log_x());
    }
    Experiment {
        name: entry.name.into(),
        title: match kind {
            Kind::Latency => "Latency of messages, with and without offload features",
            Kind::Throughput => "Throughput of messages, with and without offload features",
        }
        .into(),
        question: "What do checksum offload and segmentation bring, by the size of messages, and does \
            the engine change it? 002 found nothing for small messages, and a gain from about 1,500 \
            bytes on. (Its tables print Mb/s as MB/s.)"
            .into(),
        workload: match kind {
            Kind::Latency => "sockperf ping-pong over TCP, one connection; half of the median round trip",
            Kind::Throughput => {
                "sockperf throughput over TCP, one connection: the subject sends, a server on the \
                 kernel's TCP at the other end receives"
            }
        }
        .into(),
        roles: "the subject's program and engine on core 0, the other end on core 1; features are \
            those of the subject's interface"
            .into(),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            Axis::of_numbers(MTU, "B", &MTUS),
        ],
        subjects: STACKS.iter().flat_map(each).collect(),
        measures,
        pictures,
        findings: findings(kind),
        model: None,
        claims: match kind {
            Kind::Latency => vec![
                claim("Small messages gain nothing", "64", Bound::AtLeast(0.95)),
                claim("Large messages are faster by features", "65507", Bound::AtMost(1.0)),
            ],
            Kind::Throughput => {
                vec![claim("Features raise throughput of large messages", "65507", Bound::AtLeast(1.0))]
            }
        },
    }
}

struct Messages {
    kind: Kind,
    /// For each stack one of each MTU, which an engine finds when it starts.
    beds: Vec<Bed>,
}

fn open(kind: Kind, setup: &Setup) -> Result<Box<dyn Bench>> {
    let bed = |stack: &str, mtu: f64| {
        let world = World::new()?;
        for side in [Side::Server, Side::Client] {
            let (name, interface) = (world.name(side), side.interface());
            tool::run(&format!("ip -n {name} link set {interface} mtu {mtu}"))?;
        }
        Bed::in_world(setup, stack, world)
    };
    let all = STACKS.iter().flat_map(|stack| MTUS.map(|mtu| (stack, mtu)));
    let beds = all.map(|(stack, mtu)| bed(stack, mtu));
    Ok(Box::new(Messages {
        kind,
        beds: beds.collect::<Result<_>>()?,
    }))
}

impl Bench for Messages {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let Some((stack, features)) = at.subject.split_once(", ") else {
            bail!("no stack and features in {}", at.subject);
        };
        let mtu = at.number(MTU)?;
        let mtu = MTUS.iter().position(|known| *known == mtu);
        let mtu = mtu.context("no such MTU")?;
        let bed = &self.beds[usize::from(stack == STACKS[1]) * MTUS.len() + mtu];
        let settings = FEATURES.iter().find(|(name, _)| *name == features);
        let (_, settings) = settings.with_context(|| format!("no features {features}"))?;
        let ethtool = bed.world().program(Side::Server, "ethtool");
        let ethtool = ethtool.args(["-K", Side::Server.interface()]);
        ethtool.args(settings.split(' ')).output()?;
        let size = at.word(SIZE)?;
        match self.kind {
            Kind::Latency => latency(bed, size, at.window),
            Kind::Throughput => throughput(bed, size, at.window),
        }
    }
}

/// sockperf on a side: on the subject's stack if it is the server's.
fn sockperf(bed: &Bed, side: Side) -> Program {
    let world = bed.world();
    let core = match side {
        Side::Server => SERVER_CORE,
        Side::Client => CLIENT_CORE,
    };
    let program = match (side, bed.outboard()) {
        (Side::Server, Some(outboard)) => outboard.on_engine(world, "sockperf"),
        _ => world.program(side, "sockperf"),
    };
    program.on_core(core)
}

/// A server on a side, and what its client says of it, once it is up.
fn exchange(bed: &Bed, server: Side, kind: &str, size: &str, window: Duration) -> Result<String> {
    let client = match server {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    };
    let address = server.ipv4().to_string();
    let port = PORT.to_string();
    let mut serving: Process = sockperf(bed, server)
        .args(["server", "--tcp", "-i", &address, "-p", &port])
        .log(bed.world().scratch().join("sockperf.log"))
        .start()?;
    if let (Side::Server, Some(outboard)) = (server, bed.outboard()) {
        outboard.wait_until_taken(&mut serving, STARTING, PORT, || true)?;
    }
    let asking = sockperf(bed, client)
        .args([kind, "--tcp", "-i", &address, "-p", &port, "-m", size])
        .args(["-t", &window.as_secs().max(1).to_string()]);
    let began = Instant::now();
    loop {
        // It fails while the server is not up yet.
        match asking.output() {
            Ok(printed) if printed.contains("Summary:") => {
                serving.kill()?;
                return Ok(printed);
            }
            other if began.elapsed() > STARTING => {
                bail!("sockperf said: {:?} {}", other, serving.printed());
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn latency(bed: &Bed, size: &str, window: Duration) -> Result<Sample> {
    let printed = exchange(bed, Side::Server, "ping-pong", size, window)?;
    let median = number_after(&printed, "percentile 50.000 =");
    let median = median.with_context(|| format!("sockperf said: {printed}"))?;
    Ok(Sample::default().with(ONE_WAY, median))
}

fn throughput(bed: &Bed, size: &str, window: Duration) -> Result<Sample> {
    let run = || exchange(bed, Side::Client, "throughput", size, window);
    let (printed, cost) = bed.account(run)?;
    if cost.spent.engine.is_some_and(|engine| engine.batch == 0.0) {
        bail!("the connection was not on the engine");
    }
    let rate = number_after(&printed, "Message Rate is");
    let rate = rate.with_context(|| format!("sockperf said: {printed}"))?;
    let bits = rate * size.parse::<f64>()? * 8.0;
    let all = &cost.spent.cores.all;
    Ok(Sample::default()
        .with(RATE, bits / 1e6)
        .with(CPU, 100.0 * all.busy() / all.total().max(1e-9)))
}

fn number_after(printed: &str, words: &str) -> Option<f64> {
    let (_, rest) = printed.split_once(words)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The sizes of the source that are measured here, too.
const SOURCES: [f64; 12] = [
    16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0, 32_768.0,
];
/// The largest, which is 29 bytes less here.
const LARGEST: f64 = 65_536.0;

fn findings(kind: Kind) -> Vec<Finding> {
    let finding = |name: &str, measure: &str, place: &str, column: &[f64; 13]| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: measure.into(),
        points: SOURCES
            .into_iter()
            .chain([LARGEST])
            .zip(column.iter().copied())
            .collect(),
        citation: Citation {
            document: "002".into(),
            place: place.into(),
        },
    };
    match kind {
        Kind::Latency => vec![
            finding(
                "off there",
                ONE_WAY,
                "table 4.1.1",
                &[
                    30.39, 30.63, 32.26, 32.85, 34.93, 38.28, 46.89, 67.15, 88.0, 142.97, 246.49,
                    442.11, 859.55,
                ],
            ),
            finding(
                "all there",
                ONE_WAY,
                "table 4.1.1",
                &[
                    32.39, 32.73, 33.28, 33.84, 36.03, 39.67, 48.53, 69.79, 88.79, 143.1, 226.0,
                    385.59, 727.87,
                ],
            ),
        ],
        Kind::Throughput => vec![
            finding(
                "off there",
                RATE,
                "table 4.2.4",
                &[
                    149.9, 236.2, 322.52, 381.32, 435.7, 478.07, 506.46, 536.83, 553.07, 587.43,
                    586.72, 581.63, 566.82,
                ],
            ),
            finding(
                "all there",
                RATE,
                "table 4.2.6",
                &[
                    118.43, 214.4, 265.96, 356.54, 425.49, 479.75, 496.21, 606.33, 938.94, 938.95,
                    938.95, 938.95, 938.95,
                ],
            ),
            finding(
                "all there, one of its processors",
                CPU,
                "table 4.2.6",
                &[
                    99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 82.3, 59.04, 39.06, 36.78,
                    37.74,
                ],
            ),
        ],
    }
}
