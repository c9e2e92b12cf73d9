//! 001, table 6.4: one-way latency by size, of a program that waits and of one that polls.

use super::super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use super::super::{Entry, Extent, Setup};
use super::server::{self, Words};
use super::{ASYNCHRONOUS, SYNCHRONOUS, cited};
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
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &str); 7] = [
    (KERNEL, "sockets"),
    (INTERPOSER, "sockets"),
    SYNCHRONOUS,
    ASYNCHRONOUS,
    ("registered", "registered"),
    ("pull", "pull"),
    (PUSH, "push"),
];
const KERNEL: &str = "kernel";
const INTERPOSER: &str = "interposer";
const PUSH: &str = "push";
/// What the program does while nothing has come, whether that is polling, and what the engine does.
const MANNERS: [(&str, bool, Looks); 3] = [
    ("waits, engine on its core", false, Looks::OnItsCore),
    (
        "waits, engine looks on a core of its own",
        false,
        Looks::OnItsOwn,
    ),
    (
        "polls, engine looks on a core of its own",
        true,
        Looks::OnItsOwn,
    ),
];

/// Where the engine is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// On the core of its program, and sleeps while there is nothing to do.
    OnItsCore,
    /// On another core, and looks for work for up to a millisecond before it sleeps: it is told `--profile latency`.
    OnItsOwn,
}

/// The core of an engine that looks for work, of a machine with so many: the third, where there is one.
const fn core_of_looking(cores: usize) -> usize {
    if cores > 2 { 2 } else { CLIENT_CORE }
}

/// What is on which core, on a machine with so many.
fn roles(cores: usize) -> String {
    let place = match core_of_looking(cores) {
        CLIENT_CORE => {
            "on core 1 together with the client, as there are two cores only: nobody has one for himself there, the \
             engine gives way to the client while that has something to do, and what an engine gains on a core of \
             its own does not show in full"
        }
        _ => "on core 2, its own",
    };
    format!(
        "the program on core 0, the client on core 1; the engine on core 0 or, where it looks for work \
         (`--profile latency`), {place}"
    )
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
const SIZES: [f64; 9] = [
    16.0, 32.0, 64.0, 128.0, 512.0, 1_024.0, 4_096.0, 8_192.0, 16_384.0,
];

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &[64.0] } else { &SIZES[..] };
    let manners = MANNERS.map(|(name, ..)| name);
    let [waits, looks, _] = manners;
    let levels = if quick { &[waits, looks] } else { &manners[..] };
    let claim = |says: &str, manner: &str, ratio| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: ONE_WAY.into(),
        subject: PUSH.into(),
        to: KERNEL.into(),
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
            and answers from them"
            .into(),
        roles: roles(cores()),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            Axis::of_words(MANNER, levels),
        ],
        subjects: SUBJECTS.map(|(name, _)| name.to_owned()).to_vec(),
        measures: vec![Measure::new(ONE_WAY, "µs"), Measure::new(SERVER, "µs")],
        pictures,
        findings: findings(),
        claims: vec![
            claim(
                "On one core an echo of 64 bytes takes no longer than on the kernel",
                waits,
                Bound::AtMost(1.0),
            ),
            claim(
                "With an engine that looks for work on a core of its own it takes 0.6 of the time at most",
                looks,
                Bound::AtMost(0.6),
            ),
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct Latency {
    setup: Setup,
    kernel: Option<Bed>,
    on_its_core: Option<Bed>,
    on_its_own: Option<Bed>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let is_asked_for = |is_kernel: bool| {
        let mut subjects = setup.subjects.iter();
        subjects.any(|subject| (subject == KERNEL) == is_kernel)
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
        on_its_own: engine(core_of_looking(cores()), &["--profile", "latency"])?,
    }))
}

impl Bench for Latency {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let manner = at.word(MANNER)?;
        let known = MANNERS.iter().find(|(name, ..)| *name == manner);
        let (_, polls, place) = known.with_context(|| format!("no program that {manner}"))?;
        let bed = match place {
            _ if at.subject == KERNEL => &self.kernel,
            Looks::OnItsCore => &self.on_its_core,
            Looks::OnItsOwn => &self.on_its_own,
        };
        let bed = bed.as_ref().context("there is no bed for it")?;
        let words = Words {
            way: if *polls { &[way, "--poll"] } else { &[way] },
            size: at.number(SIZE)? as usize,
            is_interposed: at.subject == INTERPOSER,
            is_on_engine: true,
        };
        let server = server::start(&self.setup, bed, &words)?;
        let pid = server.id();
        let (mut times, used) = measure(bed, pid, words.size, at.window)?;
        server.kill()?;
        let messages = times.len() as f64;
        let median = server::median(&mut times).context("not a single message")?;
        Ok(Sample::default()
            .with(ONE_WAY, median / 2.0)
            .with(SERVER, used.as_secs_f64() * 1e6 / messages))
    }
}

/// The times of exchanges, and what the program used meanwhile.
fn measure(
    bed: &Bed,
    pid: u32,
    size: usize,
    window: Duration,
) -> Result<(Vec<Duration>, Duration)> {
    let asks = || server::exchanges(size, window);
    let (times, cost) = bed.account_with(&[pid], || server::as_client(bed, asks))?;
    cost.came_to_engine()?;
    Ok((times, cost.server()))
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
    use super::{CLIENT_CORE, core_of_looking, roles};

    #[test]
    fn who_shares_a_core_is_said() {
        assert_eq!((core_of_looking(2), core_of_looking(8)), (CLIENT_CORE, 2));
        assert!(roles(2).contains("together with the client"));
        assert!(roles(3).contains("on core 2, its own"));
    }
}
