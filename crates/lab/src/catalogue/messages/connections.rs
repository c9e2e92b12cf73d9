//! A connection for each message and its answer, by size: what netperf calls TCP_CRR.

use super::super::bed::STACKS;
use super::super::tcp_servers::server::{self, Words};
use super::super::{Entry, Extent, Setup};
use super::{ALL, Beds, CPU, MTUS, ROLES, SIZE, SMALL, sizes, sources, subject, subjects};
use crate::experiment::declaration::{Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry {
    name: "message-connections",
    source: "",
    about: "a connection for each message and its answer, by size, with offload features off and on",
    needs: &["ethtool", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const MADE: &str = "connections";
const TIME: &str = "connection and answer";

fn declare(extent: Extent) -> Experiment {
    let subjects = match extent {
        Extent::Full => sources(extent),
        Extent::Quick => subjects(|name| name == ALL),
    };
    let picture = |title: &str, measure: &str| Picture::new(title, SIZE, measure).log_x();
    Experiment {
        name: ENTRY.name.into(),
        title: "A connection for each message, with and without offload features".into(),
        question: "What do connections cost that carry one message, by its size, and do features of the interface \
            change it? 002 has only messages on connections that stay."
            .into(),
        workload: "One connection after another, as netperf's TCP_CRR has them: a client on the kernel's TCP connects, \
            sends a message, gets as many bytes back, and closes; to a program of outboard's own, by socket calls. The \
            time is from connecting to the whole answer, its median"
            .into(),
        roles: ROLES.into(),
        axes: vec![sizes(extent)],
        subjects,
        measures: vec![
            Measure::new(MADE, "1/s"),
            Measure::new(TIME, "µs"),
            Measure::new(CPU, "%"),
        ],
        pictures: vec![
            picture("Connections a second by size", MADE).log_y(),
            picture("Connection and answer by size", TIME).log_y(),
            picture("CPU by size", CPU),
        ],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: vec![Claim {
            says: "The engine takes no longer for a connection with a small message".into(),
            citation: Citation::goal(),
            measure: TIME.into(),
            subject: subject(STACKS[1], ALL),
            to: subject(STACKS[0], ALL).into(),
            at: vec![(SIZE.into(), SMALL.into())],
            ratio: Bound::AtMost(1.0),
        }],
    }
}

struct Connections(Beds);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Connections(Beds::new(setup))))
}

impl Bench for Connections {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.0.get(at.subject, MTUS[0]).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let setup = self.0.setup.clone();
        let bed = self.0.get(at.subject, MTUS[0])?;
        let words = Words {
            way: &["sockets"],
            size: at.number(SIZE)? as usize,
            is_interposed: bed.outboard().is_some(),
            is_on_engine: true,
        };
        let server = server::start(&setup, bed, &words)?;
        let asks = || made(words.size, at.window);
        let (mut times, cost) =
            bed.account_with(&[server.id()], || server::as_client(bed, asks))?;
        server.kill()?;
        cost.came_to_engine()?;
        let count = times.len() as f64;
        let median = server::median(&mut times).context("not a single connection")?;
        let mut sample = cost
            .sample(cost.spent.passed)
            .with(MADE, count / cost.spent.passed.as_secs_f64().max(1e-9))
            .with(TIME, median)
            .with(CPU, 100.0 * cost.spent.share_of_machine());
        sample.notes.extend(cost.beside_engine(count));
        Ok(sample)
    }
}

/// Connections with a message of this size, one after another: how long each took.
fn made(size: usize, window: Duration) -> Result<Vec<Duration>> {
    let (mut times, mut message) = (Vec::new(), vec![7; size]);
    let start = Instant::now();
    while start.elapsed() < window {
        let began = Instant::now();
        let mut stream = server::connect()?;
        server::exchange(&mut stream, &mut message)?;
        times.push(began.elapsed());
    }
    Ok(times)
}
