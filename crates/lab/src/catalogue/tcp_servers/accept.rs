//! What eager accept and set-up with accept (001, sections 4.6 and 5.4) are worth: connections of one request,
//! one after another.

use super::super::{Entry, Extent, Setup};
use super::server::{self, Words};
use super::{Beds, PLACE, PLACES};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry {
    name: "accept",
    source: "001",
    about: "connections of one request: eager accept, set-up and first data with accept",
    needs: &["taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const TIME: &str = "connection and answer";
const SERVER: &str = "CPU of the program, a connection";
const ENGINE: &str = "CPU of the engine, a connection";
/// Bytes of a request, and of an answer.
const SIZE: usize = 64;
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &[&str]); 8] = [
    (KERNEL, &["sockets"]),
    (INTERPOSER, &["sockets"]),
    ("synchronous", &["synchronous"]),
    (NATIVE, &["asynchronous"]),
    ("eager accept", &["asynchronous", "--eager", "64"]),
    ("set-up with accept", &["asynchronous", "--setup"]),
    (
        "data with accept",
        &["asynchronous", "--setup", "--with-data"],
    ),
    (ALL, &["push", "--eager", "64", "--setup", "--with-data"]),
];
const KERNEL: &str = "kernel";
const INTERPOSER: &str = "interposer";
const NATIVE: &str = "native";
const ALL: &str = "all, with push";

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let places = PLACES.map(|(name, _)| name);
    let levels = if quick { &places[1..] } else { &places[..] };
    Experiment {
        name: ENTRY.name.into(),
        title: "What it takes to accept".into(),
        question: "What is it worth that the engine hands connections over before they are accepted, sets \
            them up in the same step, and brings their first data along? 001 has these as eager accept and \
            set-up with accept, and shows them in its web server only."
            .into(),
        workload: "One connection after another: a client on the kernel's TCP connects, sends 64 bytes, gets \
            as many, and closes; the median of the time from connecting to the answer. Native is the plain \
            way, one connection handed over at a time, its option set by a call of its own, the answer waited for by \
            nobody; synchronous waits until the engine has handed the answer to the wire. The others are native with \
            what their names say"
            .into(),
        roles: "the program on core 0, the client on core 1, the engine on either".into(),
        axes: vec![Axis::of_words(PLACE, levels)],
        subjects: SUBJECTS.map(|(name, _)| name.to_owned()).to_vec(),
        measures: vec![
            Measure::new(TIME, "µs"),
            Measure::new(SERVER, "µs"),
            Measure::new(ENGINE, "µs"),
        ],
        pictures: vec![
            Picture::new("From connecting to the answer", PLACE, TIME),
            Picture::new("CPU of the program, a connection", PLACE, SERVER),
        ],
        findings: Vec::new(),
        claims: vec![Claim {
            says: "All of it together takes the program less than the plain way".into(),
            citation: Citation::goal(),
            measure: SERVER.into(),
            subject: ALL.into(),
            to: NATIVE.into(),
            at: Vec::new(),
            ratio: Bound::AtMost(1.0),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Accept {
    setup: Setup,
    beds: Beds,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Accept {
        setup: setup.clone(),
        beds: Beds::new(setup)?,
    }))
}

impl Bench for Accept {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let is_kernel = at.subject == KERNEL;
        let bed = self.beds.get(is_kernel, at.word(PLACE)?)?;
        let words = Words {
            way,
            size: SIZE,
            is_interposed: at.subject == INTERPOSER,
            is_on_engine: true,
        };
        let server = server::start(&self.setup, bed, &words)?;
        let asks = || {
            let (mut times, start) = (Vec::new(), Instant::now());
            while start.elapsed() < at.window {
                times.push(once()?);
            }
            Ok(times)
        };
        let pid = server.id();
        let (mut times, cost) = bed.account_with(&[pid], || server::as_client(bed, asks))?;
        server.kill()?;
        let connections = times.len() as f64;
        let median = server::median(&mut times).context("not a single connection")?;
        let each = |seconds: f64| 1e6 * seconds / connections;
        let mut sample = cost
            .sample(cost.spent.passed)
            .with(TIME, median)
            .with(SERVER, each(cost.server().as_secs_f64()));
        if let Some(engine) = cost.spent.engine {
            if engine.batch() == 0.0 {
                bail!("the connections were not on the engine");
            }
            sample = sample.with(ENGINE, each(engine.busy));
        }
        Ok(sample)
    }
}

/// A connection with one request.
fn once() -> Result<Duration> {
    let began = Instant::now();
    let mut stream = server::connect()?;
    server::exchange(&mut stream, &mut [7; SIZE])?;
    Ok(began.elapsed())
}
