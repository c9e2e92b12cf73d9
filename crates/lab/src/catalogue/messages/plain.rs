//! Tables 4.1.1 and 4.2.1 to 4.2.6: over plain TCP.

use super::super::bed::{Bed, Cost};
use super::super::tcp_servers::server::{self, Words};
use super::super::tcp_servers::{number, streams, subject as program};
use super::super::{Entry, Extent, Setup};
use super::claims::{claim, goal, measured, of_latencies, of_streams_here};
use super::{
    Beds, CPU, CPU_OF_GIGABIT, LARGE, MTU, PROGRAM_CPU, RATE, ROLES, SIZE, SMALL, as_there,
    direction, latency_measures, latency_pictures, mtu_axis, sizes, source, sources, told,
};
use crate::experiment::declaration::{Axis, Bound, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::{Context, Result};
use std::time::Duration;

pub const LATENCY: Entry = Entry {
    name: "message-latency",
    source: "002",
    about: "one-way latency and CPU by message size, with offload features off and on",
    needs: &["ethtool", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare: latency_declared,
    open: |setup| open(setup, measure_latency),
};

pub const THROUGHPUT: Entry = Entry {
    name: "message-throughput",
    source: "002",
    about: "Mb/s and CPU by message size, with offload features off and on",
    needs: &["ethtool", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare: throughput_declared,
    open: |setup| open(setup, measure_throughput),
};

const QUESTION: &str = "What do checksum offload and segmentation bring, by the size of messages, and does \
    the engine change it? 002 found nothing for small messages, and a gain from about 1,500 bytes on. (Its \
    tables print Mb/s as MB/s.)";

fn axes(extent: Extent) -> Vec<Axis> {
    vec![sizes(extent), mtu_axis(extent)]
}

fn latency_declared(extent: Extent) -> Experiment {
    Experiment {
        name: LATENCY.name.into(),
        title: "Latency of messages, with and without offload features".into(),
        question: QUESTION.into(),
        workload: "A message over TCP and as many bytes back, as netperf's TCP_RR has it: one connection, to a \
            program of outboard's own, by socket calls; half of the median round trip (the source: of the mean). CPU \
            of the program and of the engine is for a message and its answer"
            .into(),
        roles: ROLES.into(),
        axes: axes(extent),
        subjects: sources(extent),
        measures: latency_measures(),
        pictures: latency_pictures(extent, "One-way latency by size (002, graph 4.1.1)"),
        findings: source::latency(),
        left_out: Vec::new(),
        model: None,
        claims: latency_claims(extent),
    }
}

fn throughput_declared(extent: Extent) -> Experiment {
    let rates = direction::each(
        extent,
        "Throughput by size (002, graphs 4.2.1 and 4.2.3)",
        RATE,
    );
    let loads = direction::each(extent, "CPU by size (002, graphs 4.2.2 and 4.2.3)", CPU);
    let mut axes = axes(extent);
    axes.push(direction::axis(extent));
    let each = direction::each(extent, "CPU for as much, by size", CPU_OF_GIGABIT);
    Experiment {
        name: THROUGHPUT.name.into(),
        title: "Throughput of messages, with and without offload features".into(),
        question: QUESTION.into(),
        workload: "Messages of one size over TCP without a pause, as netperf's TCP_STREAM has it: one connection, \
            from a program of outboard's own, by socket calls; the lab, on the kernel's TCP, receives. Small \
            ones are joined (Nagle), as in the source. "
            .to_owned()
            + direction::WORDS,
        roles: ROLES.into(),
        axes,
        subjects: sources(extent),
        measures: vec![
            Measure::new(RATE, "Mb/s"),
            Measure::new(CPU, "%"),
            Measure::new(CPU_OF_GIGABIT, "ms"),
        ],
        pictures: rates
            .into_iter()
            .map(Picture::log_y)
            .chain(loads)
            .chain(each.into_iter().map(Picture::log_y))
            .collect(),
        findings: source::throughput(),
        left_out: Vec::new(),
        model: None,
        claims: throughput_claims(extent),
    }
}

/// By table 4.1.1: 860 to 728 µs for the largest, and nothing for what fits a frame.
fn latency_claims(extent: Extent) -> Vec<Claim> {
    let largest = ("Large messages take 15 % less by features", 0.85);
    let mut claims = of_latencies("table 4.1.1", largest);
    claims.extend([SMALL, LARGE].map(|size| {
        let says = "A program has less to do on the engine";
        goal(says, PROGRAM_CPU, as_there(size), Bound::AtMost(1.0))
    }));
    measured(extent, claims)
}

/// By tables 4.2.4 and 4.2.6, where the processors are the limit as they are here: 567 to 939 Mb/s for the largest at 38 %
/// of the CPU, which is 23 % of it for as much.
fn throughput_claims(extent: Extent) -> Vec<Claim> {
    let there = |says: &str, place: &str, measure: &str, size: &str, ratio| {
        claim(says, place, measure, direction::as_there(size), ratio)
    };
    let mut claims = vec![
        there(
            "Small messages gain nothing",
            "tables 4.2.4 and 4.2.6",
            RATE,
            SMALL,
            Bound::AtMost(1.05),
        ),
        there(
            "Features carry 66 % more of large messages where processors are the limit",
            "tables 4.2.4 and 4.2.6",
            RATE,
            LARGE,
            Bound::AtLeast(1.65),
        ),
        there(
            "Features take half of the CPU for as much of large messages",
            "tables 4.2.4 and 4.2.6, where it is less: 38 % of the CPU for 939 Mb/s, beside all of it for 567",
            CPU_OF_GIGABIT,
            LARGE,
            Bound::AtMost(0.5),
        ),
    ];
    claims.extend(of_streams_here());
    measured(extent, claims)
}

/// How one of them measures messages of this size.
type Measured = fn(&Setup, &Bed, &At<'_>, usize) -> Result<Sample>;

struct Plain {
    beds: Beds,
    measured: Measured,
}

fn open(setup: &Setup, measured: Measured) -> Result<Box<dyn Bench>> {
    let beds = Beds::new(setup);
    Ok(Box::new(Plain { beds, measured }))
}

impl Bench for Plain {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.beds.get(at.subject, at.number(MTU)? as u32).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (mtu, size) = (at.number(MTU)? as u32, at.number(SIZE)? as usize);
        let setup = self.beds.setup.clone();
        (self.measured)(&setup, self.beds.get(at.subject, mtu)?, at, size)
    }
}

fn measure_latency(setup: &Setup, bed: &Bed, at: &At<'_>, size: usize) -> Result<Sample> {
    latency(setup, bed, size, at.window)
}

fn measure_throughput(setup: &Setup, bed: &Bed, at: &At<'_>, size: usize) -> Result<Sample> {
    match direction::sends(at)? {
        true => sending(setup, bed, size, at.window),
        false => receiving(setup, bed, size, at.window),
    }
}

/// Half of the median round trip, and what a message and its answer cost.
pub(super) fn latency(setup: &Setup, bed: &Bed, size: usize, window: Duration) -> Result<Sample> {
    let words = Words {
        way: &["sockets"],
        size,
        is_interposed: bed.outboard().is_some(),
        is_on_engine: true,
    };
    let server = server::start(setup, bed, &words)?;
    let ask = || server::exchanges(size, window);
    let (mut times, cost) = bed.account_with(&[server.id()], || server::as_client(bed, ask))?;
    server.kill()?;
    cost.came_to_engine()?;
    let [median, high] =
        server::quantiles(&mut times, [0.5, 0.99]).context("not a single message")?;
    // CPU is of what comes before those that are timed, too.
    let messages = times.len() + server::WARM_UP;
    Ok(told([median / 2.0, high], messages as f64, &cost))
}

/// Mb/s of a subject that sends, and how busy the machine was, in percent.
pub(super) fn sending(setup: &Setup, bed: &Bed, size: usize, window: Duration) -> Result<Sample> {
    let size = size.to_string();
    let sender = program(setup, bed, bed.outboard().is_some());
    let sender = sender.args(["stream", "--way", "sockets", "--size", &size]);
    let (received, _, cost) = streams::sent_by(sender, bed, window)?;
    streamed(received.bytes as f64, received.passed, &cost)
}

/// The same of a subject that receives what is sent in messages of this size: what it asks for at once is more.
pub(super) fn receiving(setup: &Setup, bed: &Bed, size: usize, window: Duration) -> Result<Sample> {
    let piece = streams::PIECE.to_string();
    let receiver = program(setup, bed, bed.outboard().is_some());
    let receiver = receiver.args(["sink", "--way", "sockets", "--piece", &piece]);
    let (bytes, found, cost) = streams::received_by(receiver, bed, size, window)?;
    let passed = Duration::try_from_secs_f64(number(&found, "seconds")?)?;
    streamed(bytes, passed, &cost)
}

fn streamed(bytes: f64, passed: Duration, cost: &Cost) -> Result<Sample> {
    cost.came_to_engine()?;
    let rate = 8.0 * bytes / 1e6 / passed.as_secs_f64().max(1e-9);
    let sample = cost.sample(passed).with(RATE, rate);
    Ok(with_machine(sample, rate, cost))
}

/// With how busy the machine was for a stream of so many Mb/s.
pub(super) fn with_machine(sample: Sample, rate: f64, cost: &Cost) -> Sample {
    let passed = cost.spent.passed.as_secs_f64().max(1e-9);
    let each = cost.machine().as_secs_f64() / passed / (rate / 1e3).max(1e-9);
    sample
        .with(CPU, 100.0 * cost.spent.share_of_machine())
        .with(CPU_OF_GIGABIT, 1e3 * each)
}
