//! A server with two processes on two cores: on the kernel, on an engine with one worker, and with two; beside it one
//! that knows of its engine, and has one thread.

use super::bed::{ENGINE, SERVER, write_file};
use super::each::Each;
use super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::{Lines, Nginx};
use crate::outboard::Outboard;
use crate::process::Process;
use crate::sampler::account::Watched;
use crate::sampler::children;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "workers",
    source: "",
    about: "nginx with two processes, and serve, on the kernel, on one worker of an engine, and on two",
    needs: &["nginx", "wrk"],
    seconds: (10, 2),
    windows: 1,
    declare,
    open,
};

const KERNEL: &str = "kernel";
const ONE: &str = "engine, one worker";
const TWO: &str = "engine, two workers";
const SERVE: &str = "serve, kernel";
const SERVE_ONE: &str = "serve, one worker";
const SERVE_TWO: &str = "serve, two workers";
/// What each is called, what its engine is told, and who serves.
const SUBJECTS: [(&str, Option<&str>, Kind); 6] = [
    (KERNEL, None, Kind::Nginx),
    (ONE, Some("workers = 1\n"), Kind::Nginx),
    (TWO, Some("workers = 2\n"), Kind::Nginx),
    (SERVE, None, Kind::Serve),
    (SERVE_ONE, Some("workers = 1\n"), Kind::Serve),
    (SERVE_TWO, Some("workers = 2\n"), Kind::Serve),
];

#[derive(Clone, Copy)]
enum Kind {
    Nginx,
    Serve,
}

const QUEUES: u32 = 4;
const PROCESSES: usize = 2;
const CONNECTIONS: usize = 64;
const REQUEST: &str = "request";
const CASES: [(&str, &str, bool); 3] = [
    ("64 B, keep-alive", "/64", false),
    ("64 B, close", "/64", true),
    ("16 KB, keep-alive", "/16K", false),
];
const RATE: &str = "requests a second";
const MACHINE: &str = "CPU of the machine a request";
const SERVERS: &str = "CPU of the server a request";
const ENGINES: &str = "CPU of the engine a request";

fn declare(extent: Extent) -> Experiment {
    let cases = match extent {
        Extent::Full => &CASES[..],
        Extent::Quick => &CASES[..2],
    };
    let names: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
    let claims = names.iter().take(2).map(|name| Claim {
        says: "Two workers serve 1.3 times as much as the kernel, on the same cores".into(),
        citation: Citation::goal(),
        measure: RATE.into(),
        subject: TWO.into(),
        to: KERNEL.into(),
        at: vec![(REQUEST.into(), (*name).into())],
        ratio: Bound::AtLeast(1.3),
    });
    let pictures = [RATE, MACHINE].map(|measure| Picture::new(measure, REQUEST, measure));
    Experiment {
        name: ENTRY.name.into(),
        title: "Several workers of an engine".into(),
        question: "What does a second worker bring to a server with several processes, where the cores are as \
            many as before?"
            .into(),
        workload: format!(
            "wrk, two threads, {CONNECTIONS} connections; nginx with {PROCESSES} processes, or outboard serve, which \
             knows of its engine and has one thread; {QUEUES} queues at each end of the link."
        ),
        roles: "nothing is pinned: server, engine and client share all cores".into(),
        axes: vec![Axis::of_words(REQUEST, &names)],
        subjects: SUBJECTS
            .iter()
            .filter(|(name, ..)| extent == Extent::Full || ![SERVE, SERVE_ONE].contains(name))
            .map(|(name, ..)| (*name).into())
            .collect(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new(MACHINE, "µs"),
            Measure::new(SERVERS, "µs"),
            Measure::new(ENGINES, "µs"),
        ],
        pictures: pictures.to_vec(),
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: claims.collect(),
    }
}

enum Server {
    Nginx(Nginx),
    Serve(Process),
}

impl Server {
    /// The processes that serve.
    fn processes(&mut self) -> Vec<u32> {
        match self {
            Self::Nginx(nginx) => children(nginx.master().id()),
            Self::Serve(process) => vec![process.id()],
        }
    }
}

/// A server, and what it is on.
struct Stage {
    server: Server,
    engine: Option<(Outboard, Process)>,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Stage {
    fn new(setup: &Setup, settings: Option<&str>, kind: Kind) -> Result<Self> {
        let world = World::with_queues(QUEUES)?;
        let outboard = Outboard::new(&setup.binary, &world);
        let engine = settings.map(|settings| outboard.start_engine_with(&world, settings));
        let engine = engine
            .transpose()?
            .map(|process| (outboard.clone(), process));
        let site = world.site(&[])?;
        write_file(&site.join("16K"), 16 << 10)?;
        let server = match kind {
            Kind::Nginx => {
                let lines = Lines {
                    processes: PROCESSES,
                    ..Lines::default()
                };
                let on = engine.as_ref().map(|(outboard, _)| outboard);
                Server::Nginx(Nginx::start_with(&world, on, &site, None, &lines)?)
            }
            Kind::Serve => {
                // nginx answers these names with as many bytes by itself.
                write_file(&site.join("64"), 64)?;
                Server::Serve(outboard.start_serve(&world, &site, Nginx::address())?)
            }
        };
        Ok(Self {
            server,
            engine,
            world,
        })
    }

    fn watched(&mut self) -> Watched {
        let servers = self.server.processes().into_iter();
        let mut processes: Vec<_> = servers.map(|pid| (SERVER, pid)).collect();
        let engine = self.engine.as_ref();
        processes.extend(engine.map(|(_, process)| (ENGINE, process.id())));
        Watched {
            processes,
            families: Vec::new(),
            engine: engine.map(|(outboard, _)| outboard.clone()),
        }
    }
}

struct Workers(Each<Stage>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let stages = Each::of(setup, |name| {
        let known = SUBJECTS.iter().find(|(known, ..)| *known == name);
        let (_, settings, kind) = known.with_context(|| format!("no subject {name}"))?;
        Stage::new(setup, *settings, *kind)
    });
    Ok(Box::new(Workers(stages?)))
}

impl Bench for Workers {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let stage = self.0.get_mut(at.subject)?;
        let name = at.word(REQUEST)?;
        let case = CASES.iter().find(|(known, ..)| *known == name);
        let (_, path, close) = case.with_context(|| format!("no request {name}"))?;
        let url = format!("http://{}{path}", Nginx::address());
        let watched = stage.watched();
        let mut wrk = stage.world.program(Side::Client, "wrk").args([
            "-t2",
            &format!("-c{CONNECTIONS}"),
            &format!("-d{}", at.window.as_secs().max(1)),
        ]);
        if *close {
            wrk = wrk.args(["-H", "Connection: close"]);
        }
        let (printed, spent) = watched.during(|_| wrk.arg(url).output())?;
        let rate = wrk::read(&printed).with_context(|| format!("wrk said: {printed}"))?;
        let requests = rate * spent.passed.as_secs_f64();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / requests.max(1.0);
        // The client has all cores, as the servers have: that it used its own up there is no saying.
        let mut sample = Sample::default()
            .using(&Used::with_client(&spent))
            .with(RATE, rate)
            .with(MACHINE, each(spent.machine()))
            .with(SERVERS, each(spent.of(SERVER)));
        if stage.engine.is_some() {
            sample = sample.with(ENGINES, each(spent.of(ENGINE)));
        }
        Ok(sample)
    }
}
