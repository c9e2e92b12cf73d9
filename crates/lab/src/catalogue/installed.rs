//! What a user gets who sets nothing: `outboard lab installed` in the shape of the other experiments,
//! without the floor and other engines beside it.

use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::left_out::LeftOut;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::installed::measure::{measure, prepare};
use crate::installed::report::MEASURES;
use crate::installed::subject::{ADAPTIVE, ENGINE, KERNEL, KERNEL_NEAR, LATENCY, Subject};
use crate::installed::{CASES, Case, Plan, SET};
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "installed",
    source: "",
    about: "what a user gets who sets nothing: nginx, HAProxy, memcached, redis, PostgreSQL, messages, bulk",
    needs: &["nginx", "wrk"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const CASE: &str = "load";
/// What nearly every case has, and tables begin with.
const FIRST: &str = "latency, median";
const CPU: &str = "CPU of the machine a request";
const SERVER: &str = "CPU of the server";
const RATE: &str = "requests";
const BULK: &str = "throughput";

/// What is to hold of the engine beside the kernel: in which case, which measure.
const GOALS: [(&str, &str, Bound); 24] = [
    ("nginx, one connection", FIRST, Bound::AtMost(1.0)),
    ("ping-pong", FIRST, Bound::AtMost(1.0)),
    ("nginx, 997/s", CPU, Bound::AtMost(1.15)),
    ("nginx, 4,999/s", CPU, Bound::AtMost(1.0)),
    ("nginx, 19,997/s", CPU, Bound::AtMost(1.0)),
    ("nginx, 19,997/s", "latency, 99 %", Bound::AtMost(1.0)),
    ("nginx, 32 connections", RATE, Bound::AtLeast(1.3)),
    ("nginx, 32 connections", CPU, Bound::AtMost(1.0)),
    ("nginx, 128 connections", RATE, Bound::AtLeast(1.3)),
    ("nginx, 128 connections", CPU, Bound::AtMost(1.0)),
    ("nginx, close", RATE, Bound::AtLeast(2.5)),
    ("nginx, 1 MB", SERVER, Bound::AtMost(0.15)),
    ("nginx, 1 MB", CPU, Bound::AtMost(1.0)),
    ("nginx, 100 MB", SERVER, Bound::AtMost(0.15)),
    ("nginx, 100 MB", CPU, Bound::AtMost(1.0)),
    ("memcached, 16 connections", RATE, Bound::AtLeast(1.3)),
    ("memcached, 40 connections", RATE, Bound::AtLeast(1.3)),
    ("redis, 50 clients", RATE, Bound::AtLeast(1.3)),
    ("redis, pipelined", RATE, Bound::AtLeast(1.3)),
    ("PostgreSQL, one client", FIRST, Bound::AtMost(1.0)),
    ("PostgreSQL, 8 clients", RATE, Bound::AtLeast(1.3)),
    ("HAProxy, 32 connections", RATE, Bound::AtLeast(1.3)),
    ("ZeroMQ", FIRST, Bound::AtMost(1.0)),
    ("iperf3, to the server", BULK, Bound::AtLeast(1.0)),
];

/// Where it is a question who serves, and the engine that decides that is to cost no more than who costs less.
const DECIDED: [&str; 4] = [
    "nginx, 997/s",
    "nginx, 4,999/s",
    "nginx, 19,997/s",
    "nginx, 32 connections",
];

/// Both are there where one client waits for each answer, and in no other case.
const NEAR: [&str; 2] = [KERNEL_NEAR, LATENCY];

fn claims(cases: &[&str], subjects: &[&str]) -> Vec<Claim> {
    let claim = |case: &str, measure: &str, (subject, to): (&str, &str), ratio| Claim {
        says: format!("{case}: {measure}"),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: subject.into(),
        to: to.into(),
        at: vec![(CASE.into(), case.into())],
        ratio,
    };
    let goals = GOALS.into_iter();
    let goals = goals.map(|(case, measure, ratio)| (case, measure, (ENGINE, KERNEL), ratio));
    let decided = DECIDED.into_iter().flat_map(|case| {
        [KERNEL, ENGINE].map(|to| (case, CPU, (ADAPTIVE, to), Bound::AtMost(1.05)))
    });
    let near = CASES.iter().filter(|case| case.is_of_one_client());
    let near = near.map(|case| {
        let beside = (LATENCY, KERNEL_NEAR);
        (case.name, FIRST, beside, Bound::AtMost(0.6))
    });
    let all = goals.chain(decided).chain(near);
    all.filter(|(case, _, (subject, _), _)| cases.contains(case) && subjects.contains(subject))
        .map(|(case, measure, compared, ratio)| claim(case, measure, compared, ratio))
        .collect()
}

fn is_possible(case: &&Case) -> bool {
    case.missing().is_none()
}

/// Of a first impression.
const QUICK: [&str; 6] = [
    "nginx, 997/s",
    "nginx, 19,997/s",
    "nginx, 32 connections",
    "nginx, close",
    "memcached, 16 connections",
    "ping-pong",
];

fn declare(extent: Extent) -> Experiment {
    let is_meant = |case: &&Case| extent == Extent::Full || QUICK.contains(&case.name);
    let meant = CASES.iter().filter(is_meant);
    let left_out = meant.clone().filter_map(|case| {
        Some(LeftOut {
            axis: CASE.into(),
            name: case.name.into(),
            why: case.left_out()?,
        })
    });
    let left_out = left_out.collect();
    let names: Vec<&str> = meant.filter(is_possible).map(|case| case.name).collect();
    let counts: Vec<String> = CASES
        .iter()
        .filter(is_meant)
        .filter_map(Case::counts)
        .collect();
    let subjects: &[&str] = match extent {
        Extent::Full => &[KERNEL, ENGINE, ADAPTIVE, KERNEL_NEAR, LATENCY],
        Extent::Quick => &[KERNEL, ENGINE],
    };
    let mut axis = Axis::of_words(CASE, &names);
    let near = NEAR.into_iter().filter(|name| subjects.contains(name));
    let near: Vec<&str> = near.collect();
    for case in CASES.iter().filter(|case| !case.is_of_one_client()) {
        axis = axis.without_of(&near, case.name);
    }
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
        question: "What does a user get who installs the engine and sets nothing, and what if he sets only that quiet \
            listeners are the kernel's (adaptive)? And who has a core to spare for one client that waits for each answer \
            (latency)? CPU of the programs and \
            context switches are what holds on a machine that others use as well; latencies and rates \
            are what a user sees."
            .into(),
        workload: format!(
            "as each case says; at a rate, latency counts from when a request was due. {SET}. {}",
            counts.join(". ")
        ),
        roles: format!(
            "nothing is pinned; but of \"{KERNEL_NEAR}\" and \"{LATENCY}\" client and server are on core 0, and the \
             engine is on core 1"
        ),
        axes: vec![axis],
        subjects: subjects.iter().copied().map(String::from).collect(),
        measures,
        pictures: vec![picture(FIRST), picture(CPU)],
        findings: Vec::new(),
        left_out,
        model: None,
        claims: claims(&names, subjects),
    }
}

struct Installed {
    plan: Plan,
    /// Those that were asked for so far, each made when it is first prepared.
    subjects: Vec<Subject>,
}

impl Installed {
    fn subject(&mut self, name: &str) -> Result<&mut Subject> {
        let known = |subject: &Subject| subject.name() == name;
        let index = match self.subjects.iter().position(known) {
            Some(index) => index,
            None => {
                let subject = Subject::named(name, &self.plan.binary)?;
                self.subjects.push(subject);
                self.subjects.len() - 1
            }
        };
        Ok(&mut self.subjects[index])
    }
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
    Ok(Box::new(Installed {
        plan,
        subjects: Vec::new(),
    }))
}

/// What is measured there.
fn case(at: &At<'_>) -> Result<&'static Case> {
    let name = at.word(CASE)?;
    let case = CASES.iter().find(|case| case.name == name);
    case.with_context(|| format!("no case {name}"))
}

impl Bench for Installed {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.plan.window = at.window;
        let plan = self.plan.clone();
        prepare(&plan, case(at)?, self.subject(at.subject)?)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (plan, case) = (self.plan.clone(), case(at)?);
        let subject = self.subject(at.subject)?;
        let measured = measure(&plan, case, subject)?;
        // Clients may have any core, as servers may: whether they could have done more there is no saying.
        let mut sample = Sample::default().using(&measured.used);
        for (measure, value) in measured.values {
            sample = sample.with(measure.name, value);
        }
        Ok(sample)
    }
}
