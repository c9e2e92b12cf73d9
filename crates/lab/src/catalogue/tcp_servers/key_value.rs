//! A key-value store that knows of its engine, beside memcached.

use super::super::bed::{Bed, ROLES, SERVER_CORE, stack_of};
use super::super::each::Each;
use super::super::{Entry, Extent, Setup};
use super::subject;
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::key_value::Load;
use crate::process::Process;
use crate::world::Side;
use anyhow::{Context, Result, bail};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "key-value",
    source: "",
    about: "a key-value store that knows of its engine beside memcached: commands a second, CPU, latency",
    needs: &["memcached", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const VALUE: &str = "value";
const CONNECTIONS: &str = "connections";
const RATE: &str = "commands a second";
const MACHINE: &str = "commands for a second of the machine's CPU";
const SERVER: &str = "CPU of the server, a command";
const ENGINE: &str = "CPU of the engine, a command";
const MEDIAN: &str = "latency, median";
const HIGH: &str = "latency, 99 %";
const SUBJECTS: [&str; 4] = [
    MEMCACHED,
    "memcached on the engine",
    "native store on the kernel",
    STORE,
];
const MEMCACHED: &str = "memcached on the kernel";
const STORE: &str = "native store on the engine";
const VALUES: [f64; 3] = [64.0, 1_024.0, 16_384.0];
const MANY: [f64; 3] = [16.0, 64.0, 256.0];
const KEYS: usize = 4_096;
/// Bytes of all values at most: each store may have 64 MiB, and less of it for values.
const ALL_VALUES: usize = 16 << 20;
/// One command in ten sets.
const SETS: f64 = 0.1;
const PORT: u16 = 11_211;
const LIMIT: Duration = Duration::from_secs(60);

fn declare(extent: Extent) -> Experiment {
    let (values, many) = match extent {
        Extent::Full => (&VALUES[..], &MANY[..]),
        Extent::Quick => (&VALUES[..1], &MANY[1..2]),
    };
    let goal = |says: &str, measure: &str| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: STORE.into(),
        to: MEMCACHED.into(),
        at: vec![
            (VALUE.into(), "64".into()),
            (CONNECTIONS.into(), "64".into()),
        ],
        ratio: Bound::AtLeast(1.5),
    };
    let picture = |title: &str, measure: &str, value: &f64| {
        let value = value.to_string();
        let title = format!("{title}, values of {value} bytes");
        Picture::new(title, CONNECTIONS, measure)
            .log_x()
            .at(VALUE, &value)
    };
    let pictures = values.iter().flat_map(|value| {
        [
            picture("Commands a second", RATE, value),
            picture("Commands for a second of the machine's CPU", MACHINE, value),
            picture("CPU of the server", SERVER, value),
        ]
    });
    Experiment {
        name: ENTRY.name.into(),
        title: "A key-value store that knows of its engine".into(),
        question: "What does a store gain that is written for the engine, if the whole machine is counted: engine, \
            softirq and the client, too?"
            .into(),
        workload: format!(
            "memcached's text protocol; connections that stay, each with one command under way, one in ten a set, the \
             others gets, of {KEYS} keys, or as many as make 16 MiB of values; every answer is checked. memcached has one thread, as the store has. The \
             store is outboard's example of the native interface as it is. Commands for the machine's CPU are by all \
             that both cores did, whoever for; commands a second are what comes of it with server and engine on one \
             core, unless the client was the limit."
        ),
        roles: ROLES.into(),
        axes: vec![
            Axis::of_numbers(VALUE, "B", values),
            Axis::of_numbers(CONNECTIONS, "", many),
        ],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new(MACHINE, "1/s"),
            Measure::new(SERVER, "µs"),
            Measure::new(ENGINE, "µs"),
            Measure::new(MEDIAN, "µs"),
            Measure::new(HIGH, "µs"),
        ],
        pictures: pictures.collect(),
        findings: Vec::new(),
        claims: vec![
            goal(
                "The store answers half as much again for the machine's CPU as memcached on the kernel",
                MACHINE,
            ),
            goal("It answers half as much again a second", RATE),
        ],
        left_out: Vec::new(),
        model: None,
    }
}

struct Store {
    setup: Setup,
    /// By stacks.
    beds: Each<Bed>,
    /// That of the measurement that comes next, with what is asked for.
    server: Option<Process>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let stacks = setup.subjects.iter().map(|subject| stack_of(subject));
    Ok(Box::new(Store {
        setup: setup.clone(),
        beds: Each::named(stacks, |stack| Bed::bare(setup, stack))?,
        server: None,
    }))
}

impl Store {
    fn start(&self, bed: &Bed, is_native: bool) -> Result<Process> {
        let world = bed.world();
        let at = (Side::Server.ipv4(), PORT).into();
        let program = if is_native {
            let program = subject(&self.setup, bed, false);
            program.args(["store", "--at", &format!("{}:{PORT}", Side::Server.ipv4())])
        } else {
            let memcached = match bed.outboard() {
                Some(outboard) => outboard.on_engine(world, "memcached"),
                None => world.program(Side::Server, "memcached"),
            };
            let memcached = memcached.on_core(SERVER_CORE);
            // Whoever is root has to say so.
            let words = [
                "-u", "root", "-t", "1", "-U", "0", "-c", "4096", "-l", "0.0.0.0",
            ];
            memcached.args(words).args(["-p", &PORT.to_string()])
        };
        let mut server = program.log(world.scratch().join("store.log")).start()?;
        match bed.outboard() {
            Some(outboard) => {
                outboard.wait_until_taken(&mut server, LIMIT, PORT, || world.is_reached(at))?;
            }
            None => server.wait_until(LIMIT, || world.is_reached(at))?,
        }
        Ok(server)
    }
}

/// What is asked there.
fn load(at: &At<'_>) -> Result<Load> {
    let value = at.number(VALUE)? as usize;
    Ok(Load {
        server: (Side::Server.ipv4(), PORT).into(),
        connections: at.number(CONNECTIONS)? as usize,
        keys: KEYS.min(ALL_VALUES / value),
        value,
        sets: SETS,
        duration: at.window,
        seed: at.seed,
    })
}

impl Bench for Store {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.server = None;
        let bed = self.beds.get(stack_of(at.subject))?;
        let server = self.start(bed, at.subject.starts_with("native"))?;
        let load = load(at)?;
        bed.on_client(|| load.fill())?;
        self.server = Some(server);
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let server = self.server.take().context("no server was started")?;
        let bed = self.beds.get(stack_of(at.subject))?;
        let load = load(at)?;
        let asking = || bed.on_client(|| load.run());
        let (outcome, cost) = bed.account_with(&[server.id()], asking)?;
        server.kill()?;
        let answered = outcome.answered as f64;
        if answered == 0.0 {
            bail!("no command was answered");
        }
        let each = |time: Duration| 1e6 * time.as_secs_f64() / answered;
        let latency = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
        let mut sample = cost
            .sample(cost.spent.passed)
            .with(RATE, answered / outcome.took.as_secs_f64().max(1e-9))
            .with(MACHINE, answered / cost.machine().as_secs_f64().max(1e-9))
            .with(SERVER, each(cost.server()))
            .with(MEDIAN, latency(0.5))
            .with(HIGH, latency(0.99));
        if let Some(engine) = cost.spent.engine {
            if engine.batch() == 0.0 {
                bail!("the connections were not on the engine");
            }
            sample = sample.with(ENGINE, each(cost.engine()));
        }
        Ok(sample)
    }
}
