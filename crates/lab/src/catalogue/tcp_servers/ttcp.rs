//! 001, section 6.3: throughput and throughput for CPU by the size of sends, as ttcp does it, on a fast
//! link and, as in section 6.4.1, on a slow one.

use super::super::bed::{Bed, CLIENT_CORE, STACKS};
use super::super::each::Each;
use super::super::{Entry, Extent, Setup};
use super::{ASYNCHRONOUS, REGISTERED, SENDS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
use super::{cited, number, streams, subject, subjects};
use crate::experiment::declaration::{Axis, Bound, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::faults::{FaultyWire, Wire};
use crate::world::World;
use anyhow::{Context, Result};

pub const ENTRY: Entry = Entry {
    name: "ttcp",
    source: "001",
    about: "throughput, and throughput for CPU, by size of sends, on a fast and a slow link",
    needs: &["taskset", "ethtool"],
    seconds: (4, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "send";
const LINK: &str = "link";
pub(super) const LINKS: [&str; 2] = ["fast", "100 Mb/s"];
/// Fast Ethernet, with a queue of 20 ms.
pub(super) const SLOW: Wire = Wire {
    bandwidth: Some(100_000_000),
    queue: 250_000,
    ..Wire::PERFECT
};
const RATE: &str = "throughput";
const HOST: &str = "throughput for a core of the sender";
const PEER: &str = "throughput for a core of the receiver";
const ENGINE: &str = "CPU of the engine, a send";
const MACHINE: &str = "throughput for a core of the machine";
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &str); 6] = [
    (KERNEL, "sockets"),
    (INTERPOSER, "sockets"),
    SYNCHRONOUS,
    SYNCHRONOUS_REGISTERED,
    ASYNCHRONOUS,
    REGISTERED,
];
const KERNEL: &str = "kernel";
const INTERPOSER: &str = "interposer";
const SIZES: [f64; 6] = [64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &[16_384.0] } else { &SIZES[..] };
    let claim = |says: &str, place: &str, link: &str, measure: &str, ratio| Claim {
        says: says.into(),
        citation: cited(place),
        measure: measure.into(),
        subject: REGISTERED.0.into(),
        to: KERNEL.into(),
        at: vec![(SIZE.into(), "16384".into()), (LINK.into(), link.into())],
        ratio,
    };
    let [fast, slow] = LINKS;
    let picture = |title: &str, measure: &str, link: &str| {
        let picture = Picture::new(title, SIZE, measure);
        picture.log_x().log_y().at(LINK, link)
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Throughput, and throughput for CPU, of one sender".into(),
        question: "How much does a program send that does nothing else, and how much of a core does that \
            take? 001 found less throughput with its offload for one connection than without, more of it for \
            CPU at the receiver, and, on a link that is the limit, nothing at all."
            .into(),
        workload: format!("One connection, sends of one size without a pause; the other end, on the kernel's TCP, \
            receives. Throughput is the receiver's, from the first byte to the last. Throughput for CPU \
            (the source's performance efficiency index) is for the CPU time of the program, of the \
            receiver's thread, and of the whole machine, the engine and, on the slow link, the wire \
            included: a thread of the lab is that wire. \
            {SENDS} TCP_NODELAY is set where each send is waited for: otherwise a small one would leave with the \
            acknowledgement of the one before"),
        roles: "the sender on core 0; the receiver and the engine on core 1".into(),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            Axis::of_words(LINK, &LINKS),
        ],
        subjects: subjects(
            extent,
            SUBJECTS.iter().map(|(name, _)| *name),
            SYNCHRONOUS_REGISTERED.0,
        ),
        measures: vec![
            Measure::new(RATE, "Mb/s"),
            Measure::new(HOST, "Mb/s"),
            Measure::new(PEER, "Mb/s"),
            Measure::new(MACHINE, "Mb/s"),
            Measure::new(ENGINE, "ns"),
        ],
        pictures: vec![
            picture("Throughput (001, figures 6.6 and 6.7)", RATE, fast),
            picture("Throughput for a core of the sender (001, figure 6.6)", HOST, fast),
            picture("Throughput for a core of the receiver (001, figure 6.7)", PEER, fast),
            picture("Throughput for a core of the machine", MACHINE, fast),
            picture("CPU of the engine, a send", ENGINE, fast),
            Picture::new("Throughput on a slow link (001, figure 6.8)", SIZE, RATE)
                .log_x()
                .at(LINK, slow),
            picture("Throughput for a core of the sender on a slow link", HOST, slow),
        ],
        findings: Vec::new(),
        claims: vec![
            claim(
                "One connection has less throughput with offload",
                "section 6.3",
                fast,
                RATE,
                Bound::AtMost(1.0),
            ),
            claim(
                "The receiver gets more for its CPU",
                "section 6.3",
                fast,
                PEER,
                Bound::AtLeast(1.0),
            ),
            claim(
                "A link that is the limit leaves nothing to gain",
                "section 6.4.1",
                slow,
                RATE,
                Bound::AtMost(1.05),
            ),
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct Ttcp {
    setup: Setup,
    /// By stacks: on the fast link, and on the slow one.
    beds: [Each<Bed>; 2],
    // After the engines that use them.
    _wires: Vec<FaultyWire>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let stacks = setup.subjects.iter().map(|subject| stack(subject));
    let on = |stack: &str, world| Bed::with_engine_on(setup, stack, world, CLIENT_CORE);
    let mut wires = Vec::new();
    let slow = |stack: &str| -> Result<Bed> {
        let world = World::with_middle()?;
        wires.push(FaultyWire::start(&world, SLOW, 1)?);
        on(stack, world)
    };
    let beds = [
        Each::named(stacks.clone(), |stack| on(stack, World::new()?))?,
        Each::named(stacks, slow)?,
    ];
    Ok(Box::new(Ttcp {
        setup: setup.clone(),
        beds,
        _wires: wires,
    }))
}

/// The stack of a subject.
fn stack(subject: &str) -> &'static str {
    STACKS[usize::from(subject != KERNEL)]
}

impl Bench for Ttcp {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let link = at.word(LINK)?;
        let link = LINKS.iter().position(|known| *known == link);
        let link = link.context("no such link")?;
        let bed = self.beds[link].get(stack(at.subject))?;
        let program = subject(&self.setup, bed, at.subject == INTERPOSER).args([
            "stream",
            "--way",
            way,
            "--size",
            at.word(SIZE)?,
        ]);
        let (received, found, cost) = streams::sent_by(program, bed, at.window)?;
        cost.came_to_engine()?;
        let sent = received.bytes as f64;
        let megabits = 8.0 * sent / 1e6;
        let per = |seconds: f64| megabits / seconds.max(1e-9);
        let mut sample = cost
            .sample(received.passed)
            .with(RATE, per(received.passed.as_secs_f64()))
            .with(HOST, per(number(&found, "cpu_seconds")?))
            .with(PEER, per(received.used.as_secs_f64()))
            .with(MACHINE, per(cost.machine().as_secs_f64()));
        if let Some(engine) = cost.spent.engine {
            let sends = sent / at.number(SIZE)?;
            sample = sample.with(ENGINE, 1e9 * engine.busy / sends);
        }
        Ok(sample)
    }
}
