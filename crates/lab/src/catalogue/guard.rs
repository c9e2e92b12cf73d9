//! 000, figure 5.3: memory of a server that grows with each request, over requests; with a guard that reloads
//! it, and without.

use super::bed::{Bed, ROLES, SERVER_CORE, STACKS};
use super::prime::prime;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::growing::{EACH, Growing, Guard, PATH};
use crate::load::{Asked, Load};
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "guard",
    source: "000",
    about: "memory of a server that grows with each request, with and without outboard guard",
    needs: &["nginx", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const REQUESTS: &str = "requests so far";
const SUBJECTS: [&str; 4] = ["kernel", "engine", "kernel, guarded", "engine, guarded"];
const MEMORY: &str = "memory";
const MOST: &str = "memory, the most";
const LOST: &str = "requests lost";
const RELOADS: &str = "reloads";
/// Bytes that the source's server lost for each request.
const THERE: f64 = 4_053.2;
/// Requests a second. The server is not to be at its limit: what is asked here is what it holds.
const RATE: f64 = prime(2_000);
/// Connections at once, at most.
const CONNECTIONS: usize = 256;

fn requests(extent: Extent) -> &'static [f64] {
    match extent {
        // The source's died at about 50,500.
        Extent::Full => &[
            0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0, 60_000.0,
        ],
        Extent::Quick => &[0.0, 6_000.0],
    }
}

/// The limit of a guarded server, bytes: an unguarded one passes it before the last level.
fn limit(experiment: &Experiment) -> Result<u64> {
    let levels = &experiment.axis(REQUESTS).context("no requests")?.levels;
    let last = levels.last().and_then(|level| level.value);
    Ok((last.context("no levels")? * EACH as f64 * 0.8) as u64)
}

fn declare(extent: Extent) -> Experiment {
    let requests = requests(extent);
    let last = requests.last().copied().unwrap_or(0.0);
    let axis = Axis::of_numbers(REQUESTS, "", requests);
    let last_level = axis
        .levels
        .last()
        .map_or(String::new(), |level| level.name.clone());
    let claim = |says: &str, subject: usize, to: usize, measure: &str, ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "000".into(),
            place: "5.3.5".into(),
        },
        measure: measure.into(),
        subject: SUBJECTS[subject].into(),
        to: SUBJECTS[to].into(),
        at: vec![(REQUESTS.into(), last_level.clone())],
        ratio,
    };
    let loses_none = |says: &str, subject: usize| Claim {
        to: "".into(),
        ..claim(says, subject, 0, LOST, Bound::AtMost(0.0))
    };
    let picture = |title: &str, y: &str| Picture::new(title, REQUESTS, y);
    Experiment {
        name: ENTRY.name.into(),
        title: "Memory of a server that grows, with a guard and without".into(),
        question:
            "A server grows by about 4 KB for each request until the machine dies (000, 5.3.5). Does a guard \
            keep it under a limit, on the kernel and on the engine, and is a request lost by that?"
                .into(),
        workload: format!(
            "An unmodified nginx that, by its configuration, remembers {EACH} bytes of each request; {RATE} \
             requests a second, a connection for each. The limit of a guarded one is four fifths of what \
             {last} requests leave; it is reloaded at 60 % of that, looked at each 100 ms, with a second \
             between two reloads. Memory is that of nginx's processes, which is what it alone has; the most \
             is of ten looks a second."
        ),
        roles: ROLES.into(),
        axes: vec![axis],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(MEMORY, "MB"),
            Measure::new(MOST, "MB"),
            Measure::new(LOST, "in all"),
            Measure::new(RELOADS, "in all"),
        ],
        pictures: vec![
            picture("Memory over requests (000, figure 5.3)", MEMORY),
            picture("The most that it was until then", MOST),
            picture("Reloads until then", RELOADS),
        ],
        findings: vec![Finding {
            name: "lost there, 4,053.2 B a request".into(),
            axis: REQUESTS.into(),
            measure: MEMORY.into(),
            points: requests.iter().map(|count| (*count, count * THERE / 1e6)).collect(),
            at: Vec::new(),
            citation: Citation {
                document: "000".into(),
                place: "5.3.5, figure 5.3".into(),
            },
        }],
        left_out: Vec::new(),
        model: None,
        claims: vec![
            claim("The guard keeps the server below its limit, on the kernel", 2, 0, MOST, Bound::AtMost(0.8)),
            claim("The guard keeps the server below its limit, on the engine", 3, 1, MOST, Bound::AtMost(0.8)),
            loses_none("The guard loses no request, on the kernel", 2),
            loses_none("The guard loses no request, on the engine", 3),
        ],
    }
}

struct Guarded {
    setup: Setup,
    /// That of the measurement that comes next: it begins with what an nginx has that was asked for nothing yet.
    ready: Option<Ready>,
}

struct Ready {
    server: Growing,
    /// After the server that is in its network: what is first is dropped first, also where a measurement fails.
    bed: Bed,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Guarded {
        setup: setup.clone(),
        ready: None,
    }))
}

impl Bench for Guarded {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.ready = None;
        let subject = SUBJECTS.iter().position(|name| *name == at.subject);
        let subject = subject.with_context(|| format!("no subject {}", at.subject))?;
        let bed = Bed::bare(&self.setup, STACKS[subject % 2])?;
        let max = limit(at.experiment)?.to_string();
        let options = [
            "--max",
            &max,
            "--at",
            "60%",
            "--interval",
            "100ms",
            "--pause",
            "1s",
            "--ahead",
            "0",
            "--min-available",
            "0",
            "--pressure",
            "0",
        ];
        let guard = Guard {
            binary: &self.setup.binary,
            options: &options,
        };
        let guard = (subject >= 2).then_some(guard);
        let server = Growing::start(bed.world(), bed.outboard(), guard, Some(SERVER_CORE))?;
        self.ready = Some(Ready { server, bed });
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let ready = self.ready.take().context("no server was started")?;
        let (server, bed) = (&ready.server, &ready.bed);
        let count = at.number(REQUESTS)? as u64;
        let mut most = server.memory();
        let mut lost = 0;
        let mut sample = Sample::default();
        if count > 0 {
            let load = Load {
                server: Growing::address(),
                path: PATH.into(),
                close: true,
                connections: CONNECTIONS,
                rate: RATE,
                duration: Duration::from_secs_f64(count as f64 / RATE),
                grace: Load::GRACE,
            };
            let text = format!(
                "GET {PATH} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                load.server
            );
            let asked = Asked {
                texts: vec![text.into_bytes()],
                wanted: Vec::new(),
                order: vec![0],
                limit: Some(count),
                due: Vec::new(),
            };
            let look = Duration::from_millis(100);
            // The server is another process each time that it was reloaded: it has no account.
            let (outcome, cost) = bed.account(|| {
                bed.on_client(|| {
                    load.run_asking(&asked, look, |_| most = most.max(server.memory()))
                })
            })?;
            // No word of the client: what a reload keeps waiting is answered when the time is over, so that a full server
            // would seem to have been idle.
            sample = Sample::default().using(&cost.used());
            lost = outcome.due - outcome.answered;
        }
        let now = server.memory();
        let told = server.told()?;
        let reloads = told.iter().filter(|line| line["event"] == "reload").count();
        ready.server.stop()?;
        Ok(sample
            .with(MEMORY, now as f64 / 1e6)
            .with(MOST, most.max(now) as f64 / 1e6)
            .with(LOST, lost as f64)
            .with(RELOADS, reloads as f64))
    }
}
