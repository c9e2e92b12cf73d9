//! The stateless responder in the driver beside nginx on the kernel's TCP: `outboard lab respond` in the
//! shape of the other experiments, without its SYN flood.

use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::used::{SERVER, Used};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::Nginx;
use crate::process::Process;
use crate::respond::{Pair, end};
use crate::sampler::account::Watched;
use anyhow::{Result, bail};

pub const ENTRY: Entry = Entry {
    name: "respond",
    source: "004",
    about: "the stateless responder and nginx, nothing pinned; the run time of the program",
    needs: &["nginx", "wrk"],
    seconds: (5, 2),
    windows: 2,
    declare,
    open,
};

const MODE: &str = "connections";
const MODES: [&str; 2] = ["keep-alive", "close"];
const SUBJECTS: [&str; 2] = ["nginx", "responder"];
const RATE: &str = "requests";
const RUN: &str = "a run of the program";
const PASSING: &str = "a run of one that lets pass";
/// What a whole request took there at most, nanoseconds.
const WHOLE: f64 = 1_400.0;
/// Connections of the client.
const CONNECTIONS: usize = 128;

fn declare(_: Extent) -> Experiment {
    let goal = |mode: &str, least: f64| Claim {
        says: format!("At least {least} times as many as nginx, {mode}"),
        citation: Citation::goal(),
        measure: RATE.into(),
        subject: SUBJECTS[1].into(),
        to: SUBJECTS[0].into(),
        at: vec![(MODE.into(), mode.into())],
        ratio: Bound::AtLeast(least),
    };
    let driver = || Citation {
        document: "004".into(),
        place: "Stateless HTTP server as an Ndiv application".into(),
    };
    // By the place of its mode.
    let finding = |name: &str, measure: &str, points: &[(f64, f64)]| Finding {
        name: name.into(),
        axis: MODE.into(),
        measure: measure.into(),
        points: points.to_vec(),
        at: Vec::new(),
        citation: driver(),
    };
    let run = |what: &str, measure: &str| Picture::new(what, MODE, measure);
    Experiment {
        name: ENTRY.name.into(),
        title: "The stateless responder and nginx".into(),
        question:
            "How many more requests does a server without sessions answer in the driver than nginx \
            on the kernel's TCP, and how long does its program run for a frame?"
                .into(),
        workload: format!(
            "wrk, two threads, {CONNECTIONS} connections, 64 bytes; with close, each request has \
            one. The program's run time is the kernel's own count, in a measurement of its own."
        ),
        roles: "nothing is pinned; a veth does the driver's work where the sender is".into(),
        axes: vec![Axis::of_words(MODE, &MODES)],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new(RUN, "ns"),
            Measure::new(PASSING, "ns"),
        ],
        pictures: vec![
            Picture::new("Requests a second, 64 bytes (004)", MODE, RATE),
            run(
                "Run time of the program for a frame that it answers (004)",
                RUN,
            ),
            run("Run time of one that lets a frame pass", PASSING),
        ],
        findings: vec![
            finding(
                "in the driver there",
                RATE,
                &[(0.0, 564_000.0), (1.0, 340_000.0)],
            ),
            finding("a whole request there, at most", RUN, &[(0.0, WHOLE)]),
        ],
        left_out: Vec::new(),
        model: None,
        claims: vec![
            goal(MODES[0], 1.8),
            goal(MODES[1], 4.0),
            Claim {
                says: "A frame is answered in less than 1.4 µs".into(),
                citation: driver(),
                measure: RUN.into(),
                subject: SUBJECTS[1].into(),
                to: "".into(),
                at: vec![(MODE.into(), MODES[0].into())],
                ratio: Bound::AtMost(WHOLE),
            },
        ],
    }
}

struct Respond {
    /// That of the measurement that comes next. Before the network that it is in.
    server: Option<Server>,
    pair: Pair,
}

pub(super) enum Server {
    Nginx(Nginx),
    Responder(Process),
}

impl Server {
    /// As an account watches it. What a responder does in the driver is not in the run time of its process.
    pub fn watched(&self) -> Watched {
        let process = match self {
            Self::Nginx(nginx) => nginx.worker(),
            Self::Responder(responder) => responder.id(),
        };
        Watched {
            processes: vec![(SERVER, process)],
            ..Watched::default()
        }
    }
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Respond {
        server: None,
        pair: Pair::new(&setup.binary, CONNECTIONS)?,
    }))
}

impl Bench for Respond {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.server = None;
        self.server = Some(match at.subject == SUBJECTS[0] {
            true => Server::Nginx(self.pair.nginx()?),
            false => Server::Responder(self.pair.responder()?),
        });
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (close, window) = (at.word(MODE)? == MODES[1], at.window);
        let Some(server) = self.server.take() else {
            bail!("no server was started");
        };
        let (rate, spent) = server.watched().during(|_| match &server {
            Server::Nginx(_) => self.pair.rate_of_nginx(close, window),
            Server::Responder(_) => self.pair.rate_of_responder(close, window),
        })?;
        // The client may have any core, as the server may: whether it could have done more there is no saying.
        let used = Used::with_client(&spent);
        let mut sample = Sample::default().using(&used).with(RATE, rate);
        let responder = match server {
            Server::Nginx(nginx) => {
                nginx.stop()?;
                return Ok(sample);
            }
            Server::Responder(responder) => responder,
        };
        if !close && let Some((most, least)) = self.pair.cost(&responder, window)? {
            sample = sample.with(RUN, most).with(PASSING, least);
        }
        end(responder)?;
        Ok(sample)
    }
}
