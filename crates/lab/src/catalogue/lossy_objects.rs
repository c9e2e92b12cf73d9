//! 004: what clients get of the stateless responder, and of nginx on the kernel's TCP, on a path that loses packets.

use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS, write_file};
use super::each::Each;
use super::objects::{ONE_SEGMENT, respond, responder_address};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::faults::{Faults, FaultyWire, Wire};
use crate::flood::experiment::quantile;
use crate::load::fetches::Fetches;
use crate::nginx::Nginx;
use crate::process::Process;
use crate::world::{MIDDLE_INTERFACES, World};
use anyhow::{Context, Result, bail};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "lossy-objects",
    source: "004",
    about: "the stateless responder and nginx on a path that loses packets: answers, failures and their time",
    needs: &["nginx", "ethtool", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const LOSS: &str = "loss";
const SIZE: &str = "size";
const MODE: &str = "connections";
const MODES: [&str; 2] = ["keep-alive", "close"];
const RATE: &str = "requests";
const FAILED: &str = "requests that failed";
const TIMES: [(&str, f64); 3] = [
    ("time to the whole answer, median", 0.5),
    ("time to the whole answer, 99 %", 0.99),
    ("time to the whole answer, worst", 1.0),
];
const LOST: &str = "packets that were lost";
/// nginx on the kernel's TCP, and the responder by its modes.
const SUBJECTS: [(&str, &str); 3] = [("nginx", ""), ("in the driver", "xdp"), ("AF_XDP", "afxdp")];
/// In one segment, in one still, and in several.
const SIZES: [f64; 3] = [64.0, ONE_SEGMENT, 16_384.0];
/// As long as a way across a city: what is lost costs more than what is not, and the wire is never the limit.
const ROUND_TRIP: Duration = Duration::from_millis(10);
const CLIENTS: usize = 32;
/// Who has no answer by then gives up. A fourth SYN is sent after seven seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Up to this loss all requests are to be answered, percent each way.
const HELD: &str = "1";
/// The least part of nginx's answers that is to come of the responder.
const LEAST: f64 = 0.95;

fn declare(extent: Extent) -> Experiment {
    let (losses, sizes): (&[f64], _) = match extent {
        Extent::Full => (&[0.0, 0.1, 1.0, 5.0], &SIZES[..]),
        Extent::Quick => (&[1.0], &SIZES[..1]),
    };
    let none = |(name, _): (&str, &str)| Claim {
        says: format!("Of {HELD} % loss nothing fails that is asked for, {name}"),
        citation: Citation {
            document: "004".into(),
            place: "Stateless HTTP server: principle; a client sends again what is lost".into(),
        },
        measure: FAILED.into(),
        subject: name.into(),
        to: "".into(),
        at: vec![(LOSS.into(), HELD.into())],
        ratio: Bound::AtMost(0.0),
    };
    let as_many = |(name, _): (&str, &str)| Claim {
        says: format!("As many answers as of nginx, but for a twentieth, {name}"),
        citation: Citation::goal(),
        measure: RATE.into(),
        subject: name.into(),
        to: SUBJECTS[0].0.into(),
        at: vec![(LOSS.into(), HELD.into())],
        ratio: Bound::AtLeast(LEAST),
    };
    let mut measures = vec![Measure::new(RATE, "1/s"), Measure::new(FAILED, "%")];
    measures.extend(TIMES.map(|(name, _)| Measure::new(name, "ms")));
    measures.push(Measure::new(LOST, "%"));
    let mut pictures = Vec::new();
    for size in sizes {
        for mode in MODES {
            for measure in [RATE, TIMES[1].0] {
                let title = format!("{size} bytes, {mode}: {measure}, by loss");
                let picture = Picture::new(title, LOSS, measure).at(MODE, mode);
                pictures.push(picture.at(SIZE, &size.to_string()));
            }
        }
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "Objects without state on a path that loses".into(),
        question: "What becomes of requests to a server that keeps nothing of them, where packets are lost? In 004 the client \
            sends again what is lost, and the server does the same again; answers of several packets could hang there."
            .into(),
        workload: format!(
            "{CLIENTS} clients, each of whom asks again when the whole answer is there, and gives up after {} s; with close, \
             each request has a connection of its own, whose setting up is in its time. The path loses at random, each \
             way as much, from a seed that is the same for all, and has a round trip of {} ms. Above {ONE_SEGMENT} bytes an \
             answer has several segments, which are not made in the driver; what is lost of them the responder sends \
             again, as docs/stateless.md says.",
            PATIENCE.as_secs(),
            ROUND_TRIP.as_millis(),
        ),
        roles: format!(
            "server and responder on core {SERVER_CORE}, clients on core {CLIENT_CORE}, the path wherever there is room. No core \
             is to be full: what is measured is the waiting"
        ),
        axes: vec![
            Axis::of_numbers(LOSS, "% each way", losses),
            Axis::of_numbers(SIZE, "B", sizes).without(SUBJECTS[1].0, |size| size > ONE_SEGMENT),
            Axis::of_words(MODE, &MODES),
        ],
        subjects: SUBJECTS.map(|(name, _)| name.into()).to_vec(),
        measures,
        pictures,
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: SUBJECTS[1..]
            .iter()
            .flat_map(|known| [none(*known), as_many(*known)])
            .collect(),
    }
}

struct Subject {
    responder: Option<Process>,
    // Last: it must outlive what runs in it.
    bed: Bed,
}

struct Lossy(Each<Subject>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let subjects = Each::of(setup, |name| {
        let known = SUBJECTS.iter().find(|(known, _)| *known == name);
        let (_, mode) = known.with_context(|| format!("there is no {name}"))?;
        subject(setup, mode)
    });
    Ok(Box::new(Lossy(subjects?)))
}

fn subject(setup: &Setup, mode: &str) -> Result<Subject> {
    let world = World::with_middle()?;
    // Whoever starts is waited for by a client, who comes over the path.
    let path = FaultyWire::start(&world, Wire::PERFECT, 0)?;
    let bed = Bed::in_world(setup, STACKS[0], world)?;
    let subject = if mode.is_empty() {
        let bed = bed.serving(|site| {
            for size in SIZES {
                write_file(&site.join(size.to_string()), size as usize)?;
            }
            Ok(String::new().into())
        })?;
        Subject {
            responder: None,
            bed,
        }
    } else {
        let peer = format!("{}/{}", bed.world().middle()?, MIDDLE_INTERFACES[0]);
        let responder = Some(respond(setup, bed.world(), mode, &peer)?);
        Subject { responder, bed }
    };
    path.stop()?;
    Ok(subject)
}

impl Bench for Lossy {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let Subject { responder, bed } = self.0.get(at.subject)?;
        let size = at.number(SIZE)?;
        let (server, path) = match responder {
            None => (Nginx::address(), format!("/{size}")),
            Some(_) => (responder_address(), format!("/?s={size}")),
        };
        let fetches = Fetches {
            server,
            path,
            close: at.word(MODE)? == MODES[1],
            clients: CLIENTS,
            patience: PATIENCE,
        };
        let wire = Wire {
            faults: Faults::losing(at.number(LOSS)? / 100.0, 1),
            delay: ROUND_TRIP / 2,
            ..Wire::PERFECT
        };
        let wire = FaultyWire::start(bed.world(), wire, at.seed)?;
        let servers: Vec<u32> = responder.iter().map(Process::id).collect();
        let ask = || bed.on_client(|| fetches.run(at.window));
        let (got, cost) = bed.account_with(&servers, ask)?;
        // What still acknowledges the last of it is to be on its way before the next.
        std::thread::sleep(4 * ROUND_TRIP);
        let report = wire.stop()?;
        let all = got.times.len() + got.failed;
        if got.times.is_empty() {
            bail!("of {all} requests none was answered");
        }
        let both = [report.there, report.back];
        let lost: u64 = both.iter().map(|passed| passed.lost).sum();
        let received: u64 = both.iter().map(|passed| passed.received).sum();
        // The path is a thread of this process, as the clients are.
        let cost = cost.beside("path", got.used);
        let mut sample = cost
            .sample(at.window)
            .with(RATE, got.in_time as f64 / at.window.as_secs_f64())
            .with(FAILED, got.failed as f64 * 100.0 / all as f64)
            .with(LOST, lost as f64 * 100.0 / received.max(1) as f64);
        for (name, part) in TIMES {
            if let Some(time) = quantile(&got.times, part) {
                sample = sample.with(name, time * 1e3);
            }
        }
        if both.iter().any(|passed| passed.overrun > 0) {
            sample
                .notes
                .push(format!("The path lost more than it should: {report}"));
        }
        Ok(sample)
    }
}
