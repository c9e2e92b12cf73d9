//! Moderation: frames are gathered for a while before anybody is woken for them, as by a NIC that coalesces its
//! interrupts. A veth has none; the engine, and the kernel where it polls an interface (NAPI), have this of their own.

use super::super::bed::{Bed, SERVER_CORE, STACKS};
use super::super::{Entry, Extent, Setup};
use super::{
    ALL, CPU, CPU_OF_GIGABIT, ENGINE_CPU, HIGH, MTUS, ONE_WAY, PROGRAM_CPU, RATE, SIZE, direction,
    featured, plain,
};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::receiving;
use crate::world::Side;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "moderation",
    source: "",
    about: "moderation of what is received, by the kernel and by the engine: latency, Mb/s and CPU",
    needs: &["ethtool", "taskset"],
    seconds: (5, 1),
    windows: 2,
    declare,
    open: |setup| {
        Ok(Box::new(Moderated {
            setup: setup.clone(),
            beds: BTreeMap::new(),
        }))
    },
};

/// What a report calls each, the stack, and for how long it gathers, in microseconds: not at all, for less than
/// an engine does if nobody says otherwise, and for as long.
const SUBJECTS: [(&str, &str, u64); 6] = [
    ("kernel, off", STACKS[0], 0),
    ("kernel, 50 µs", STACKS[0], 50),
    ("kernel, 150 µs", STACKS[0], 150),
    ("engine, off", STACKS[1], 0),
    ("engine, up to 50 µs", STACKS[1], 50),
    ("engine, up to 150 µs", STACKS[1], 150),
];
const SIZES: [f64; 2] = [64.0, 65_536.0];

fn declare(extent: Extent) -> Experiment {
    let sizes = match extent {
        Extent::Full => &SIZES[..],
        Extent::Quick => &SIZES[..1],
    };
    let directions = direction::axis(extent);
    let [sends, receives] = direction::DIRECTIONS;
    let claim =
        |says: &str, measure: &str, [subject, to]: [usize; 2], size: f64, way: &str, ratio| Claim {
            says: says.into(),
            citation: Citation::goal(),
            measure: measure.into(),
            subject: SUBJECTS[subject].0.into(),
            to: SUBJECTS[to].0.into(),
            at: vec![
                (SIZE.into(), size.to_string()),
                (direction::DIRECTION.into(), way.into()),
            ],
            ratio,
        };
    let mut claims = vec![
        claim(
            "The kernel's has an effect on a veth: a message that is answered waits for it",
            ONE_WAY,
            [2, 0],
            SIZES[0],
            sends,
            Bound::AtLeast(1.2),
        ),
        claim(
            "The engine's leaves alone who waits for each answer",
            ONE_WAY,
            [5, 3],
            SIZES[0],
            sends,
            Bound::AtMost(1.1),
        ),
    ];
    if extent == Extent::Full {
        claims.push(claim(
            "The engine's costs a stream that is received nothing, but for a twentieth",
            RATE,
            [5, 3],
            SIZES[1],
            receives,
            Bound::AtLeast(0.95),
        ));
    }
    let mut pictures = Vec::new();
    for way in &directions.levels {
        let of_streams = [RATE, CPU].into_iter();
        let measures = of_streams.chain((way.name == sends).then_some(ONE_WAY));
        pictures.extend(measures.map(|measure| {
            let picture = Picture::new(format!("{measure}, {}", way.name), SIZE, measure);
            picture.log_x().log_y().at(direction::DIRECTION, &way.name)
        }));
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "Moderation of what is received".into(),
        question: "What do wake-ups save that are put off until more has come, and what do they cost who waits? 002 tells of \
            interrupt coalescing (2.6.6), and has no figures of it."
            .into(),
        workload: "As in offload-features, with all features on and an MTU of 1,500: messages that are answered, and then a \
            stream; CPU of the machine is of that. "
            .to_owned()
            + direction::WORDS,
        roles: "the subject's program and engine on core 0, the other end on core 1. A veth has no interrupts: the kernel's \
            moderation is that of the polling of the subject's interface (gro_flush_timeout, with napi_defer_hard_irqs 1), \
            which it has by its GRO; the engine's is its setting moderation_microseconds, which it uses where a trial \
            shows that this merges wake-ups and costs no rate. If the first statement below does not hold, the kernel's has no \
            effect here"
            .into(),
        axes: vec![Axis::of_numbers(SIZE, "B", sizes), directions],
        subjects: SUBJECTS.map(|(name, ..)| name.into()).to_vec(),
        measures: vec![
            Measure::new(ONE_WAY, "µs"),
            Measure::new(HIGH, "µs"),
            Measure::new(PROGRAM_CPU, "µs"),
            Measure::new(ENGINE_CPU, "µs"),
            Measure::new(RATE, "Mb/s"),
            Measure::new(CPU, "%"),
            Measure::new(CPU_OF_GIGABIT, "ms"),
        ],
        pictures,
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims,
    }
}

struct Moderated {
    setup: Setup,
    /// Each made when it is first wanted.
    beds: BTreeMap<String, Bed>,
}

impl Moderated {
    fn bed(&mut self, name: &str) -> Result<&Bed> {
        Ok(match self.beds.entry(name.to_owned()) {
            btree_map::Entry::Occupied(there) => there.into_mut(),
            btree_map::Entry::Vacant(place) => place.insert(make(&self.setup, name)?),
        })
    }
}

fn make(setup: &Setup, name: &str) -> Result<Bed> {
    let known = SUBJECTS.iter().find(|(known, ..)| *known == name);
    let (_, stack, microseconds) = known.with_context(|| format!("there is no {name}"))?;
    let (world, mut told) = featured(ALL, MTUS[0])?;
    if *stack == STACKS[0] {
        let time = Duration::from_micros(*microseconds);
        receiving::gathered(&world, Side::Server, time)?;
    }
    let file = world.scratch().join("engine.toml");
    let setting = format!("moderation_microseconds = {microseconds}\n");
    std::fs::write(&file, setting).with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.display().to_string();
    told.extend(["--config", &file]);
    Bed::with_engine_told(setup, stack, world, SERVER_CORE, &told)
}

impl Bench for Moderated {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.bed(at.subject).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let size = at.number(SIZE)? as usize;
        let setup = self.setup.clone();
        let bed = self.bed(at.subject)?;
        if !direction::sends(at)? {
            return plain::receiving(&setup, bed, size, at.window);
        }
        let answered = plain::latency(&setup, bed, size, at.window)?;
        // The machine's CPU is that of the stream: it stands beside what that carries.
        Ok(answered.and(plain::sending(&setup, bed, size, at.window)?))
    }
}
