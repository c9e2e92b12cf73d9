//! 001, section 6.4: a web server in each variant, by the size of its files, for connections of one request and for
//! connections that stay.

use super::super::offered;
use super::super::prime::prime;
use super::super::web::{
    self, CONNECTIONS, ENGINE_CPU, LATENCIES, MACHINE_CPU, MEDIAN, SERVER_CPU, THROUGHPUT,
};
use super::super::wrk;
use super::super::{Entry, Extent, Setup};
use super::web_server::{
    ALL, Beds, EAGER, KERNEL, KERNEL_RECEIVED, PULL, SETUP, SUBJECTS, VARIANTS, all_words, drawn,
};
use super::{REGISTERED, SYNCHRONOUS, SYNCHRONOUS_REGISTERED, cited};
use crate::experiment::declaration::{Axis, Bound, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::Load;
use crate::nginx::Nginx;
use crate::world::World;
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "web-variants",
    source: "001",
    about: "a web server in each variant, by size of files: requests a second, CPU of a request, latency",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (1, 1),
    windows: 2,
    declare,
    open,
};

const SIZE: &str = "file";
const CONNECTION: &str = "connection";
const CLOSE: &str = "close";
const KEEP: &str = "keep-alive";
/// Sizes, and requests a second that each server can bear on one core: on connections of one request, and on those
/// that stay.
const SIZES: [(usize, [f64; 2]); 4] = [
    (64, [prime(4_000), prime(15_000)]),
    (4_096, [prime(4_000), prime(12_000)]),
    (16_384, [prime(3_000), prime(8_000)]),
    (65_536, [prime(1_500), prime(3_000)]),
];
/// The size of the source's files.
const SOURCES: &str = "16384";

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &SIZES[2..3] } else { &SIZES[..] };
    let sizes: Vec<f64> = sizes.iter().map(|(size, _)| *size as f64).collect();
    let connections: &[&str] = if quick { &[CLOSE] } else { &[CLOSE, KEEP] };
    let claim = |says: &str, place: &str, connection: &str, subject: &str, to: &str, ratio| Claim {
        says: says.into(),
        citation: cited(place),
        measure: THROUGHPUT.into(),
        subject: subject.into(),
        to: to.into(),
        at: [(SIZE, SOURCES), (CONNECTION, connection)]
            .map(|(axis, level)| (axis.to_owned(), level.to_owned()))
            .to_vec(),
        ratio,
    };
    let mut claims = vec![
        claim(
            "By sends that wait for the engine a full server answers 15 % more than on the kernel",
            "figure 6.14, Sock",
            CLOSE,
            SYNCHRONOUS.0,
            KERNEL,
            Bound::AtLeast(1.15),
        ),
        claim(
            "By sends from registered memory that wait for the engine it answers 22 % more",
            "figure 6.14",
            CLOSE,
            SYNCHRONOUS_REGISTERED.0,
            KERNEL,
            Bound::AtLeast(1.22),
        ),
        claim(
            "By sends that nobody waits for, with set-up, it answers 30 % more",
            "figure 6.14",
            CLOSE,
            SETUP,
            KERNEL,
            Bound::AtLeast(1.3),
        ),
        claim(
            "Eager accept brings a full server nothing",
            "section 6.4.2",
            CLOSE,
            EAGER,
            REGISTERED.0,
            Bound::AtMost(1.05),
        ),
        claim(
            "Eager receive brings it nothing",
            "section 6.4.2",
            CLOSE,
            PULL,
            REGISTERED.0,
            Bound::AtMost(1.05),
        ),
        claim(
            "All together brings it nothing beyond sends that nobody waits for",
            "section 6.4.2",
            CLOSE,
            ALL,
            REGISTERED.0,
            Bound::AtMost(1.05),
        ),
    ];
    if !quick {
        claims.extend([
            claim(
                "Where connections stay it answers 17 % more by sends that wait",
                "figure 6.16",
                KEEP,
                SYNCHRONOUS_REGISTERED.0,
                KERNEL,
                Bound::AtLeast(1.17),
            ),
            claim(
                "Where connections stay it answers 27 % more by sends that nobody waits for",
                "figure 6.16",
                KEEP,
                REGISTERED.0,
                KERNEL,
                Bound::AtLeast(1.27),
            ),
        ]);
    }
    let claims = offered::as_by_a_nic(extent, claims, &[(KERNEL, KERNEL_RECEIVED)]);
    // A first impression has those of which something is said.
    let said: Vec<String> = claims
        .iter()
        .flat_map(|claim| [claim.subject.clone(), claim.to.subject.clone()])
        .collect();
    let is_meant = |name: &String| !quick || said.contains(name);
    let subjects: Vec<String> = SUBJECTS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .filter(is_meant)
        .collect();
    let mut pictures = Vec::new();
    for connection in connections {
        for (ways, names) in drawn(&subjects) {
            let picture = |title: &str, measure: &str| {
                let title = format!("{title}, {connection}{ways}");
                let picture = Picture::new(title, SIZE, measure).log_x().log_y();
                picture.at(CONNECTION, connection).of(&names)
            };
            pictures.extend([
                picture("Requests a second", THROUGHPUT),
                picture("CPU of the server, a request", SERVER_CPU),
                picture("CPU of the engine, a request", ENGINE_CPU),
                picture("Latency at a fixed rate", MEDIAN),
            ]);
        }
    }
    let mut measures = vec![Measure::new(THROUGHPUT, "req/s")];
    measures.extend([SERVER_CPU, ENGINE_CPU, MACHINE_CPU].map(|name| Measure::new(name, "µs")));
    measures.extend(LATENCIES.map(|(name, _)| Measure::new(name, "µs")));
    Experiment {
        name: ENTRY.name.into(),
        title: "A web server in each variant".into(),
        question: "What is each way of sending and accepting worth to a web server? In 001 a full server answered 7 % \
            more in sends of 4 KB and 22 % more in sends of 16 KB when its sends waited for the engine, 17 % and 30 % \
            more when they did not; eager receive, eager accept, and all variants together, gained nothing beyond that."
            .into(),
        workload: format!(
            "GET by HTTP/1.1 of files of one size in turn ({}); a connection for each request, or \
             connections that stay. Throughput: wrk, one thread, {CONNECTIONS} connections. CPU and latency: a fixed \
             rate that all can bear, the same for all; latency counts from when a request was due. An answer is one \
             send; `web-sends` has smaller ones. Where connections stay, the ways to accept have next to nothing to do, \
             and differ from asynchronous sends by chance only. nginx is unmodified, and sends its files by sendfile. {VARIANTS}",
            all_words()
        ),
        roles: offered::roles(extent),
        axes: vec![
            Axis::of_numbers(SIZE, "B", &sizes),
            Axis::of_words(CONNECTION, connections),
        ],
        subjects,
        measures,
        pictures,
        findings: Vec::new(),
        claims,
        left_out: Vec::new(),
        model: None,
    }
}

struct Variants(Beds);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let sizes = SIZES.map(|(size, _)| size);
    let beds = Beds::new(setup, &sizes, &[], World::new, |_| String::new())?;
    Ok(Box::new(Variants(beds)))
}

impl Bench for Variants {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (name, close) = (at.word(SIZE)?, at.word(CONNECTION)? == CLOSE);
        let known = SIZES.iter().find(|(size, _)| size.to_string() == name);
        let (size, rates) = *known.with_context(|| format!("no files of {name}"))?;
        let place = format!("/{name}");
        let server = self.0.start(at.subject, name, &place, &[])?;
        let saturate = || server.saturate(size, CONNECTIONS, close, at.window);
        let (throughput, cost) = server.account(saturate)?;
        let mut sample = cost.sample(at.window).with(THROUGHPUT, throughput);
        let made = wrk::connections(throughput, CONNECTIONS, close, at.window);
        sample.notes.extend(cost.beside_engine(made));
        let load = load(close, rates[usize::from(!close)], at.window);
        let asked = server.asked(size, close);
        let (outcome, cost) = server.account_closing(|closed| {
            let asking = || load.run_closing(&asked, closed);
            server.bed.on_client(asking)
        })?;
        web::told(&outcome, &cost, at.subject, sample)
    }
}

fn load(close: bool, rate: f64, duration: Duration) -> Load {
    Load {
        server: Nginx::address(),
        path: String::new(),
        close,
        connections: CONNECTIONS,
        rate,
        duration,
        grace: Load::GRACE,
    }
}
