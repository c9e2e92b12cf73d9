//! Eager receive as throughput (001, section 4.6): a program that receives without a pause, in each way that there is.

use super::super::{Entry, Extent, Setup};
use super::{Beds, PLACE, PLACES, number, streams, subject, subjects};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "receive",
    source: "001",
    about: "a receiver's throughput and CPU: kernel, interposer, copying, views (pull), posted buffers (push)",
    needs: &["taskset"],
    seconds: (3, 1),
    windows: 1,
    declare,
    open,
};

const PIECE: &str = "piece";
const RATE: &str = "throughput";
const HOST: &str = "CPU of the receiver, a megabyte";
const ENGINE: &str = "CPU of the engine, a megabyte";
const MACHINE: &str = "throughput for a core of the machine";
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &str); 6] = [
    (KERNEL, "sockets"),
    (INTERPOSER, "sockets"),
    (COPYING, "copying"),
    (PULL, "pull"),
    (PUSH, "push"),
    (MEMORY_FILE, "push-memfd"),
];
const KERNEL: &str = "kernel";
const INTERPOSER: &str = "interposer";
const COPYING: &str = "copying";
const PULL: &str = "pull (views)";
const PUSH: &str = "push (posted)";
const MEMORY_FILE: &str = "push, memory file";
const PIECES: [f64; 4] = [4_096.0, 16_384.0, 65_536.0, 262_144.0];
const MEGABYTE: f64 = 1e6;

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let pieces = if quick { &PIECES[1..2] } else { &PIECES[..] };
    let places = PLACES.map(|(name, _)| name);
    let apart = places[1];
    let picture = |title: &str, measure: &str| {
        let picture = Picture::new(title, PIECE, measure);
        picture.log_x().log_y().at(PLACE, apart)
    };
    let claim = |says: &str, subject: &str, to: &str, measure: &str, ratio| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: subject.into(),
        to: to.into(),
        at: vec![(PLACE.into(), apart.into())],
        ratio,
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Receiving without a pause".into(),
        question: "What is it worth to a receiver that its bytes are where it wants them when it looks? 001 has eager \
            receive by pull and by push, found it of no use to a web server, and leaves programs that receive, a site \
            that takes submissions say, to others."
            .into(),
        workload: "One connection; the other end, on the kernel's TCP, sends without a pause for the time of the \
            measurement and then ends the stream, and the program receives to its end. It takes pieces of one size at \
            most: reads of so many bytes, views of so many, eight posted buffers of so many, in memory \
            of the engine's or in a memory file of the program's own, into which the library copies. It looks at the first \
            byte of each piece and at no other, so what is not copied is not brought into its core's cache. \
            Throughput, and CPU of the program, are from the first byte on"
            .into(),
        roles: "the program on core 0, the sender on core 1; the engine on either".into(),
        axes: vec![
            Axis::of_numbers(PIECE, "B", pieces),
            Axis::of_words(PLACE, if quick { &places[1..] } else { &places }),
        ],
        subjects: subjects(
            extent,
            SUBJECTS.iter().map(|(name, _)| *name),
            MEMORY_FILE,
        ),
        measures: vec![
            Measure::new(RATE, "Mb/s"),
            Measure::new(HOST, "µs"),
            Measure::new(ENGINE, "µs"),
            Measure::new(MACHINE, "Mb/s"),
        ],
        pictures: vec![
            picture("Throughput of a receiver", RATE),
            picture("CPU of the receiver, a megabyte", HOST),
            picture("CPU of the engine, a megabyte", ENGINE),
            picture("Throughput for a core of the machine", MACHINE),
        ],
        findings: Vec::new(),
        claims: vec![
            claim(
                "Looking at what has come takes no more of the receiver's CPU than copying it",
                PULL,
                COPYING,
                HOST,
                Bound::AtMost(1.0),
            ),
            claim(
                "Posted buffers take no more of the receiver's CPU than copying",
                PUSH,
                COPYING,
                HOST,
                Bound::AtMost(1.0),
            ),
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct Receive {
    setup: Setup,
    beds: Beds,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Receive {
        setup: setup.clone(),
        beds: Beds::new(setup)?,
    }))
}

impl Bench for Receive {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let bed = self.beds.get(at.subject == KERNEL, at.word(PLACE)?)?;
        let program = subject(&self.setup, bed, at.subject == INTERPOSER).args([
            "sink",
            "--way",
            way,
            "--piece",
            at.word(PIECE)?,
        ]);
        let (received, found, cost) =
            streams::received_by(program, bed, streams::PIECE, at.window)?;
        cost.came_to_engine()?;
        let megabits = 8.0 * received / 1e6;
        let each = |seconds: f64| 1e6 * seconds / (received / MEGABYTE);
        let seconds = number(&found, "seconds")?;
        let mut sample = cost
            .sample(Duration::from_secs_f64(seconds))
            .with(RATE, megabits / seconds.max(1e-9))
            .with(HOST, each(number(&found, "cpu_seconds")?))
            .with(MACHINE, megabits / cost.machine().as_secs_f64().max(1e-9));
        if let Some(engine) = cost.spent.engine {
            sample = sample.with(ENGINE, each(engine.busy));
        }
        Ok(sample)
    }
}
