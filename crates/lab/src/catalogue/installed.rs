//! What a user gets who sets nothing: `outboard lab installed` in the shape of the other experiments,
//! without the floor and other engines beside it.

use super::bed::STACKS;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::installed::measure::measure;
use crate::installed::report::MEASURES;
use crate::installed::subject::Subject;
use crate::installed::{CASES, Case, Plan};
use crate::tool;
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "installed",
    source: "",
    about: "what a user gets who sets nothing: nginx, redis and sockperf",
    needs: &["nginx", "wrk"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const CASE: &str = "load";
/// What every case has, and tables begin with.
const FIRST: &str = "latency, median";
const CPU: &str = "CPU of the machine a request";

fn is_possible(case: &&Case) -> bool {
    case.needs()
        .iter()
        .all(|program| tool::find(program).is_some())
}

fn declare(_: Extent) -> Experiment {
    let names: Vec<&str> = CASES
        .iter()
        .filter(is_possible)
        .map(|case| case.name)
        .collect();
    let unit = |unit: &str| {
        if unit == "us" {
            "µs".to_owned()
        } else {
            unit.to_owned()
        }
    };
    let mut measures: Vec<Measure> = MEASURES
        .iter()
        .map(|known| Measure::new(known.name, &unit(known.unit)))
        .collect();
    measures.sort_by_key(|measure| measure.name != FIRST);
    let picture =
        |y: &str| Picture::new(format!("{y}, nothing pinned, nothing set"), CASE, y).log_y();
    Experiment {
        name: ENTRY.name.into(),
        title: "As installed: nothing pinned, nothing set".into(),
        question: "What does a user get who installs the engine and sets nothing? CPU of the programs and \
            context switches are what holds on a machine that others use as well; latencies and rates \
            are what a user sees."
            .into(),
        workload: "as each case says; at a rate, latency counts from when a request was due".into(),
        roles: "nothing is pinned".into(),
        axes: vec![Axis::of_words(CASE, &names)],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![picture(FIRST), picture(CPU)],
        findings: Vec::new(),
        model: None,
        claims: Vec::new(),
    }
}

struct Installed {
    plan: Plan,
    subjects: Vec<Subject>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let plan = Plan {
        binary: setup.binary.clone(),
        beside: Vec::new(),
        rounds: 1,
        window: Duration::ZERO,
        only: Vec::new(),
        floor: false,
    };
    let subjects = Subject::all(&plan)?;
    Ok(Box::new(Installed { plan, subjects }))
}

impl Bench for Installed {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        self.plan.window = at.window;
        let name = at.word(CASE)?;
        let case = CASES.iter().find(|case| case.name == name);
        let case = case.with_context(|| format!("no case {name}"))?;
        let subject = self
            .subjects
            .iter()
            .find(|known| known.name() == at.subject);
        let subject = subject.with_context(|| format!("no {}", at.subject))?;
        let mut sample = Sample::default();
        for (measured, value) in measure(&self.plan, case, subject)? {
            sample = sample.with(measured.name, value);
        }
        Ok(sample)
    }
}
