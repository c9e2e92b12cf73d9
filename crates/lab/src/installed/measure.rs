//! One measurement: what a load got, and what it cost whom.

use super::Plan;
use super::case::{CONNECTIONS, Case, Load, Page};
use super::printed::{self, Printed};
use super::report::{self, Measure};
use super::subject::{MEMCACHED, PING_PONG, REDIS, Subject};
use crate::key_value;
use crate::load;
use crate::nginx::Nginx;
use crate::sampler;
use crate::sampler::account::Account;
use crate::world::Side;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::time::Duration;

/// What the programs had used by now.
struct Used {
    machine: Account,
    client: Duration,
    server: Duration,
    engine: Duration,
    switches: u64,
}

/// The processes whose costs count.
struct Serving {
    server: Option<u32>,
    engine: Option<u32>,
}

impl Serving {
    fn run_time(pid: Option<u32>) -> Result<Duration> {
        pid.map_or(Ok(Duration::ZERO), sampler::run_time)
    }

    fn switches(&self) -> u64 {
        [self.server, self.engine]
            .into_iter()
            .flatten()
            .map(sampler::switches)
            .sum()
    }

    fn now(&self) -> Result<Used> {
        Ok(Used {
            client: sampler::own_time()?,
            server: Self::run_time(self.server)?,
            engine: Self::run_time(self.engine)?,
            switches: self.switches(),
            machine: Account::of_machine()?,
        })
    }

    /// What `requests` cost from `before` until `after`.
    fn costs(
        &self,
        before: &Used,
        after: &Used,
        requests: f64,
    ) -> Result<Vec<(&'static Measure, f64)>> {
        let machine = after.machine.since(&before.machine).machine();
        let server = after.server.saturating_sub(before.server);
        let engine = after.engine.saturating_sub(before.engine);
        let client = after.client.saturating_sub(before.client);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / requests;
        let mut costs = vec![
            (&report::MACHINE_CPU, each(machine)),
            (&report::PROGRAMS_CPU, each(server + engine + client)),
        ];
        if self.server.is_some() {
            let switches = after.switches.saturating_sub(before.switches);
            costs.push((&report::SERVER_CPU, each(server)));
            costs.push((&report::SWITCHES, switches as f64 / requests));
        }
        if self.engine.is_some() {
            costs.push((&report::ENGINE_CPU, each(engine)));
        }
        Ok(costs)
    }
}

/// Measures `case` on `subject` once.
pub(crate) fn measure(
    plan: &Plan,
    case: &Case,
    subject: &Subject,
) -> Result<Vec<(&'static Measure, f64)>> {
    let serving = Serving {
        server: match case.load {
            Load::Closed { .. } | Load::Rate { .. } => subject.http(),
            Load::Redis { .. } => subject.redis(),
            Load::Memcached { .. } => subject.memcached(),
            Load::PingPong => subject.ping_pong(),
        },
        engine: subject.engine(),
    };
    if let Load::Memcached { connections } = case.load {
        let load = commands(plan, connections);
        subject.world().on(Side::Client, || load.fill())?;
    }
    let before = serving.now()?;
    let mut closed = None;
    let (requests, read) = match case.load {
        Load::Rate { per_second } => rate(plan, per_second, subject, &mut || {
            closed = Some(serving.now())
        })?,
        Load::Closed {
            connections,
            close,
            page,
        } => {
            let path = match page {
                Page::Small => subject.path().to_owned(),
                Page::File(file) => format!("/{}", file.name),
            };
            let target = format!("http://{}{path}", Nginx::address());
            let mut wrk = subject
                .world()
                .program(Side::Client, "wrk")
                .args(["-t1", "--latency", &format!("-c{connections}")])
                .arg(format!("-d{}", seconds(plan)));
            if close {
                wrk = wrk.args(["-H", "Connection: close"]);
            }
            let text = wrk.arg(target).output()?;
            let read = printed::wrk(&text).with_context(|| text.clone())?;
            let requests = requests_of_wrk(&text).with_context(|| text)?;
            (requests, read)
        }
        Load::Redis {
            clients,
            pipelined,
            per_second,
        } => {
            let requests = per_second * seconds(plan);
            let text = subject
                .world()
                .program(Side::Client, "redis-benchmark")
                .args(["-h", &Side::Server.ipv4().to_string()])
                .args(["-p", &REDIS.to_string(), "-t", "get", "--csv"])
                .args(["-c", &clients.to_string(), "-n", &requests.to_string()])
                .args(["-P", &pipelined.to_string()])
                .output()?;
            let read = printed::redis(&text).with_context(|| text)?;
            (requests as f64, read)
        }
        Load::Memcached { connections } => {
            let load = commands(plan, connections);
            let outcome = subject.world().on(Side::Client, || load.run())?;
            told(outcome.answered, outcome.took, &outcome.latency)
        }
        Load::PingPong => {
            let text = subject
                .world()
                .program(Side::Client, "sockperf")
                .args(["ping-pong", "--tcp", "-m", "64"])
                .args(["-i", &Side::Server.ipv4().to_string()])
                .args(["-p", &PING_PONG.to_string()])
                .args(["-t", &seconds(plan).to_string()])
                .output()?;
            let read = printed::sockperf(&text).with_context(|| text)?;
            // What it sends to warm up is not in what it says.
            (read.rate * seconds(plan) as f64, read)
        }
    };
    let after = closed.unwrap_or_else(|| serving.now())?;
    let mut measured = serving.costs(&before, &after, requests)?;
    measured.push((&report::P50, read.median));
    measured.push((&report::P99, read.high));
    if !matches!(case.load, Load::Rate { .. }) {
        measured.push((&report::RATE, read.rate));
    }
    Ok(measured)
}

/// Commands of memcached's, of values of 64 bytes.
fn commands(plan: &Plan, connections: usize) -> key_value::Load {
    key_value::Load {
        server: (Side::Server.ipv4(), MEMCACHED).into(),
        connections,
        keys: 4_096,
        value: 64,
        sets: 0.1,
        duration: plan.window,
        seed: 1,
    }
}

fn seconds(plan: &Plan) -> u64 {
    plan.window.as_secs().max(1)
}

/// Requests that are due at a rate; latency is from when they were due.
fn rate(
    plan: &Plan,
    per_second: f64,
    subject: &Subject,
    closed: &mut load::Closed<'_>,
) -> Result<(f64, Printed)> {
    let load = load::Load {
        server: Nginx::address(),
        path: subject.path().into(),
        close: false,
        connections: CONNECTIONS,
        rate: per_second,
        duration: plan.window,
        grace: load::Load::GRACE,
    };
    let run = || load.run_closing(&load.path(), closed);
    let outcome = subject.world().on(Side::Client, run)?;
    if outcome.in_time == 0 {
        bail!("{}: no request was answered", subject.name());
    }
    Ok(told(outcome.in_time, outcome.window, &outcome.latency))
}

/// What a client of our own says, as if it had printed it.
fn told(answered: u64, took: Duration, latency_ns: &Histogram<u64>) -> (f64, Printed) {
    let quantile = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1e3;
    let read = Printed {
        rate: answered as f64 / took.as_secs_f64(),
        median: quantile(0.5),
        high: quantile(0.99),
    };
    (answered as f64, read)
}

/// From `14020 requests in 2.00s, 3.02MB read`.
fn requests_of_wrk(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok()
}
