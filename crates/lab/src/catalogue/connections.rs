//! Very many connections that are only there, beside a thousand that ask all the time: what a segment costs, how long a
//! turn of the engine's takes while its tables grow, and what memory a connection has.

use super::bed::{CLIENT_CORE, ENGINE, ROLES, SERVER, SERVER_CORE};
use super::{Entry, Extent, Setup};
use crate::connections::{Asking, Holding};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::outboard::{Counter, Outboard, Spread, total};
use crate::process::Process;
use crate::sampler::account::{Account, Watched};
use crate::sampler::{available_memory, private_memory};
use crate::world::{Side, World};
use anyhow::{Context, Result, ensure};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry {
    name: "connections",
    source: "",
    about: "what a segment costs, and a connection takes, beside up to a million idle ones",
    needs: &["taskset"],
    seconds: (10, 2),
    windows: 3,
    declare,
    open,
};

const IDLE: &str = "idle connections";
/// What all are compared with.
const FEW: u64 = 1_000;
const LEVELS: [f64; 4] = [FEW as f64, 20_000.0, 100_000.0, 1_000_000.0];
const SUBJECT: &str = "engine";
const COST: &str = "CPU of the engine a segment";
const GROWTH: &str = "CPU a segment, by what it is beside 1,000";
const TURN: &str = "longest turn, time on its core";
const SENDING: &str = "longest call to send, time on its core";
const CLOCK: &str = "longest turn, by the clock";
const BYTES: &str = "memory of a connection";
const ENGINES: &str = "memory of a connection, the engine's part";
const PROGRAMS: &str = "memory of a connection, the program's part";
const RATE: &str = "messages answered";
const OPENED: &str = "connections opened";

/// What is to hold.
const GOALS: [&str; 3] = [
    "A segment costs 5 % more at most, beside however many idle connections",
    "No turn takes longer than a millisecond of its core while tables grow",
    "A connection takes a kilobyte at most, in engine and program together, buffers apart",
];

/// Connections that ask all the time.
const ASKING: usize = 1_000;
/// Bytes of a message, and of its answer.
const SIZE: usize = 64;
const PORT: u16 = 7_010;
/// Idle connections a second that are opened.
const OPENING: u64 = 20_000;
/// Bytes of memory that a connection needs to be tried at all, a generous guess: of engine, program and client.
const ROOM: u64 = 4_096;
/// So long nothing changes before something is measured.
const SETTLING: Duration = Duration::from_millis(500);
/// Opening, or ending, goes on as long as there is a difference within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(100);

fn declare(extent: Extent) -> Experiment {
    let levels = match extent {
        Extent::Full => &LEVELS[..],
        Extent::Quick => &LEVELS[..2],
    };
    // Of a few all that is allocated once is too large a part, and they are what others are compared with.
    let (all, more) = (levels, &levels[1..]);
    let goals = [
        (GROWTH, 1.05, more),
        (TURN, 1_000.0, all),
        (BYTES, 1_024.0, more),
    ];
    let claims = GOALS
        .iter()
        .zip(goals)
        .flat_map(|(says, (measure, most, levels))| {
            levels.iter().map(move |level| Claim {
                says: (*says).into(),
                citation: Citation::goal(),
                measure: measure.into(),
                subject: SUBJECT.into(),
                to: "".into(),
                at: vec![(IDLE.into(), level.to_string())],
                ratio: Bound::AtMost(most),
            })
        });
    let picture = |measure: &str| Picture::new(measure, IDLE, measure).log_x();
    Experiment {
        name: ENTRY.name.into(),
        title: "Very many idle connections".into(),
        question: format!(
            "What do connections cost that are only there: the segments of others, the turns of the engine while \
             its tables grow, and memory? {COST} is measured beside all idle connections, and before and after \
             beside {FEW}; at {FEW} all three are the same, which shows how much the comparison says. A turn has \
             the calls in it by which the kernel sends what was made, of which the longest stands apart: on a veth they do \
             the peer's receiving, too."
        ),
        workload: format!(
            "{ASKING} connections over the kernel's TCP, each with one message of {SIZE} bytes under way, answered \
             with as many; idle ones from a million addresses, opened at {OPENING} a second. All are held by one \
             program over the native interface."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(IDLE, "", levels)],
        subjects: vec![SUBJECT.into()],
        measures: vec![
            Measure::new(COST, "ns"),
            Measure::new(GROWTH, "×"),
            Measure::new(TURN, "µs"),
            Measure::new(SENDING, "µs"),
            Measure::new(CLOCK, "µs"),
            Measure::new(BYTES, "B"),
            Measure::new(ENGINES, "B"),
            Measure::new(PROGRAMS, "B"),
            Measure::new(RATE, "1/s"),
            Measure::new(OPENED, "1/s"),
        ],
        pictures: vec![picture(COST), picture(TURN), picture(BYTES)],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: claims.collect(),
    }
}

struct Connections {
    setup: Setup,
    /// That of the measurement that comes next: its engine has had no other connections.
    stage: Option<Stage>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Connections {
        setup: setup.clone(),
        stage: None,
    }))
}

impl Bench for Connections {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.stage = None;
        let idle = at.number(IDLE)? as u64;
        has_room(idle)?;
        self.stage = Some(Stage::new(&self.setup, idle)?);
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let idle = at.number(IDLE)? as u64;
        let mut stage = self.stage.take().context("nothing was made ready")?;
        // Those that are only there come from beyond the client, in both cases in the same way.
        let [engine, program] = stage.memory()?;
        let few = stage.hold(FEW)?;
        let beside_few = stage.cost(at.window)?;
        stage.let_go(few, FEW)?;
        let before = stage.turns()?;
        let began = Instant::now();
        let many = stage.hold(idle)?;
        let took = began.elapsed().saturating_sub(SETTLING);
        let cost = stage.cost(at.window)?;
        let after = stage.turns()?;
        let [engines, programs] = stage.memory()?;
        // What drifts, drifts as much before as after.
        let (mut notes, mut few) = (Vec::new(), beside_few.a_segment);
        match stage.let_go(many, idle) {
            Ok(()) => {
                let _few = stage.hold(FEW)?;
                few = f64::midpoint(few, stage.cost(at.window)?.a_segment);
            }
            // A reset that is lost is not sent again.
            Err(_) => notes.push(format!(
                "Of {idle} connections too many were left for another look beside {FEW} after them: {GROWTH} is \
                 by the look before."
            )),
        }
        let micros = |now: &Spread, then: &Spread| now.longest_since(then) * 1e6;
        let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / idle as f64;
        let (engine, program) = (each(engines, engine), each(programs, program));
        let sample = Sample {
            notes,
            ..Sample::default()
        };
        Ok(sample
            .using(&cost.used)
            .with(COST, cost.a_segment)
            .with(GROWTH, cost.a_segment / few)
            .with(TURN, micros(&after.on_core, &before.on_core))
            .with(SENDING, micros(&after.sending, &before.sending))
            .with(CLOCK, micros(&after.by_clock, &before.by_clock))
            .with(BYTES, engine + program)
            .with(ENGINES, engine)
            .with(PROGRAMS, program)
            .with(RATE, cost.answered)
            .with(OPENED, idle as f64 / took.as_secs_f64()))
    }
}

/// # Errors
/// The machine has not as much memory as so many connections may need.
fn has_room(idle: u64) -> Result<()> {
    let (needed, there) = (idle * ROOM, available_memory()?);
    ensure!(
        there >= needed,
        "{idle} connections are left out: they may need {} MB of memory, and {} MB are available",
        needed >> 20,
        there >> 20
    );
    Ok(())
}

/// An engine with a program that holds connections, and clients that ask.
struct Stage {
    asking: Asking,
    program: Process,
    engine: Process,
    outboard: Outboard,
    // Last: it must outlive what runs in it.
    world: World,
}

/// What was found in a while.
struct Cost {
    /// Nanoseconds of the engine's for a segment, in or out.
    a_segment: f64,
    /// Messages that were answered, a second.
    answered: f64,
    /// What engine and program used, and what the engine says of itself.
    used: Used,
}

/// How long turns were, since the engine has begun.
struct Turns {
    /// Time on its core.
    on_core: Spread,
    /// Of that, in one call in which the kernel sends.
    sending: Spread,
    by_clock: Spread,
}

impl Stage {
    fn new(setup: &Setup, idle: u64) -> Result<Self> {
        let world = World::new()?;
        Holding::route(&world)?;
        let outboard = Outboard::new(&setup.binary, &world);
        // Those that ask, and some whose end is not known yet.
        let most = idle + 4 * FEW + ASKING as u64;
        let settings = format!(
            "core = {SERVER_CORE}\nmeasure_turns = true\n\
             [limits]\nconnections = {most}\naccept_backlog = 65535\n"
        );
        let engine = outboard.start_engine_with(&world, &settings)?;
        let mut program = outboard
            .command(&world, "subject")
            .args(["hold", "--at", &address().to_string()])
            .args(["--size", &SIZE.to_string()])
            .on_core(SERVER_CORE)
            .log(world.scratch().join("hold.log"))
            .start()?;
        outboard.wait_until_taken(&mut program, PATIENCE, PORT, || true)?;
        let asking = Asking::start(&world, address().into(), (ASKING, SIZE), CLIENT_CORE)?;
        let mut stage = Self {
            asking,
            program,
            engine,
            outboard,
            world,
        };
        stage.wait_until("opened", |seen| seen.there >= ASKING as u64)?;
        Ok(stage)
    }

    /// Opens so many idle connections and waits until the program has them.
    fn hold(&mut self, count: u64) -> Result<Holding> {
        let before = Seen::of(&self.outboard.stats()?);
        let (binary, load) = (self.outboard.binary(), (count, OPENING));
        let mut holding = Holding::start(binary, &self.world, address(), load, CLIENT_CORE)?;
        let opened = self.wait_until("opened", |seen| {
            seen.there >= ASKING as u64 + count && seen.handed >= before.handed + count
        });
        // Where that has a reason of its own, the other one follows from it.
        holding.check()?;
        opened?;
        std::thread::sleep(SETTLING);
        Ok(holding)
    }

    /// Ends those, and waits until hardly one of so many is left.
    fn let_go(&mut self, holding: Holding, count: u64) -> Result<()> {
        holding.end()?;
        self.wait_until("ended", |seen| seen.there <= ASKING as u64 + count / 100)?;
        std::thread::sleep(SETTLING);
        Ok(())
    }

    /// What segments cost for a while.
    fn cost(&mut self, window: Duration) -> Result<Cost> {
        let watched = Watched {
            processes: vec![(ENGINE, self.engine.id()), (SERVER, self.program.id())],
            ..Watched::default()
        };
        let (before, answered) = (self.outboard.stats()?, self.asking.answered()?);
        let began = Account::now(&watched)?.with(before.clone());
        std::thread::sleep(window);
        let ended = Account::now(&watched)?;
        let (after, answered_then) = (self.outboard.stats()?, self.asking.answered()?);
        let spent = ended.with(after.clone()).since(&began);
        let names = ["tcp_segments_in", "tcp_segments_out"];
        let segments = names.map(|name| total(&after, name) - total(&before, name));
        let segments: f64 = segments.iter().sum();
        ensure!(segments > 0.0, "no segment came or went");
        Ok(Cost {
            a_segment: spent.of(ENGINE).as_secs_f64() * 1e9 / segments,
            answered: (answered_then - answered) as f64 / spent.passed.as_secs_f64(),
            used: Used::of(&spent),
        })
    }

    /// Bytes of the engine's and of the program's own memory.
    fn memory(&self) -> Result<[u64; 2]> {
        Ok([
            private_memory(self.engine.id())?,
            private_memory(self.program.id())?,
        ])
    }

    fn turns(&self) -> Result<Turns> {
        let counters = self.outboard.stats()?;
        let spread = |name: &str| {
            let named = counters.iter().find(|counter| counter.name == name);
            let spread = named.and_then(|counter| counter.spread.clone());
            spread.with_context(|| format!("the engine does not tell of {name}"))
        };
        Ok(Turns {
            on_core: spread("turn_core_seconds")?,
            sending: spread("flush_core_seconds")?,
            by_clock: spread("turn_seconds")?,
        })
    }

    /// Waits for what the engine tells of its connections.
    ///
    /// # Errors
    /// Nothing has changed for a while; with what the engine has refused.
    fn wait_until(&mut self, what: &str, is_so: impl Fn(Seen) -> bool) -> Result<()> {
        let begun = self.outboard.stats()?;
        let (mut last, mut changed) = (Seen::of(&begun), Instant::now());
        loop {
            self.asking.answered()?;
            let now = self.outboard.stats()?;
            let seen = Seen::of(&now);
            if is_so(seen) {
                return Ok(());
            }
            if seen != last {
                (last, changed) = (seen, Instant::now());
            }
            ensure!(
                changed.elapsed() < PATIENCE,
                "for {PATIENCE:?} no further connection was {what}: there are {}{}",
                seen.there,
                refused(&begun, &now)
            );
            std::thread::sleep(LOOK);
        }
    }
}

/// What the engine says of its connections.
#[derive(Clone, Copy, PartialEq)]
struct Seen {
    /// How many there are.
    there: u64,
    /// How many a program was ever given.
    handed: u64,
}

impl Seen {
    fn of(counters: &[Counter]) -> Self {
        Self {
            there: total(counters, "connections") as u64,
            handed: total(counters, "handed_over") as u64,
        }
    }
}

/// What was dropped or refused meanwhile, most of all first.
fn refused(before: &[Counter], after: &[Counter]) -> String {
    let dropped = after
        .iter()
        .filter(|counter| counter.name.ends_with("dropped"));
    let mut found: Vec<(f64, String)> = dropped
        .filter_map(|counter| {
            let same =
                |other: &&Counter| other.name == counter.name && other.labels == counter.labels;
            let then = before.iter().find(same).map_or(0.0, |other| other.value);
            let more = counter.value - then;
            let name = format!("{} {}", counter.name, counter.labels.join(" "));
            (more > 0.0).then_some((more, name))
        })
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    let words = found
        .iter()
        .take(3)
        .map(|(count, name)| format!("{name}: {count}"));
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("; the engine has refused {}", words.join(", "))
    }
}

fn address() -> SocketAddrV4 {
    SocketAddrV4::new(Side::Server.ipv4(), PORT)
}

#[cfg(test)]
mod tests {
    use super::{has_room, refused};
    use crate::outboard::Counter;

    #[test]
    fn what_has_no_room_says_so() {
        assert!(has_room(1).is_ok());
        let error = has_room(1 << 40).unwrap_err().to_string();
        assert!(
            error.contains("are left out") && error.contains("MB are available"),
            "{error}"
        );
    }

    #[test]
    fn what_was_refused_most_stands_first() {
        let counter = |name: &str, label: &str, value| Counter {
            name: name.into(),
            labels: vec![label.into()],
            value,
            spread: None,
        };
        let at = |a, b, c| {
            [
                counter("dropped", "held_full", a),
                counter("listener_dropped", "connections_full", b),
                counter("rx_frames", "0", c),
            ]
        };
        assert_eq!(
            refused(&at(1.0, 0.0, 5.0), &at(3.0, 7.0, 9.0)),
            "; the engine has refused listener_dropped connections_full: 7, dropped held_full: 2"
        );
        assert_eq!(refused(&at(1.0, 0.0, 5.0), &at(1.0, 0.0, 9.0)), "");
    }
}
