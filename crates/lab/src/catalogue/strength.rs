//! 001, section 6.4: what an engine is worth whose core is weaker than its host's, and stronger.

use super::bed::{Bed, CLIENT_CORE, STACKS, stack_of, write_file};
use super::each::Each;
use super::offered::{SERVE, is_serve};
use super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::{Lines, Nginx};
use crate::slowed::Slowed;
use crate::world::World;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "engine-strength",
    source: "001",
    about: "a full server beside an engine whose core is weaker, and stronger, than its own",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (8, 1),
    windows: 1,
    declare,
    open,
};

const STRENGTH: &str = "strength of the engine's core";
/// In cores of the host: below one the engine is slowed, above one the server.
const STRENGTHS: [(&str, f64); 5] = [
    ("1/4 of the host's", 0.25),
    ("1/2", 0.5),
    (ALIKE, 1.0),
    (TWICE, 2.0),
    ("4 times", 4.0),
];
const ALIKE: &str = "as the host's";
const TWICE: &str = "twice";
const REQUEST: &str = "request";
const CASES: [(&str, bool); 2] = [("16 KB, close", true), ("16 KB, keep-alive", false)];
const CONNECTIONS: usize = 32;
const RATE: &str = "requests a second";
const SERVER: &str = "run time of the server";
const ENGINE: &str = "run time of the engine";

fn declare(extent: Extent) -> Experiment {
    let (strengths, cases) = match extent {
        Extent::Full => (&STRENGTHS[..], &CASES[..]),
        Extent::Quick => (&STRENGTHS[1..3], &CASES[..1]),
    };
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    let levels: Vec<&str> = strengths.iter().map(|(name, _)| *name).collect();
    let claim = |says: &str, [to, subject]: [&str; 2], strength: &str, ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "001".into(),
            place: "section 6.4.2".into(),
        },
        measure: RATE.into(),
        subject: subject.into(),
        to: to.into(),
        at: vec![
            (STRENGTH.into(), strength.into()),
            (REQUEST.into(), names[0].into()),
        ],
        ratio,
    };
    let mut claims = Vec::new();
    for (says, stronger, servers) in [
        ("brings something", "A stronger one does, too", STACKS),
        (
            "brings something to a server that knows of it",
            "A stronger one brings something to it, too",
            SERVE,
        ),
    ] {
        let says = format!("An engine as strong as its host {says}");
        claims.push(claim(&says, servers, ALIKE, Bound::AtLeast(1.0)));
        if levels.contains(&TWICE) {
            claims.push(claim(stronger, servers, TWICE, Bound::AtLeast(1.0)));
        }
    }
    let picture = |measure: &str, case: &str| {
        let title = format!("{case}: {measure}");
        Picture::new(title, STRENGTH, measure).at(REQUEST, case)
    };
    let pictures = names
        .iter()
        .flat_map(|case| [RATE, SERVER, ENGINE].map(|measure| picture(measure, case)));
    Experiment {
        name: ENTRY.name.into(),
        title: "Engines weaker and stronger than their host".into(),
        question: "How strong has the processor of an engine to be? In 001 both were alike, and the engine's was \
            the one that was full first: a faster one, or several, it says, would have brought more."
            .into(),
        workload: format!(
            "wrk, one thread, {CONNECTIONS} connections. A core is made weaker by stopping whoever has it, engine or \
             server, for the rest of each millisecond: that is less than a slower core costs where something waits \
             for an answer, and more, as nothing is done meanwhile. Work in softirq is not slowed; it is on the core \
             of whoever sends. A server on the kernel is slowed as the engine's host is, and has no engine to be slowed. Kernel and engine have an unmodified nginx; \
             `outboard serve` knows of its engine."
        ),
        roles: "server on core 0; engine and client on core 1. What a kernel does with frames that come is there, too, as a \
            veth has it done where the sender is: it has as many cores as an engine and its server"
            .into(),
        axes: vec![
            Axis::of_words(STRENGTH, &levels),
            Axis::of_words(REQUEST, &names),
        ],
        subjects: [STACKS, SERVE].concat().into_iter().map(String::from).collect(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new(SERVER, "%"),
            Measure::new(ENGINE, "%"),
        ],
        pictures: pictures.collect(),
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims,
    }
}

struct Strength(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let fill = |site: &Path| write_file(&site.join("16K"), 16 << 10);
    let bare = |stack: &str| Bed::with_engine_on(setup, stack, World::new()?, CLIENT_CORE);
    let beds = Each::of(setup, |subject| {
        let bed = bare(stack_of(subject))?;
        match is_serve(subject) {
            true => bed.serving_natively(setup, &[], fill),
            false => bed.serving(|site| fill(site).map(|()| Lines::default())),
        }
    });
    Ok(Box::new(Strength(beds?)))
}

impl Bench for Strength {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let name = at.word(REQUEST)?;
        let case = CASES.iter().find(|(known, _)| *known == name);
        let (_, close) = case.with_context(|| format!("no request {name}"))?;
        let level = at.word(STRENGTH)?;
        let known = STRENGTHS.iter().find(|(known, _)| *known == level);
        let strength = known.with_context(|| format!("no strength {level}"))?.1;
        let who = if strength < 1.0 {
            bed.engine_process()
        } else {
            bed.server_process()
        };
        let part = strength.min(1.0 / strength);
        let slowed = who.filter(|_| part < 1.0);
        let slowed = slowed.map(|who| Slowed::to(who, part)).transpose()?;
        let url = format!("http://{}/16K", Nginx::address());
        let (rate, cost) = bed.account(|| wrk::run(bed, &url, CONNECTIONS, *close, at.window))?;
        drop(slowed);
        let passed = cost.spent.passed.as_secs_f64().max(1e-9);
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / passed;
        let mut sample = cost
            .sample(at.window)
            .with(RATE, rate)
            .with(SERVER, percent(cost.server()));
        if bed.engine_process().is_some() {
            sample = sample.with(ENGINE, percent(cost.engine()));
        }
        let made = wrk::connections(rate, CONNECTIONS, *close, at.window);
        sample.notes.extend(cost.beside_engine(made));
        Ok(sample)
    }
}
