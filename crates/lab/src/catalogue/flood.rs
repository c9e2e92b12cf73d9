//! What real clients notice of a SYN flood: `outboard lab flood` in the shape of the other
//! experiments, with the same clients beside it when there is no flood.

use super::bed::STACKS;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::flood::experiment::{on_engine, on_kernel, quantile};
use anyhow::{Result, bail};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry {
    name: "flood",
    source: "000",
    about: "what clients notice of a SYN flood, on the kernel and on the engine",
    needs: &["nginx", "taskset"],
    seconds: (10, 2),
    declare,
    open,
};

const FLOOD: &str = "flood";
const FLOODS: [&str; 2] = ["none", "SYNs as fast as a core sends"];
const MEDIAN: &str = "a client's time, median";
const TIMES: [(&str, f64); 3] = [
    (MEDIAN, 0.5),
    ("a client's time, 99 %", 0.99),
    ("a client's time, worst", 1.0),
];
const NOT_SERVED: &str = "clients not served";
const SENT: &str = "SYNs sent";
const ANSWERED: &str = "SYNs answered by a cookie";
const GROWN: &str = "growth of the engine's memory";

fn declare(_: Extent) -> Experiment {
    let mut measures: Vec<Measure> = TIMES.map(|(name, _)| Measure::new(name, "ms")).to_vec();
    measures.extend([
        Measure::new(NOT_SERVED, "%"),
        Measure::new(SENT, "1/s"),
        Measure::new(ANSWERED, "1/s"),
        Measure::new(GROWN, "KiB"),
    ]);
    Experiment {
        name: ENTRY.name.into(),
        title: "Clients during a SYN flood".into(),
        question:
            "What does a client notice of a flood of SYNs from addresses that nobody has? 000 left \
            surviving such attacks as a goal."
                .into(),
        workload:
            "clients come one after another, each with one request on a connection of its own; \
            each SYN of the flood is from another address and port"
                .into(),
        roles:
            "server and engine on core 0, the flood on core 1, the clients wherever there is room"
                .into(),
        axes: vec![Axis::of_words(FLOOD, &FLOODS)],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![Picture {
            title: "A client's time, median".into(),
            x: FLOOD.into(),
            y: MEDIAN.into(),
            log_x: false,
            log_y: true,
        }],
        findings: Vec::new(),
        model: None,
        claims: vec![Claim {
            says: "During a flood a client on the engine waits no longer than one on the kernel"
                .into(),
            citation: Citation {
                document: "goal".into(),
                place: "of this project".into(),
            },
            measure: MEDIAN.into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: vec![(FLOOD.into(), FLOODS[1].into())],
            ratio: Bound::AtMost(1.0),
        }],
    }
}

struct Flood(PathBuf);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Flood(setup.binary.clone())))
}

impl Bench for Flood {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let flooded = at.word(FLOOD)? == FLOODS[1];
        let seen = if at.subject == STACKS[1] {
            on_engine(&self.0, at.window, flooded)?
        } else {
            on_kernel(at.window, flooded)?
        };
        let all = seen.clients_ms.len() + seen.failed;
        if all == 0 {
            bail!("no client came");
        }
        let mut sample = Sample::default()
            .with(NOT_SERVED, seen.failed as f64 * 100.0 / all as f64)
            .with(ANSWERED, seen.answered);
        for (name, part) in TIMES {
            if let Some(time) = quantile(&seen.clients_ms, part) {
                sample = sample.with(name, time);
            }
        }
        for (name, value) in [
            (SENT, seen.sent),
            (GROWN, seen.grown.map(|bytes| bytes / 1_024.0)),
        ] {
            if let Some(value) = value {
                sample = sample.with(name, value);
            }
        }
        Ok(sample)
    }
}
