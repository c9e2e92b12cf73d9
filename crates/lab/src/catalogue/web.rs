//! nginx on the kernel's TCP and on the engine: throughput, CPU a request, latency.

use super::bed::{Bed, Cost, ROLES, STACKS, write_file};
use super::each::Each;
use super::prime::prime;
use super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::{Load, Outcome};
use crate::nginx::Nginx;
use anyhow::{Context, Result, bail};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "web",
    source: "",
    about: "nginx: throughput, CPU a request, latency",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (10, 1),
    windows: 2,
    declare,
    open,
};

/// Connections that clients keep open at once.
pub(super) const CONNECTIONS: usize = 32;

/// One kind of request.
struct Case {
    name: &'static str,
    path: &'static str,
    /// The size of the file behind it; `None` for what nginx answers by itself.
    file: Option<usize>,
    close: bool,
    /// Requests a second for the measurements at a fixed rate: well below what either stack can do
    /// on one core of a small machine.
    rate: f64,
}

const CASES: [Case; 5] = [
    case("keep-alive, 64 B", "/64", None, false, prime(20_000)),
    case("close, 64 B", "/64", None, true, prime(5_000)),
    case(
        "keep-alive, 1 KB file",
        "/1K",
        Some(1 << 10),
        false,
        prime(20_000),
    ),
    case(
        "keep-alive, 16 KB file",
        "/16K",
        Some(16 << 10),
        false,
        prime(10_000),
    ),
    case(
        "keep-alive, 1 MB file",
        "/1M",
        Some(1 << 20),
        false,
        prime(300),
    ),
];

const fn case(
    name: &'static str,
    path: &'static str,
    file: Option<usize>,
    close: bool,
    rate: f64,
) -> Case {
    Case {
        name,
        path,
        file,
        close,
        rate,
    }
}

const AXIS: &str = "request";
pub(super) const THROUGHPUT: &str = "throughput";
pub(super) const SERVER_CPU: &str = "CPU of the server a request";
pub(super) const ENGINE_CPU: &str = "CPU of the engine a request";
pub(super) const MACHINE_CPU: &str = "CPU of the machine a request";
pub(super) const MEDIAN: &str = "latency, median";
pub(super) const LATENCIES: [(&str, f64); 3] = [
    (MEDIAN, 0.5),
    ("latency, 99 %", 0.99),
    ("latency, 99.9 %", 0.999),
];

fn declare(extent: Extent) -> Experiment {
    let cases = match extent {
        Extent::Full => &CASES[..],
        Extent::Quick => &CASES[..4],
    };
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let mut measures = vec![Measure::new(THROUGHPUT, "req/s")];
    measures.extend([SERVER_CPU, ENGINE_CPU, MACHINE_CPU].map(|name| Measure::new(name, "µs")));
    measures.extend(LATENCIES.map(|(name, _)| Measure::new(name, "µs")));
    let goal = |says: &str, measure: &str, case: &Case, ratio| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: vec![(AXIS.into(), case.name.into())],
        ratio,
    };
    let as_fast = "The engine serves no fewer requests than the kernel";
    let mut claims = vec![
        goal(as_fast, THROUGHPUT, &CASES[0], Bound::AtLeast(1.0)),
        goal(
            "A server on the engine uses half the CPU",
            SERVER_CPU,
            &CASES[0],
            Bound::AtMost(0.5),
        ),
        goal(
            "The machine uses no more CPU with the engine",
            MACHINE_CPU,
            &CASES[0],
            Bound::AtMost(1.0),
        ),
        goal(as_fast, THROUGHPUT, &CASES[1], Bound::AtLeast(1.0)),
    ];
    if extent == Extent::Full {
        claims.push(goal(
            "Large files lose no more than a fifth",
            THROUGHPUT,
            &CASES[4],
            Bound::AtLeast(0.8),
        ));
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "nginx on the kernel's TCP and on the engine".into(),
        question:
            "What does an unmodified nginx gain by the engine, in requests a second, in CPU time \
            for each and in latency?"
                .into(),
        workload: format!(
            "Throughput: wrk, one thread, {CONNECTIONS} connections. CPU and latency: a fixed rate \
             that both stacks can bear, the same for both; latency counts from when a request was due."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_words(AXIS, &names)],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![
            Picture::new("Requests a second", AXIS, THROUGHPUT).log_y(),
            Picture::new("CPU time of the server for a request", AXIS, SERVER_CPU),
            Picture::new("Latency at a fixed rate", AXIS, MEDIAN).log_y(),
        ],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims,
    }
}

struct Web(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Bed::both(setup, |site| {
        for case in &CASES {
            if let Some(size) = case.file {
                write_file(&site.join(case.path.trim_start_matches('/')), size)?;
            }
        }
        Ok(())
    })?;
    Ok(Box::new(Web(beds)))
}

impl Bench for Web {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let name = at.word(AXIS)?;
        let case = CASES.iter().find(|case| case.name == name);
        let case = case.with_context(|| format!("no request {name}"))?;
        measure(self.0.get(at.subject)?, &case.asked(), at.window)
    }
}

/// What a server is asked, for throughput and at a rate that all can bear.
pub(super) struct Asked {
    pub name: &'static str,
    pub path: &'static str,
    pub close: bool,
    pub rate: f64,
}

impl Case {
    fn asked(&self) -> Asked {
        Asked {
            name: self.name,
            path: self.path,
            close: self.close,
            rate: self.rate,
        }
    }
}

/// As many requests as it can answer, and then those of a rate.
pub(super) fn measure(bed: &Bed, asked: &Asked, window: Duration) -> Result<Sample> {
    let url = format!("http://{}{}", Nginx::address(), asked.path);
    let (rate, cost) = bed.account(|| wrk::run(bed, &url, CONNECTIONS, asked.close, window))?;
    let mut sample = cost.sample(window).with(THROUGHPUT, rate);
    let made = wrk::connections(rate, CONNECTIONS, asked.close, window);
    sample.notes.extend(cost.beside_engine(made));
    at_a_rate(bed, asked, window, sample)
}

/// A rate that all can bear: what does a request cost, and how long does it take?
fn at_a_rate(bed: &Bed, case: &Asked, window: Duration, sample: Sample) -> Result<Sample> {
    let load = Load {
        server: Nginx::address(),
        path: case.path.into(),
        close: case.close,
        connections: CONNECTIONS,
        rate: case.rate,
        duration: window,
        grace: Load::GRACE,
    };
    let (outcome, cost) = bed.account_closing(&[], |closed| {
        bed.on_client(|| load.run_closing(&load.path(), closed))
    })?;
    told(&outcome, &cost, case.name, sample)
}

/// `sample` with what requests of a rate cost, and how long they took.
pub(super) fn told(
    outcome: &Outcome,
    cost: &Cost,
    name: &str,
    mut sample: Sample,
) -> Result<Sample> {
    if outcome.in_time == 0 {
        bail!("no request was answered");
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / outcome.in_time as f64;
    let client = sample.client.or(cost.limits_of(outcome));
    sample = sample
        .using(&cost.used())
        .by(client)
        .with(SERVER_CPU, each(cost.server()))
        .with(MACHINE_CPU, each(cost.machine()));
    if cost.spent.engine.is_some() {
        sample = sample.with(ENGINE_CPU, each(cost.engine()));
    }
    for (name, quantile) in LATENCIES {
        let latency = outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
        sample = sample.with(name, latency);
    }
    let connections = outcome.connections as f64;
    sample.notes.extend(cost.beside_engine(connections));
    let lost = outcome.failed + outcome.unanswered();
    if lost > 0 {
        sample.notes.push(format!(
            "{name}: {lost} of {} requests at the fixed rate were not answered",
            outcome.due
        ));
    }
    Ok(sample)
}
