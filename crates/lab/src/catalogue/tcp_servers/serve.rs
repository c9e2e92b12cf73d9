//! What a web server gains that knows of its engine: `outboard serve` beside nginx, each on the kernel and on the
//! engine.

use super::super::bed::{Bed, ROLES, stack_of, write_file};
use super::super::each::Each;
use super::super::offered::is_serve;
use super::super::prime::prime;
use super::super::web::{
    self, Asked, CONNECTIONS, ENGINE_CPU, LATENCIES, MACHINE_CPU, MEDIAN, SERVER_CPU, THROUGHPUT,
};
use super::super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::Lines;
use anyhow::{Context, Result};
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "serve",
    source: "001",
    about: "a web server that knows of its engine beside nginx: CPU of a request, requests a second, latency",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (5, 1),
    windows: 2,
    declare,
    open,
};

const AXIS: &str = "request";
const SUBJECTS: [&str; 4] = [NGINX, "nginx on the engine", "serve on the kernel", SERVE];
const NGINX: &str = "nginx on the kernel";
const SERVE: &str = "serve on the engine";
/// Bytes of the file of each, and what is asked: all rates are what each server can bear on one core.
const CASES: [(usize, Asked); 4] = [
    (64, asked(SMALL, "/small", false, prime(20_000))),
    (1 << 20, asked(LARGE, "/large", false, prime(300))),
    (
        16 << 10,
        asked("16 KB, keep-alive", "/16K", false, prime(10_000)),
    ),
    (64, asked("64 B, close", "/small", true, prime(5_000))),
];
const SMALL: &str = "64 B, keep-alive";
const LARGE: &str = "1 MB, keep-alive";

const fn asked(name: &'static str, path: &'static str, close: bool, rate: f64) -> Asked {
    Asked {
        name,
        path,
        close,
        rate,
    }
}

fn declare(extent: Extent) -> Experiment {
    let cases = match extent {
        Extent::Full => &CASES[..],
        Extent::Quick => &CASES[..2],
    };
    let names: Vec<&str> = cases.iter().map(|(_, asked)| asked.name).collect();
    let mut measures = vec![Measure::new(SERVER_CPU, "µs")];
    measures.extend([ENGINE_CPU, MACHINE_CPU].map(|name| Measure::new(name, "µs")));
    measures.push(Measure::new(THROUGHPUT, "req/s"));
    measures.extend(LATENCIES.map(|(name, _)| Measure::new(name, "µs")));
    let goal = |says: &str, measure: &str, request: &str, ratio| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: SERVE.into(),
        to: NGINX.into(),
        at: vec![(AXIS.into(), request.into())],
        ratio,
    };
    let picture = |title: &str, measure: &str| Picture::new(title, AXIS, measure).log_y();
    Experiment {
        name: ENTRY.name.into(),
        title: "A web server that knows of its engine".into(),
        question: "What does a server gain that hands its files to the engine and waits for nothing? 001 has a \
            server of its own, changed for its calls; here is outboard's, beside an unmodified nginx, each on the \
            kernel and on the engine."
            .into(),
        workload: format!(
            "The same files for both servers. Throughput: wrk, one thread, {CONNECTIONS} connections. CPU and \
             latency: a fixed rate that all can bear, the same for all; latency counts from when a request was due. \
             CPU of the machine is all of it, engine, softirq and the client included."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_words(AXIS, &names)],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures,
        pictures: vec![
            picture("CPU time of the server for a request", SERVER_CPU),
            picture("CPU time of the machine for a request", MACHINE_CPU),
            picture("Requests a second", THROUGHPUT),
            picture("Latency at a fixed rate", MEDIAN),
        ],
        findings: Vec::new(),
        claims: vec![
            goal(
                "For 64 bytes it takes a quarter of the CPU of nginx on the kernel at most",
                SERVER_CPU,
                SMALL,
                Bound::AtMost(0.25),
            ),
            goal(
                "For 1 MB it takes a tenth of the CPU of nginx on the kernel at most",
                SERVER_CPU,
                LARGE,
                Bound::AtMost(0.1),
            ),
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct Serve(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let fill = |site: &Path| {
        let mut cases = CASES.iter();
        cases.try_for_each(|(size, asked)| {
            write_file(&site.join(asked.path.trim_start_matches('/')), *size)
        })
    };
    let beds = Each::of(setup, |subject| {
        let bed = Bed::bare(setup, stack_of(subject))?;
        match is_serve(subject) {
            true => bed.serving_natively(setup, &[], fill),
            false => bed.serving(|site| fill(site).map(|()| Lines::default())),
        }
    });
    Ok(Box::new(Serve(beds?)))
}

impl Bench for Serve {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let name = at.word(AXIS)?;
        let case = CASES.iter().find(|(_, asked)| asked.name == name);
        let (_, asked) = case.with_context(|| format!("no request {name}"))?;
        web::measure(bed, asked, at.window)
    }
}
