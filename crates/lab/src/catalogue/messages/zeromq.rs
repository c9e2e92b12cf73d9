//! Tables 4.1.2, 4.2.7 and 4.2.8: with ZeroMQ, an unmodified libzmq on the kernel's TCP and on the engine.

use super::super::bed::{Bed, CLIENT_CORE, SERVER_CORE};
use super::super::tcp_servers::{number, read};
use super::super::{Entry, Extent, Setup};
use super::claims::{claim, measured, of_latencies, of_streams_here};
use super::{
    Beds, CPU, CPU_OF_GIGABIT, LARGE, MTU, MTUS, RATE, ROLES, SIZE, direction, latency_measures,
    latency_pictures, mtu_axis, plain, sizes, source, sources, told,
};
use crate::experiment::declaration::{Bound, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::process::Program;
use crate::sampler::own_time;
use crate::world::Side;
use crate::zeromq::compile;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const LATENCY: Entry = Entry {
    name: "zeromq-latency",
    source: "002",
    about: "ZeroMQ: one-way latency and CPU by message size, with offload features off and on",
    needs: &["cc", "/usr/include/zmq.h", "ethtool", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare: latency_declared,
    open: |setup| open(setup, latency),
};

pub const THROUGHPUT: Entry = Entry {
    name: "zeromq-throughput",
    source: "002",
    about: "ZeroMQ: messages a second, Mb/s and CPU by size, with offload features off and on",
    needs: &["cc", "/usr/include/zmq.h", "ethtool", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare: throughput_declared,
    open: |setup| open(setup, throughput),
};

const MESSAGES: &str = "messages";
/// Of which the source has no more with features than without. Of those of 64 B it has a half more.
const SMALLEST: &str = "4";
const PORT: u16 = 7_010;
/// Messages that the program does not time at first, as it has it.
const WARM_UP: f64 = 100.0;
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

const QUESTION: &str = "What do the features of the interface bring to programs that do not send by themselves, \
    but by a library for messages? 002 found up to 29 % less latency and 39 % more throughput for large \
    messages, and next to nothing for small ones. (Its tables print Mb/s as MB/s.)";

/// By table 4.1.2: 1,013 to 715 µs for the largest.
fn latency_claims(extent: Extent) -> Vec<Claim> {
    let largest = ("Large messages take 29 % less by features", 0.71);
    measured(extent, of_latencies("table 4.1.2", largest))
}

/// By tables 4.2.7 and 4.2.8: 550 to 763 Mb/s for the largest.
fn throughput_claims(extent: Extent) -> Vec<Claim> {
    let there = |says: &str, size: &str, ratio| {
        let at = direction::as_there(size);
        claim(says, "tables 4.2.7 and 4.2.8", RATE, at, ratio)
    };
    let mut claims = vec![
        there(
            "The smallest messages gain nothing",
            SMALLEST,
            Bound::AtMost(1.1),
        ),
        there(
            "Features carry 39 % more of large messages",
            LARGE,
            Bound::AtLeast(1.38),
        ),
    ];
    claims.extend(of_streams_here());
    measured(extent, claims)
}

fn latency_declared(extent: Extent) -> Experiment {
    Experiment {
        name: LATENCY.name.into(),
        title: "Latency of messages with ZeroMQ".into(),
        question: QUESTION.into(),
        workload: "As local_lat and remote_lat: one connection, a request to a REP socket and as many bytes back, \
            one after another; half of the mean round trip. CPU of the program, with its thread for sockets, and of the \
            engine is for a message and its answer"
            .into(),
        roles: ROLES.into(),
        axes: vec![sizes(extent), mtu_axis(extent)],
        subjects: sources(extent),
        measures: latency_measures(),
        pictures: latency_pictures(extent, "One-way latency with ZeroMQ (002, graph 4.1.2)"),
        findings: source::zeromq_latency(),
        left_out: Vec::new(),
        model: None,
        claims: latency_claims(extent),
    }
}

fn throughput_declared(extent: Extent) -> Experiment {
    let picture = |title: &str, measure: &str| direction::each(extent, title, measure);
    let tables = "002, tables 4.2.7 and 4.2.8";
    let rates = picture("Throughput with ZeroMQ (002, graph 4.2.4)", RATE);
    let messages = picture(&format!("Messages with ZeroMQ ({tables})"), MESSAGES);
    let loads = picture(&format!("CPU with ZeroMQ ({tables})"), CPU);
    let each = picture("CPU with ZeroMQ, for as much", CPU_OF_GIGABIT);
    Experiment {
        name: THROUGHPUT.name.into(),
        title: "Throughput of messages with ZeroMQ".into(),
        question: QUESTION.into(),
        workload: "As local_thr and remote_thr: one connection, the subject's PUSH socket sends without a pause, \
            a PULL socket on the kernel's TCP receives; by the receiver's clock. ZeroMQ joins small messages. Where \
            the subject receives, its is the PULL socket"
            .into(),
        roles: ROLES.into(),
        axes: vec![sizes(extent), mtu_axis(extent), direction::axis(extent)],
        subjects: sources(extent),
        measures: vec![
            Measure::new(RATE, "Mb/s"),
            Measure::new(MESSAGES, "1/s"),
            Measure::new(CPU, "%"),
            Measure::new(CPU_OF_GIGABIT, "ms"),
        ],
        pictures: rates
            .into_iter()
            .chain(messages)
            .chain(each)
            .map(Picture::log_y)
            .chain(loads)
            .collect(),
        findings: source::zeromq_throughput(MESSAGES),
        left_out: Vec::new(),
        model: None,
        claims: throughput_claims(extent),
    }
}

/// How one of them measures on a bed with the compiled program.
type Measured = fn(&Bed, &Path, &At<'_>) -> Result<Sample>;

struct ZeroMq {
    program: PathBuf,
    measured: Measured,
    beds: Beds,
}

fn open(setup: &Setup, measured: Measured) -> Result<Box<dyn Bench>> {
    let mut beds = Beds::new(setup);
    // The first bed keeps it.
    let first = setup.subjects.first().context("no subject")?;
    let first = beds.get(first, MTUS[0])?;
    let program = compile(first.world().scratch())?;
    Ok(Box::new(ZeroMq {
        program,
        measured,
        beds,
    }))
}

impl Bench for ZeroMq {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.beds.get(at.subject, at.number(MTU)? as u32).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.beds.get(at.subject, at.number(MTU)? as u32)?;
        (self.measured)(bed, &self.program, at)
    }
}

/// The program on a side: on the subject's stack if it is the server's.
fn on(bed: &Bed, side: Side, program: &Path) -> Program {
    let world = bed.world();
    match (side, bed.outboard()) {
        (Side::Server, Some(outboard)) => outboard.on_engine(world, program).on_core(SERVER_CORE),
        (Side::Server, None) => world.program(side, program).on_core(SERVER_CORE),
        (Side::Client, _) => world.program(side, program).on_core(CLIENT_CORE),
    }
}

fn seconds(at: &At<'_>) -> String {
    at.window.as_secs().max(1).to_string()
}

fn endpoint(side: Side) -> String {
    format!("tcp://{}:{PORT}", side.ipv4())
}

fn latency(bed: &Bed, program: &Path, at: &At<'_>) -> Result<Sample> {
    let (size, endpoint) = (at.word(SIZE)?, endpoint(Side::Server));
    let mut server = on(bed, Side::Server, program)
        .args(["answer", &endpoint])
        .log(bed.world().scratch().join("answer.log"))
        .start()?;
    match bed.outboard() {
        Some(outboard) => outboard.wait_until_taken(&mut server, LIMIT, PORT, || true)?,
        None => {
            let address = SocketAddr::from((Side::Server.ipv4(), PORT));
            server.wait_until(LIMIT, || bed.world().is_reached(address))?;
        }
    }
    let ask = || {
        let client = on(bed, Side::Client, program);
        client.args(["ask", &endpoint, size, &seconds(at)]).output()
    };
    let (printed, cost) = bed.account_with(&[server.id()], ask)?;
    server.kill()?;
    cost.came_to_engine()?;
    let found = read(&printed)?;
    let times = [number(&found, "one_way_us")?, number(&found, "high_us")?];
    Ok(told(times, number(&found, "trips")? + WARM_UP, &cost))
}

fn throughput(bed: &Bed, program: &Path, at: &At<'_>) -> Result<Sample> {
    let sends = direction::sends(at)?;
    let (pushes, takes) = match sends {
        true => (Side::Server, Side::Client),
        false => (Side::Client, Side::Server),
    };
    // The taker listens.
    let (size, endpoint) = (at.word(SIZE)?, endpoint(takes));
    let log = bed.world().scratch().join("take.log");
    let taker = on(bed, takes, program).args(["take", &endpoint, size]);
    let pusher = on(bed, pushes, program).args(["push", &endpoint, size, &seconds(at)]);
    let mut taker = taker.log(log).start()?;
    if let Some(outboard) = bed.outboard().filter(|_| !sends) {
        outboard.wait_until_taken(&mut taker, LIMIT, PORT, || true)?;
    }
    let push = || -> Result<(String, Duration)> {
        let before = own_time()?;
        pusher.output()?;
        let pushed = own_time()?;
        taker.wait(LIMIT)?;
        let taken = own_time()?;
        // Each was a child of ours, whose time is ours when it has ended.
        let (end, begin) = match sends {
            true => (taken, pushed),
            false => (pushed, before),
        };
        Ok((taker.printed(), end.saturating_sub(begin)))
    };
    let ((printed, other), cost) = bed.account(push)?;
    cost.came_to_engine()?;
    let cost = cost.of_child(other);
    let found = read(&printed)?;
    let took = number(&found, "seconds")?;
    let rate = number(&found, "messages")? / took.max(1e-9);
    let bits = 8.0 * rate * at.number(SIZE)? / 1e6;
    let sample = cost
        .sample(Duration::try_from_secs_f64(took)?)
        .with(RATE, bits)
        .with(MESSAGES, rate);
    Ok(plain::with_machine(sample, bits, &cost))
}
