//! How much a sender gets through a long wire that loses frames: `outboard lab goodput` in the shape
//! of the other experiments.

use super::bed::STACKS;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::goodput::{Plan, Subject, once};
use anyhow::Result;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "goodput",
    source: "",
    about: "what a sender gets through a long wire that loses frames: CUBIC and the engine",
    needs: &["nginx", "ethtool"],
    seconds: (10, 2),
    declare,
    open,
};

const LOSS: &str = "loss";
const GOODPUT: &str = "goodput";
const LOST: &str = "frames that were lost";

fn declare(extent: Extent) -> Experiment {
    let losses: &[f64] = match extent {
        Extent::Full => &[0.0, 0.1, 0.3, 1.0, 3.0],
        Extent::Quick => &[0.1, 1.0],
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Goodput through a long wire that loses frames".into(),
        question:
            "How much of a wire does a sender get that loses frames at random? The kernel's CUBIC \
            and the engine, on the same wire with the same seeds."
                .into(),
        workload: format!(
            "{} connections at once fetch a file without end from nginx; a round trip of {} ms, {} Mb/s \
             each way, {} KB that may wait. From the beginning of each connection on, its slow start \
             included.",
            Plan::CONNECTIONS,
            Plan::ROUND_TRIP.as_millis(),
            Plan::BANDWIDTH / 1_000_000,
            Plan::QUEUE / 1_000,
        ),
        roles: "nothing is pinned: the wire is so slow that the machine does not matter".into(),
        axes: vec![Axis::of_numbers(LOSS, "% each way", losses)],
        subjects: STACKS.map(String::from).to_vec(),
        measures: vec![Measure::new(GOODPUT, "Mb/s"), Measure::new(LOST, "%")],
        pictures: vec![Picture {
            title: "Goodput by loss".into(),
            x: LOSS.into(),
            y: GOODPUT.into(),
            log_x: false,
            log_y: false,
        }],
        findings: Vec::new(),
        claims: vec![Claim {
            says: "The engine gets as much as CUBIC".into(),
            citation: Citation::goal(),
            measure: GOODPUT.into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: vec![(LOSS.into(), "1".into())],
            ratio: Bound::AtLeast(1.0),
        }],
        model: None,
    }
}

struct Goodput {
    plan: Plan,
    subjects: Vec<Subject>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let subjects = [false, true].map(|on_engine| Subject::new(&setup.binary, on_engine));
    Ok(Box::new(Goodput {
        plan: Plan {
            binary: setup.binary.clone(),
            rounds: 1,
            window: Duration::ZERO,
            losses: Vec::new(),
            connections: Plan::CONNECTIONS,
            round_trip: Plan::ROUND_TRIP,
            bandwidth: Plan::BANDWIDTH,
            queue: Plan::QUEUE,
            seed: 0,
        },
        subjects: subjects.into_iter().collect::<Result<_>>()?,
    }))
}

impl Bench for Goodput {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        self.plan.window = at.window;
        let subject = &self.subjects[usize::from(at.subject == STACKS[1])];
        let found = once(&self.plan, subject, at.number(LOSS)? / 100.0, at.seed)?;
        let mut sample = Sample::default()
            .with(GOODPUT, found.goodput)
            .with(LOST, found.lost() * 100.0);
        let late = found.late().into_iter();
        sample
            .notes
            .extend(late.map(|passed| format!("The wire was late: {passed}")));
        Ok(sample)
    }
}
