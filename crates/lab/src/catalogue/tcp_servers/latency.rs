//! 001, table 6.4: one-way latency by size, of a program that waits and of one that polls.

use super::super::bed::{Bed, CLIENT_CORE, Cost, SERVER_CORE, STACKS};
use super::super::{Entry, Extent, Setup};
use super::beds::{LOOKS, core_of_looking, cores_here};
use super::server::{self, Words};
use super::{ASYNCHRONOUS, SYNCHRONOUS, cited, number, read, subject, subjects};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::world::World;
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "tcp-latency",
    source: "001",
    about: "one-way latency by size, waiting and polling: kernel, interposer and native ways",
    needs: &["taskset"],
    seconds: (1, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "message";
const MANNER: &str = "program";
const ONE_WAY: &str = "one-way latency";
const SERVER: &str = "CPU of the program, a message";
const SWITCH: &str = "a switch between two processes on a core";
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &str); 8] = [
    (KERNEL, "sockets"),
    (BOUND, "sockets"),
    (INTERPOSER, "sockets"),
    SYNCHRONOUS,
    ASYNCHRONOUS,
    (REGISTERED, "registered"),
    (PULL, "pull"),
    (PUSH, "push"),
];
const KERNEL: &str = "kernel";
/// What an engine in a process of its own is held against where all are on one core: each way is by the engine, a switch
/// more than by the kernel's TCP, which runs in the softirq of who sends.
const BOUND: &str = "kernel and two switches";
const REGISTERED: &str = "registered";
const INTERPOSER: &str = "interposer";
const PULL: &str = "pull";
const PUSH: &str = "push";
/// The ways that are held against the kernel where all are on one core, besides the bound.
const ON_ONE_CORE: [&str; 3] = [ASYNCHRONOUS.0, PULL, PUSH];

/// What the program does while nothing has come, whether that is polling, and where the engine is, on a machine with so
/// many cores.
const fn manners(cores: usize) -> [(&'static str, bool, Engine); 4] {
    let [waits, polls] = match core_of_looking(cores) {
        CLIENT_CORE => [
            "waits, engine looks on the client's core",
            "polls, engine looks on the client's core",
        ],
        _ => [
            "waits, engine looks on a core of its own",
            "polls, engine looks on a core of its own",
        ],
    };
    [
        ("waits, engine on its core", false, Engine::OnItsCore),
        (
            "waits, engine and client on its core",
            false,
            Engine::AllOnOne,
        ),
        (waits, false, Engine::Looks),
        (polls, true, Engine::Looks),
    ]
}

/// Where the engine is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// On the core of its program, and sleeps while there is nothing to do.
    OnItsCore,
    /// So, and the client is there, too.
    AllOnOne,
    /// On another core, and [looks for work](LOOKS).
    Looks,
}

impl Engine {
    /// The core of the client then.
    const fn client(self) -> usize {
        match self {
            Self::AllOnOne => SERVER_CORE,
            Self::OnItsCore | Self::Looks => CLIENT_CORE,
        }
    }
}

/// What is on which core, on a machine with so many.
fn roles(cores: usize) -> String {
    let place = match core_of_looking(cores) {
        CLIENT_CORE => {
            "on core 1 together with the client, as there are two cores only: nobody has one for himself there, the \
             engine gives way to the client while that has something to do, and what an engine gains on a core of \
             its own does not show in full"
        }
        _ => {
            "on core 2, its own: the kernel has a core less, and does what it does with frames that come on the client's"
        }
    };
    format!(
        "the program on core 0, the client on core 1 or, where it is said to be on the program's core, on core 0; the \
         engine on core 0 or, where it looks for work (`--profile latency`), {place}"
    )
}

const SIZES: [f64; 9] = [
    16.0, 32.0, 64.0, 128.0, 512.0, 1_024.0, 4_096.0, 8_192.0, 16_384.0,
];

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &[64.0] } else { &SIZES[..] };
    let names = SUBJECTS.iter().map(|(name, _)| *name);
    let names = names.filter(|name| !quick || ![SYNCHRONOUS.0, PULL].contains(name));
    let subjects = subjects(extent, names, REGISTERED);
    let manners = manners(cores_here()).map(|(name, ..)| name);
    let [waits, on_one, looks, _] = manners;
    let levels = if quick { &manners[..3] } else { &manners[..] };
    let claim = |says: String, [subject, to]: [&str; 2], manner: &str, ratio| Claim {
        says,
        citation: Citation::goal(),
        measure: ONE_WAY.into(),
        subject: subject.into(),
        to: to.into(),
        at: vec![(SIZE.into(), "64".into()), (MANNER.into(), manner.into())],
        ratio,
    };
    let picture = |manner: &&str| {
        let title = format!("One-way latency (001, table 6.4): {manner}");
        let picture = Picture::new(title, SIZE, ONE_WAY);
        picture.log_x().log_y().at(MANNER, manner)
    };
    let mut pictures: Vec<Picture> = levels.iter().map(picture).collect();
    let cpu = Picture::new("CPU of a program that waits", SIZE, SERVER);
    pictures.push(cpu.log_x().log_y().at(MANNER, waits));
    let [on_its_core, at_most] = [
        "With the client on another core an echo of 64 bytes takes no longer than on the kernel",
        looks_fast(cores_here()),
    ];
    let mut claims = vec![
        claim(
            on_its_core.into(),
            [PUSH, KERNEL],
            waits,
            Bound::AtMost(1.0),
        ),
        claim(at_most.into(), [PUSH, KERNEL], looks, Bound::AtMost(0.6)),
    ];
    for (to, than) in [
        (KERNEL, "on the kernel"),
        (BOUND, "on the kernel with two switches more"),
    ] {
        claims.extend(ON_ONE_CORE.map(|way| {
            let says = format!(
                "With both ends on one core an echo of 64 bytes takes no longer than {than}"
            );
            claim(says, [way, to], on_one, Bound::AtMost(1.0))
        }));
    }
    claims.retain(|claim| subjects.contains(&claim.subject));
    let mut program = Axis::of_words(MANNER, levels);
    for level in &mut program.levels {
        level.without = without(level.name == on_one);
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "One-way latency of programs that know of their engine".into(),
        question: "How long is a message on its way, if the program at one end waits for it, and if it \
            polls? 001 measured its memory-mapped channel: 28 µs for 64 bytes waiting, 13 polling."
            .into(),
        workload: "One connection; a client on the kernel's TCP, which waits, sends a message and gets as many \
            bytes back; half of the median round trip. Unlike the source's channel there is TCP on the way, \
            and its other end is always the same. Synchronous does nothing else until the engine has handed the \
            answer to the wire, asynchronous waits for nothing; both copy. Registered copies what comes, and answers \
            from registered memory; pull looks at what has come and answers from there; push receives into posted buffers \
            and answers from them. Where both ends are on one core each way is by an engine that has to be switched to, \
            and the kernel's TCP runs in the softirq of who sends: a round trip has two switches of contexts more. What \
            one takes is measured in the same run: two processes on that core wake each other by pipes, and do nothing \
            else. 'Kernel and two switches' is the kernel's echo, measured once more, with one switch added each way: an \
            engine in a process of its own is below that only if its TCP takes less than the kernel's"
            .into(),
        roles: roles(cores_here()),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            program,
        ],
        subjects,
        measures: [ONE_WAY, SERVER, SWITCH]
            .map(|name| Measure::new(name, "µs"))
            .into(),
        pictures,
        findings: findings(),
        claims,
        left_out: Vec::new(),
        model: None,
    }
}

/// The subjects that are not measured there: where all are on one core, or elsewhere.
fn without(is_on_one_core: bool) -> Vec<String> {
    let names = SUBJECTS.map(|(name, _)| name).into_iter();
    let is_left_out = |name: &&str| match *name {
        KERNEL => false,
        BOUND => !is_on_one_core,
        way => is_on_one_core && !ON_ONE_CORE.contains(&way),
    };
    names.filter(is_left_out).map(str::to_owned).collect()
}

/// The goal of an engine that looks for work, which is one of a core of its own.
const fn looks_fast(cores: usize) -> &'static str {
    match core_of_looking(cores) {
        CLIENT_CORE => {
            "With an engine that looks for work it takes 0.6 of the time at most (the goal is for a core of its own, \
             which it does not have here)"
        }
        _ => {
            "With an engine that looks for work on a core of its own it takes 0.6 of the time at most"
        }
    }
}

/// Whether it has no engine.
fn is_kernel(subject: &str) -> bool {
    [KERNEL, BOUND].contains(&subject)
}

struct Latency {
    setup: Setup,
    kernel: Option<Bed>,
    on_its_core: Option<Bed>,
    looks: Option<Bed>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let is_asked_for = |kernel: bool| {
        let mut subjects = setup.subjects.iter();
        subjects.any(|subject| is_kernel(subject) == kernel)
    };
    let engine = |core, options: &[&str]| {
        let make = || Bed::with_engine_told(setup, STACKS[1], World::new()?, core, options);
        is_asked_for(false).then(make).transpose()
    };
    let kernel = is_asked_for(true).then(|| Bed::bare(setup, STACKS[0]));
    Ok(Box::new(Latency {
        setup: setup.clone(),
        kernel: kernel.transpose()?,
        on_its_core: engine(SERVER_CORE, &[])?,
        looks: engine(core_of_looking(cores_here()), LOOKS)?,
    }))
}

impl Bench for Latency {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let manner = at.word(MANNER)?;
        let mut known = manners(cores_here()).into_iter();
        let known = known.find(|(name, ..)| *name == manner);
        let (_, polls, place) = known.with_context(|| format!("no program that {manner}"))?;
        let bed = match place {
            _ if is_kernel(at.subject) => &self.kernel,
            Engine::OnItsCore | Engine::AllOnOne => &self.on_its_core,
            Engine::Looks => &self.looks,
        };
        let bed = bed.as_ref().context("there is no bed for it")?;
        let words = Words {
            way: if polls { &[way, "--poll"] } else { &[way] },
            size: at.number(SIZE)? as usize,
            is_interposed: at.subject == INTERPOSER,
            is_on_engine: true,
        };
        let server = server::start(&self.setup, bed, &words)?;
        let pid = server.id();
        let (mut times, cost) = measure(bed, pid, place.client(), words.size, at.window)?;
        server.kill()?;
        let messages = times.len() as f64;
        let median = server::median(&mut times).context("not a single message")?;
        let used = cost.server().as_secs_f64() * 1e6 / messages;
        let sample = cost.sample(at.window).with(SERVER, used);
        if at.subject != BOUND {
            return Ok(sample.with(ONE_WAY, median / 2.0));
        }
        // Of the two of a round trip each way has one.
        let switch = switch(&self.setup, bed, at.window)?;
        Ok(sample
            .with(ONE_WAY, median / 2.0 + switch)
            .with(SWITCH, switch))
    }
}

/// What a switch takes on the core of the program, in microseconds.
fn switch(setup: &Setup, bed: &Bed, window: Duration) -> Result<f64> {
    let seconds = window.as_secs().max(1).to_string();
    let program = subject(setup, bed, false).args(["switch", "--seconds", &seconds]);
    Ok(number(&read(&program.output()?)?, "switch_ns")? / 1e3)
}

/// The times of exchanges with a client on this core, and what they cost.
fn measure(
    bed: &Bed,
    pid: u32,
    client: usize,
    size: usize,
    window: Duration,
) -> Result<(Vec<Duration>, Cost)> {
    let asks = || server::exchanges(size, window);
    let (times, cost) = bed.account_with(&[pid], || server::as_client_on(bed, client, asks))?;
    cost.came_to_engine()?;
    Ok((times, cost))
}

fn findings() -> Vec<Finding> {
    let finding = |name: &str, figures: [f64; 9]| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: ONE_WAY.into(),
        points: SIZES.into_iter().zip(figures).collect(),
        at: Vec::new(),
        citation: cited("table 6.4"),
    };
    vec![
        finding(
            "the channel there, waiting",
            [26.4, 28.3, 28.4, 28.7, 32.75, 39.45, 71.5, 110.75, 188.15],
        ),
        finding(
            "the channel there, polling",
            [10.95, 12.1, 13.0, 15.8, 17.55, 22.6, 51.4, 90.3, 167.35],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{
        BOUND, CLIENT_CORE, INTERPOSER, core_of_looking, looks_fast, manners, roles, without,
    };

    #[test]
    fn who_shares_a_core_is_said() {
        assert_eq!((core_of_looking(2), core_of_looking(8)), (CLIENT_CORE, 2));
        assert!(roles(2).contains("together with the client"));
        assert!(roles(3).contains("on core 2, its own"));
        let own = |cores: usize| manners(cores).map(|(name, ..)| name.contains("core of its own"));
        assert_eq!(own(2), [false; 4]);
        assert_eq!(own(3), [false, false, true, true]);
        assert!(looks_fast(2).contains("does not have here"));
    }

    #[test]
    fn the_bound_is_that_of_one_core() {
        assert_eq!(without(false), [BOUND]);
        let on_one = without(true);
        assert!(on_one.contains(&INTERPOSER.to_owned()) && !on_one.contains(&BOUND.to_owned()));
    }
}
