//! Responder and load client together, beside the bare rate of the platform: `outboard lab stateless`
//! in the shape of the other experiments.

use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::sampler::account::Watched;
use crate::stateless::{CASES, GOAL, PLACEMENTS, Plan, bare_rate, ends, worlds};
use crate::world::World;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub const ENTRY: Entry = Entry {
    name: "stateless",
    source: "004",
    about: "responder and load client, both stateless, beside the bare rate of the platform",
    needs: &["ethtool", "taskset"],
    seconds: (10, 2),
    windows: 1,
    declare,
    open,
};

const MODE: &str = "connections";
const PLACE: &str = "placement";
/// What the platform allows at best, and what both ends reach.
const SUBJECTS: [&str; 2] = ["bare", "both ends"];
const REQUESTS: &str = "requests";
const CONNECTIONS: &str = "connections a second";
const ERRORS: &str = "errors";
/// Connections outstanding at once, and frames on their way in the bare measurement.
const AT_ONCE: usize = 128;

fn declare(_: Extent) -> Experiment {
    Experiment {
        name: ENTRY.name.into(),
        title: "Both ends without state, beside the bare rate".into(),
        question: "What share of the platform's own rate do responder and load client reach? 004 filled \
            its line from objects of 64 bytes on."
            .into(),
        workload: format!(
            "{AT_ONCE} connections outstanding, 64 bytes. Bare: as many frames of the same mean length, out \
             by AF_XDP, back by XDP_TX, in by AF_XDP; a request takes one of them each way with keep-alive, \
             three with close."
        ),
        roles: "a core each: the driver's receive work of the server, with the responder in it, on core 0, \
            the client on core 1; one core: both on core 1"
            .into(),
        axes: vec![
            Axis::of_words(MODE, &CASES.map(|case| case.name)),
            Axis::of_words(PLACE, &PLACEMENTS),
        ],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(REQUESTS, "1/s"),
            Measure::new(CONNECTIONS, "1/s"),
            Measure::new(ERRORS, "1/s"),
        ],
        pictures: vec![Picture::new("Requests a second, 64 bytes", MODE, REQUESTS)],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: vec![Claim {
            says: format!("Both ends reach {:.0} % of the bare rate", GOAL * 100.0),
            citation: Citation::goal(),
            measure: REQUESTS.into(),
            subject: SUBJECTS[1].into(),
            to: SUBJECTS[0].into(),
            at: Vec::new(),
            ratio: Bound::AtLeast(GOAL),
        }],
    }
}

struct Stateless {
    binary: PathBuf,
    worlds: [World; 2],
    /// Bytes of a frame, by case and placement, once they are known.
    lengths: BTreeMap<(usize, usize), usize>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Stateless {
        binary: setup.binary.clone(),
        worlds: worlds()?,
        lengths: BTreeMap::new(),
    }))
}

impl Bench for Stateless {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (mode, place) = (at.word(MODE)?, at.word(PLACE)?);
        let case = CASES.iter().position(|case| case.name == mode);
        let placement = PLACEMENTS.iter().position(|known| *known == place);
        let (index, placement) = case.zip(placement).context("no such case or placement")?;
        let (case, world) = (&CASES[index], &self.worlds[placement]);
        let plan = Plan {
            binary: self.binary.clone(),
            rounds: 1,
            window: at.window,
            connections: AT_ONCE,
        };
        if at.subject == SUBJECTS[0] {
            // Of the same length as those of both ends, so these come first, the first time.
            let length = match self.lengths.get(&(index, placement)) {
                Some(length) => *length,
                None => ends(world, &plan, case)?.length,
            };
            self.lengths.insert((index, placement), length);
            let nobody = Watched::default();
            let (rate, spent) = nobody.during(|_| bare_rate(world, &plan, length))?;
            let used = Used::with_client(&spent);
            return Ok(Sample::default()
                .using(&used)
                .with(REQUESTS, rate / case.frames));
        }
        let found = ends(world, &plan, case)?;
        self.lengths.insert((index, placement), found.length);
        // What is done in the driver is in no process: which of the two ends is the limit there is no saying.
        Ok(Sample::default()
            .using(&Used::with_client(&found.spent))
            .with(REQUESTS, found.requests)
            .with(CONNECTIONS, found.connections)
            .with(ERRORS, found.errors as f64 / at.window.as_secs_f64()))
    }
}
