//! The round trip of 64 bytes over TCP, with server and client on one core and on two. Placement
//! decides every latency figure, so both are shown.

use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use super::each::Each;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::process::Process;
use crate::world::Side;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "echo",
    source: "",
    about: "sockperf: the round trip of 64 bytes, on one core and on two",
    needs: &["sockperf", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const PORT: u16 = 7_007;
const AXIS: &str = "cores";
const CORES: [(&str, usize); 2] = [("one core", SERVER_CORE), ("two cores", CLIENT_CORE)];
const MEDIAN: &str = "round trip, median";
/// What sockperf calls them: all that it prints. The first is what a combination is judged by.
const PERCENTILES: [(&str, &str); 9] = [
    (MEDIAN, "percentile 50.000"),
    ("round trip, 25 %", "percentile 25.000"),
    ("round trip, 75 %", "percentile 75.000"),
    ("round trip, 90 %", "percentile 90.000"),
    ("round trip, 99 %", "percentile 99.000"),
    ("round trip, 99.9 %", "percentile 99.900"),
    ("round trip, 99.99 %", "percentile 99.990"),
    ("round trip, 99.999 %", "percentile 99.999"),
    ("round trip, worst", "<MAX> observation"),
];
/// How long the server may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);

fn declare(_: Extent) -> Experiment {
    Experiment {
        name: ENTRY.name.into(),
        title: "The round trip of 64 bytes".into(),
        question: "How long does a message take there and back, and how much of that is placement?"
            .into(),
        workload: "sockperf ping-pong over TCP, 64 bytes, one connection".into(),
        roles: "server and engine on core 0; the client there, too, or on core 1".into(),
        axes: vec![Axis::of_words(AXIS, &CORES.map(|(name, _)| name))],
        subjects: STACKS.map(String::from).to_vec(),
        measures: PERCENTILES.map(|(name, _)| Measure::new(name, "µs")).into(),
        pictures: vec![Picture::new("Round trip of 64 bytes", AXIS, MEDIAN)],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: vec![Claim {
            says: "On one core the engine takes no more than twice as long".into(),
            citation: Citation::goal(),
            measure: MEDIAN.into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: vec![(AXIS.into(), CORES[0].0.into())],
            ratio: Bound::AtMost(2.0),
        }],
    }
}

struct Echo {
    beds: Each<Bed>,
    /// That of the measurement that comes next.
    server: Option<Process>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Echo {
        beds: Each::of(setup, |stack| Bed::bare(setup, stack))?,
        server: None,
    }))
}

impl Bench for Echo {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.server = None;
        let bed = self.beds.get(at.subject)?;
        let world = bed.world();
        let [address, port] = address();
        let server = match bed.outboard() {
            Some(outboard) => outboard.on_engine(world, "sockperf"),
            None => world.program(Side::Server, "sockperf"),
        };
        let mut server = server
            .args(["server", "--tcp", "-i", &address, "-p", &port])
            .on_core(SERVER_CORE)
            .log(world.scratch().join("sockperf.log"))
            .start()?;
        let is_reached = || world.is_reached(SocketAddr::from((Side::Server.ipv4(), PORT)));
        match bed.outboard() {
            Some(outboard) => {
                outboard.wait_until_taken(&mut server, STARTING, PORT, is_reached)?;
            }
            None => server.wait_until(STARTING, is_reached)?,
        }
        self.server = Some(server);
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let server = self.server.take().context("no server was started")?;
        let name = at.word(AXIS)?;
        let core = CORES.iter().find(|(known, _)| *known == name);
        let (_, core) = core.with_context(|| format!("no placement {name}"))?;
        let bed = self.beds.get(at.subject)?;
        let [address, port] = address();
        let client = bed
            .world()
            .program(Side::Client, "sockperf")
            .args(["ping-pong", "--tcp", "-i", &address, "-p", &port])
            .args(["-m", "64", "-t", &at.window.as_secs().max(1).to_string()])
            .on_core(*core);
        let (printed, cost) = bed.account_with(&[server.id()], || client.output())?;
        let said = || format!("sockperf said: {printed} {}", server.printed());
        let times = PERCENTILES.map(|(name, which)| Some((name, percentile(&printed, which)?)));
        let times: Option<Vec<_>> = times.into_iter().collect();
        let times = times.with_context(said)?;
        server.kill()?;
        // Where the client has the server's core neither has one that it could use up.
        let mut sample = match *core == CLIENT_CORE {
            true => cost.sample(cost.spent.passed),
            false => Sample::default().using(&cost.used()),
        };
        for (name, time) in times {
            // sockperf prints half of each round trip.
            sample = sample.with(name, 2.0 * time);
        }
        Ok(sample)
    }
}

/// Where it listens, in the words of its options.
fn address() -> [String; 2] {
    [Side::Server.ipv4().to_string(), PORT.to_string()]
}

/// Microseconds, from `---> percentile 50.000 =    4.123` or `---> <MAX> observation =  120.250`.
fn percentile(printed: &str, which: &str) -> Option<f64> {
    printed
        .lines()
        .find(|line| line.contains(which))
        .and_then(|line| line.rsplit('=').next()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    /// As sockperf 3.7 prints them.
    const PRINTED: &str = "sockperf: ---> <MAX> observation =  120.500
sockperf: ---> percentile 99.999 =   99.125
sockperf: ---> percentile 99.990 =   60.250
sockperf: ---> percentile 99.900 =   31.500
sockperf: ---> percentile 99.000 =   15.750
sockperf: ---> percentile 90.000 =   10.100
sockperf: ---> percentile 75.000 =    6.375
sockperf: ---> percentile 50.000 =    4.250
sockperf: ---> percentile 25.000 =    3.875
sockperf: ---> <MIN> observation =    3.250
";

    #[test]
    fn all_percentiles_are_told_the_median_first() {
        let told = super::declare(super::Extent::Full).measures;
        assert_eq!(told[0].name, super::MEDIAN);
        for line in PRINTED.lines().filter(|line| !line.contains("MIN")) {
            let mut known = super::PERCENTILES.iter();
            let (name, which) = known.find(|(_, which)| line.contains(which)).expect(line);
            assert!(told.iter().any(|measure| measure.name == *name), "{name}");
            let found = super::percentile(PRINTED, which).unwrap();
            let of_line = line.rsplit('=').next().unwrap().trim();
            assert_eq!(found, of_line.parse::<f64>().unwrap());
        }
    }

    #[test]
    fn percentiles_are_found() {
        let printed = "sockperf: ---> percentile 90.000 =   10.1\n\
            sockperf: ---> percentile 50.000 =    4.250\n\
            sockperf: ---> <MAX> observation =  120.500\n";
        assert_eq!(super::percentile(printed, "percentile 50.000"), Some(4.25));
        assert_eq!(super::percentile(printed, "<MAX> observation"), Some(120.5));
        assert_eq!(super::percentile(printed, "percentile 99.000"), None);
    }
}
