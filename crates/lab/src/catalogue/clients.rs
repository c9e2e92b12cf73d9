//! Whether `outboard load`, which makes its own packets, offers and counts what httperf does: the same connections at
//! the same rate, to the same nginx on the kernel.

use super::bed::{Bed, CLIENT_CORE, ROLES, SERVER_CORE, STACKS, write_file};
use super::httperf::{self, Asked};
use super::prime::prime;
use super::{Entry, Extent, Setup};
use crate::experiment::bench::Client;
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::{Nginx, PORT};
use crate::world::Side;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "clients",
    source: "",
    about: "httperf and outboard load at the same rates of connections: whether they find the same",
    needs: &["nginx", "httperf", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const RATE: &str = "connections a second";
const REPLIES: &str = "replies";
const ERRORS: &str = "errors";
const TIME: &str = "time of a request";
const SERVER: &str = "CPU of the server, a request";
const HTTPERF: &str = "httperf";
const LOAD: &str = "outboard load";
const SUBJECTS: [&str; 2] = [HTTPERF, LOAD];
/// Below what a server carries, at about that, and above it.
const RATES: [u32; 7] = [100, 500, 1_000, 2_000, 4_000, 8_000, FULL];
/// At about so many a server is full, on a machine of today.
const CARRIED: u32 = 8_000;
const FULL: u32 = 12_000;
const QUICK: [u32; 3] = [500, 2_000, FULL];
const PATH: &str = "/10K";
/// Requests on each connection.
const REQUESTS: u32 = 3;
/// Seconds after which a request has failed.
const PATIENCE: u32 = 5;
/// Where the server keeps up, no request is without an answer but for one in a thousand, percent.
const FAILED: f64 = 0.1;

fn declare(extent: Extent) -> Experiment {
    let rates = match extent {
        Extent::Full => &RATES[..],
        Extent::Quick => &QUICK[..],
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Two clients at the same rates".into(),
        question: "Does outboard load, without sockets and without sessions, offer the load that httperf offers, and \
            count what that counts?"
            .into(),
        workload: format!(
            "nginx on the kernel, a file of 10,240 B, connections at a fixed rate for as long as a measurement is, \
             {REQUESTS} requests on each, one after another, given up after {PATIENCE} s. The time of a request has \
             its part of setting the connection up in it, of both; what its own kernel takes is in httperf's alone"
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(RATE, "", &primes(rates))],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(REPLIES, "1/s"),
            Measure::new(ERRORS, "%"),
            Measure::new(TIME, "ms"),
            Measure::new(SERVER, "µs"),
        ],
        pictures: vec![
            Picture::new("Replies a second", RATE, REPLIES)
                .log_x()
                .log_y(),
            Picture::new("Requests without an answer", RATE, ERRORS).log_x(),
            Picture::new("Time of a request", RATE, TIME)
                .log_x()
                .log_y(),
            Picture::new("CPU of the server, a request", RATE, SERVER).log_x(),
        ],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: claims(rates),
    }
}

/// Rates that are not in step with the kernel's tick.
fn primes(rates: &[u32]) -> Vec<f64> {
    rates.iter().copied().map(prime).collect()
}

/// What is to hold of the two at these rates.
fn claims(rates: &[u32]) -> Vec<Claim> {
    let at = |is_meant: fn(u32) -> bool| -> Vec<(String, String)> {
        let rates: Vec<u32> = rates
            .iter()
            .copied()
            .filter(|rate| is_meant(*rate))
            .collect();
        let names = primes(&rates).into_iter().map(|rate| rate.to_string());
        names.map(|name| (RATE.to_owned(), name)).collect()
    };
    let (below, full) = (at(|rate| rate < CARRIED), at(|rate| rate >= CARRIED));
    let claim = |says: &str, measure: &str, at: &[(String, String)], ratio: Bound| Claim {
        says: says.into(),
        citation: Citation::goal(),
        measure: measure.into(),
        subject: LOAD.into(),
        to: HTTPERF.into(),
        at: at.to_vec(),
        ratio,
    };
    // Each by its least and its most.
    let both = |says: &str, measure: &str, at: &[(String, String)], [least, most]: [f64; 2]| {
        [Bound::AtLeast(least), Bound::AtMost(most)].map(|bound| claim(says, measure, at, bound))
    };
    let mut claims = Vec::new();
    claims.extend(both(
        "Where the server keeps up, both get as many replies",
        REPLIES,
        &below,
        [0.98, 1.02],
    ));
    claims.extend(SUBJECTS.map(|subject| Claim {
        subject: subject.into(),
        to: "".into(),
        ..claim(
            "Where the server keeps up, nothing is without an answer",
            ERRORS,
            &below,
            Bound::AtMost(FAILED),
        )
    }));
    claims.extend(both(
        "Where the server keeps up, a request takes as long by both",
        TIME,
        &below,
        [0.8, 1.25],
    ));
    claims.extend(both(
        "Where the server keeps up, a request costs it as much by both",
        SERVER,
        &below,
        [0.9, 1.1],
    ));
    claims.extend(both(
        "Of a server that is full both get as many replies",
        REPLIES,
        &full,
        [0.9, 1.1],
    ));
    claims.extend(both(
        "Of a server that is full a reply costs as much by both",
        SERVER,
        &full,
        [0.9, 1.1],
    ));
    claims
}

struct Clients {
    binary: PathBuf,
    bed: Bed,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let fill = |site: &std::path::Path| write_file(&site.join(&PATH[1..]), 10_240);
    Ok(Box::new(Clients {
        binary: setup.binary.clone(),
        bed: Bed::with_nginx(setup, STACKS[0], fill)?,
    }))
}

/// What a client has found.
#[derive(Debug, PartialEq)]
struct Found {
    replies: f64,
    took: f64,
    time_ms: f64,
    client: Client,
}

impl Clients {
    fn httperf(&self, rate: f64, connections: u32) -> Result<Found> {
        let asked = Asked {
            path: PATH,
            rate,
            connections,
            requests: REQUESTS,
            patience: f64::from(PATIENCE),
        };
        let server = Side::Server.ipv4().to_string();
        let found = httperf::run(&self.bed, &server, PORT, asked)?;
        Ok(Found {
            replies: found.replies,
            took: found.took,
            time_ms: found.reply_ms + found.connect_ms / f64::from(REQUESTS),
            client: found.client(rate, None),
        })
    }

    fn load(&self, rate: f64, connections: u32) -> Result<Found> {
        let client = self.bed.world().program(Side::Client, &self.binary);
        let printed = client
            .on_core(CLIENT_CORE)
            .args(["load", "-q", "--json", "--max-errors", "100%"])
            .args(["-k", &REQUESTS.to_string()])
            .args(["--conn-rate", &rate.to_string()])
            .args(["-n", &(connections * REQUESTS).to_string()])
            .args(["--timeout", &format!("{PATIENCE}s")])
            .arg(format!("http://{}{PATH}", Nginx::address()))
            .output()?;
        read(&printed, connections).with_context(|| format!("outboard load said: {printed}"))
    }
}

/// What `outboard load` has printed that was to open so many connections.
fn read(printed: &str, connections: u32) -> Result<Found> {
    let said: Value = serde_json::from_str(printed)?;
    let number = |value: &Value, name: &str| {
        let number = value[name].as_f64();
        number.with_context(|| format!("no {name}"))
    };
    let opened = number(&said, "connections")?;
    Ok(Found {
        replies: number(&said, "requests")?,
        took: number(&said, "seconds")?,
        time_ms: number(&said["latency"], "mean_us")? / 1e3,
        client: Client {
            offered: Some((opened / f64::from(connections)).min(1.0)),
            ..Client::default()
        },
    })
}

impl Bench for Clients {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let rate = at.number(RATE)?;
        let connections = (rate * at.window.as_secs_f64()).ceil() as u32;
        let (found, cost) = self.bed.account(|| match at.subject {
            HTTPERF => self.httperf(rate, connections),
            _ => self.load(rate, connections),
        })?;
        if found.replies == 0.0 {
            bail!("no request was answered");
        }
        let due = f64::from(connections * REQUESTS);
        let each = |time: Duration| 1e6 * time.as_secs_f64() / found.replies;
        Ok(cost
            .sample(cost.spent.passed)
            .with(REPLIES, found.replies / found.took)
            .with(ERRORS, 100.0 * (due - found.replies).max(0.0) / due)
            .with(TIME, found.time_ms)
            .with(SERVER, each(cost.server()))
            .by(Client {
                server_busy: cost.spent.share_of_core(SERVER_CORE),
                ..found.client
            }))
    }
}

#[cfg(test)]
mod tests {
    use super::{ERRORS, Extent, RATE, REPLIES, SERVER, TIME, declare, read};

    /// Whether they agree is claimed where the server keeps up, of all that both measure, and where it is full of what it
    /// does then, in a first impression, too.
    #[test]
    fn whether_they_agree_is_claimed_below_and_above_what_the_server_carries() {
        for extent in [Extent::Full, Extent::Quick] {
            let declared = declare(extent);
            assert_eq!(declared.mistakes(), Vec::<String>::new());
            let levels = &declared.axis(RATE).unwrap().levels;
            let fastest = &levels.last().unwrap().name;
            let slowest = &levels[0].name;
            let claimed = |measure: &str, level: &String| {
                declared.claims.iter().any(|claim| {
                    let mut levels = claim.at.iter().map(|(_, level)| level);
                    claim.measure == measure && levels.any(|known| known == level)
                })
            };
            for measure in [REPLIES, ERRORS, TIME, SERVER] {
                assert!(claimed(measure, slowest), "{measure}");
            }
            for measure in [REPLIES, SERVER] {
                assert!(claimed(measure, fastest), "{measure}");
            }
            for level in levels {
                assert!(claimed(REPLIES, &level.name), "{}", level.name);
            }
        }
    }

    #[test]
    fn what_load_prints_is_read() {
        let printed = r#"{"seconds": 2.5, "connections": 990, "requests": 2970, "latency": {"mean_us": 250.0}}"#;
        let found = read(printed, 1_000).unwrap();
        assert_eq!(
            (found.replies, found.took, found.time_ms),
            (2_970.0, 2.5, 0.25)
        );
        assert_eq!(found.client.offered, Some(0.99));
        let error = read("{}", 1).unwrap_err().to_string();
        assert_eq!(error, "no connections");
    }
}
