//! Responder and load client together, beside the bare rate of the platform: `outboard lab stateless`
//! in the shape of the other experiments.

use super::objects::IN_PLACE;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::sampler::account::Watched;
use crate::stateless::{CASES, GOAL, PLACEMENTS, Plan, SIZE as BODY, bare_rate, ends, worlds};
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

pub const BY_SIZE: Entry = Entry {
    name: "stateless-sizes",
    about: "the same by object size: what share of the bare rate of frames as long they reach",
    declare: declare_by_size,
    ..ENTRY
};

const MODE: &str = "connections";
const PLACE: &str = "placement";
const SIZE: &str = "size";
/// By its cases, one for one.
const MODES: [&str; 2] = ["keep-alive", "close"];
/// Bytes of body: up to the largest that is answered in the driver.
const SIZES: [f64; 6] = [0.0, 64.0, 256.0, 512.0, 1_024.0, IN_PLACE];
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
        question:
            "What share of the platform's own rate do responder and load client reach? 004 filled \
            its line from objects of 64 bytes on."
                .into(),
        workload: workload("64 bytes"),
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
        claims: vec![claim("")],
    }
}

fn declare_by_size(extent: Extent) -> Experiment {
    let (sizes, placements) = match extent {
        Extent::Full => (&SIZES[..], &PLACEMENTS[..]),
        Extent::Quick => (&[0.0, 1_024.0][..], &PLACEMENTS[..1]),
    };
    let picture = |mode: &str, place: &str| {
        let title = format!("Requests a second by object size, {mode}, {place}");
        Picture::new(title, SIZE, REQUESTS)
            .at(MODE, mode)
            .at(PLACE, place)
    };
    Experiment {
        name: BY_SIZE.name.into(),
        title: "Both ends without state by object size, beside the bare rate".into(),
        question: "What share of the platform's own rate do responder and load client reach, by the size of objects? \
            In 004 the line was full from 64 bytes on."
            .into(),
        workload: workload("up to the largest body that is answered in the driver"),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            Axis::of_words(MODE, &MODES),
            Axis::of_words(PLACE, placements),
        ],
        pictures: placements
            .iter()
            .flat_map(|place| MODES.map(|mode| picture(mode, place)))
            .collect(),
        claims: vec![claim(" of frames as long")],
        ..declare(extent)
    }
}

fn workload(size: &str) -> String {
    format!(
        "{AT_ONCE} connections outstanding, {size}. Bare: as many frames of the same mean length, out \
         by AF_XDP, back by XDP_TX, in by AF_XDP; a request takes one of them each way with keep-alive, \
         three with close."
    )
}

/// Of all that is measured, and of these frames.
fn claim(frames: &str) -> Claim {
    Claim {
        says: format!(
            "Both ends reach {:.0} % of the bare rate{frames}",
            GOAL * 100.0
        ),
        citation: Citation::goal(),
        measure: REQUESTS.into(),
        subject: SUBJECTS[1].into(),
        to: SUBJECTS[0].into(),
        at: Vec::new(),
        ratio: Bound::AtLeast(GOAL),
    }
}

struct Stateless {
    binary: PathBuf,
    worlds: [World; 2],
    /// Bytes of a frame, by size of the body, case and placement, once they are known.
    lengths: BTreeMap<(u32, usize, usize), usize>,
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
        let size = match at.experiment.axis(SIZE) {
            Some(_) => at.number(SIZE)? as u32,
            None => BODY,
        };
        let mut cases = CASES.iter().zip(MODES);
        let case = cases.position(|(case, short)| [case.name, short].contains(&mode));
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
            let length = match self.lengths.get(&(size, index, placement)) {
                Some(length) => *length,
                None => ends(world, &plan, case, size)?.length,
            };
            self.lengths.insert((size, index, placement), length);
            let nobody = Watched::default();
            let (rate, spent) = nobody.during(|_| bare_rate(world, &plan, length))?;
            let used = Used::with_client(&spent);
            return Ok(Sample::default()
                .using(&used)
                .with(REQUESTS, rate / case.frames));
        }
        let found = ends(world, &plan, case, size)?;
        self.lengths.insert((size, index, placement), found.length);
        // What is done in the driver is in no process: which of the two ends is the limit there is no saying.
        Ok(Sample::default()
            .using(&Used::with_client(&found.spent))
            .with(REQUESTS, found.requests)
            .with(CONNECTIONS, found.connections)
            .with(ERRORS, found.errors as f64 / at.window.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::{BY_SIZE, CASES, Extent, MODES, SIZE};

    #[test]
    fn both_ways_to_connect_are_the_cases_without_their_size() {
        for (case, mode) in CASES.iter().zip(MODES) {
            assert_eq!(case.name, format!("{mode}, 64 bytes"));
        }
    }

    /// Of every size there is a claim, and a picture that it is in.
    #[test]
    fn every_size_is_held_against_the_bare_rate() {
        let declared = BY_SIZE.declare(Extent::Full);
        assert_eq!(declared.mistakes(), [""; 0]);
        assert!(declared.claims.iter().all(|claim| claim.at.is_empty()));
        assert!(declared.pictures.iter().all(|picture| picture.x == SIZE));
        assert_eq!(declared.pictures.len(), 4);
    }
}
