//! What an engine costs the kernel's own traffic on its interface, and what the engine's own traffic gets beside it.
//!
//! An engine has an XDP program on its interface from its start on, which every frame passes, also those of connections
//! that are the kernel's. Some drivers do without features for it: a veth's peer sends no segments larger than the MTU
//! any more. Whoever receives through the engine is to be compared with a kernel behind the same program.

use super::bed::{Bed, CLIENT_CORE, Cost, STACKS};
use super::each::Each;
use super::tcp_servers::streams::{self, Received};
use super::tcp_servers::{number, server, subject};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::world::World;
use anyhow::{Context, Result, bail};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "idle-engine",
    source: "",
    about: "what an engine that has nothing to do costs the kernel's own traffic on its interface",
    needs: &["taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const KERNEL: &str = "kernel";
const BESIDE: &str = "kernel, beside an idle engine";
const ON_ENGINE: &str = "engine";
const SUBJECTS: [&str; 3] = [KERNEL, BESIDE, ON_ENGINE];

const TRAFFIC: &str = "traffic";
const IN: &str = "stream in";
const OUT: &str = "stream out";
const TRIPS: &str = "round trips";
const KINDS: [&str; 3] = [IN, OUT, TRIPS];

const RATE: &str = "throughput";
const PER_CORE: &str = "throughput for a core of the machine";
const MEDIAN: &str = "round trip, median";
const SHARE: &str = "CPU of the engine, share of a core";

/// Bytes that a program sends and receives at once.
const PIECE: &str = "65536";
/// Bytes of a message there and back.
const MESSAGE: usize = 64;

fn declare(_: Extent) -> Experiment {
    let claim =
        |says: &str, traffic: &str, measure: &str, (subject, to): (&str, &str), ratio| Claim {
            says: says.into(),
            citation: Citation::goal(),
            measure: measure.into(),
            subject: subject.into(),
            to: to.into(),
            at: vec![(TRAFFIC.into(), traffic.into())],
            ratio,
        };
    let beside = (BESIDE, KERNEL);
    Experiment {
        name: ENTRY.name.into(),
        title: "Beside an idle engine".into(),
        question: "What does an engine that has nothing to do cost connections that are the kernel's, on the same \
            interface? And what do connections of its own get, where the kernel's are behind the same XDP program?"
            .into(),
        workload: format!(
            "One connection: a program that receives without a pause, or sends so, {PIECE} bytes at once, or answers \
             messages of {MESSAGE} bytes. The other end is on the kernel's TCP."
        ),
        roles: "the program on core 0, the other end on core 1, and the engine there, too".into(),
        axes: vec![Axis::of_words(TRAFFIC, &KINDS)],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(RATE, "Mb/s"),
            Measure::new(PER_CORE, "Mb/s"),
            Measure::new(MEDIAN, "µs"),
            Measure::new(SHARE, "%"),
        ],
        pictures: vec![
            Picture::new("Throughput of one connection", TRAFFIC, RATE),
            Picture::new("The same for a core of the machine", TRAFFIC, PER_CORE),
            Picture::new("Round trip of 64 bytes", TRAFFIC, MEDIAN),
        ],
        findings: Vec::new(),
        claims: vec![
            claim(
                "An idle engine takes nothing from what the kernel receives",
                IN,
                RATE,
                beside,
                Bound::AtLeast(1.0),
            ),
            claim(
                "It takes nothing from what the kernel sends",
                OUT,
                RATE,
                beside,
                Bound::AtLeast(1.0),
            ),
            claim(
                "It delays no message of the kernel's",
                TRIPS,
                MEDIAN,
                beside,
                Bound::AtMost(1.0),
            ),
            claim(
                "The engine receives as much as a kernel behind the same program",
                IN,
                RATE,
                (ON_ENGINE, BESIDE),
                Bound::AtLeast(1.0),
            ),
            // Whatever the kernel has to do.
            Claim {
                at: Vec::new(),
                ..claim(
                    "An idle engine takes less than two thousandths of a core",
                    IN,
                    SHARE,
                    (BESIDE, ""),
                    Bound::AtMost(0.2),
                )
            },
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct IdleEngine {
    setup: Setup,
    /// By stack.
    beds: Each<Bed>,
}

/// What a subject is beside.
fn stack_of(subject: &str) -> &'static str {
    STACKS[usize::from(subject != KERNEL)]
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let stacks = setup.subjects.iter().map(|subject| stack_of(subject));
    let bed = |stack: &str| Bed::with_engine_on(setup, stack, World::new()?, CLIENT_CORE);
    Ok(Box::new(IdleEngine {
        setup: setup.clone(),
        beds: Each::named(stacks, bed)?,
    }))
}

impl Bench for IdleEngine {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.beds.get(stack_of(at.subject))?;
        let is_on_engine = at.subject == ON_ENGINE;
        let (sample, cost) = match at.word(TRAFFIC)? {
            IN => self.stream_in(bed, is_on_engine, at)?,
            OUT => self.stream_out(bed, is_on_engine, at)?,
            _ => self.round_trips(bed, is_on_engine, at)?,
        };
        let Some(engine) = &cost.spent.engine else {
            return Ok(sample);
        };
        if is_on_engine {
            cost.came_to_engine()?;
        } else if engine.batch() > 0.0 {
            // Frames that the XDP program leaves to the kernel never come to it.
            bail!("the engine was not idle");
        }
        let share = cost.engine().as_secs_f64() / cost.spent.passed.as_secs_f64().max(1e-9);
        Ok(sample.with(SHARE, 100.0 * share))
    }
}

impl IdleEngine {
    /// The program receives.
    fn stream_in(&self, bed: &Bed, is_on_engine: bool, at: &At<'_>) -> Result<(Sample, Cost)> {
        let program = subject(&self.setup, bed, is_on_engine)
            .args(["sink", "--way", "sockets", "--piece", PIECE]);
        let (bytes, found, cost) = streams::received_by(program, bed, streams::PIECE, at.window)?;
        let seconds = Duration::from_secs_f64(number(&found, "seconds")?);
        Ok((streamed(bytes, seconds, &cost), cost))
    }

    /// The program sends.
    fn stream_out(&self, bed: &Bed, is_on_engine: bool, at: &At<'_>) -> Result<(Sample, Cost)> {
        let program = subject(&self.setup, bed, is_on_engine)
            .args(["stream", "--way", "sockets", "--size", PIECE]);
        let (Received { bytes, passed, .. }, _, cost) = streams::sent_by(program, bed, at.window)?;
        Ok((streamed(bytes as f64, passed, &cost), cost))
    }

    /// The program answers.
    fn round_trips(&self, bed: &Bed, is_on_engine: bool, at: &At<'_>) -> Result<(Sample, Cost)> {
        let words = server::Words {
            way: &["sockets"],
            size: MESSAGE,
            is_interposed: is_on_engine,
            is_on_engine,
        };
        let server = server::start(&self.setup, bed, &words)?;
        let asks = || server::exchanges(MESSAGE, at.window);
        let (mut times, cost) =
            bed.account_with(&[server.id()], || server::as_client(bed, asks))?;
        server.kill()?;
        let median = server::median(&mut times).context("not a single message")?;
        let sample = cost.sample(cost.spent.passed);
        Ok((sample.with(MEDIAN, median), cost))
    }
}

/// So many bytes of a stream in such a time.
fn streamed(bytes: f64, passed: Duration, cost: &Cost) -> Sample {
    let megabits = 8.0 * bytes / 1e6;
    cost.sample(passed)
        .with(RATE, megabits / passed.as_secs_f64().max(1e-9))
        .with(PER_CORE, megabits / cost.machine().as_secs_f64().max(1e-9))
}
