//! One measurement: what a load got, and what it cost whom.

use super::Plan;
use super::case::{CONNECTIONS, Case, Load, Page};
use super::printed::{self, Printed};
use super::report::{self, Measure};
use super::servers::{Server, endpoint};
use super::subject::Subject;
use crate::experiment::used::{ENGINE, SERVER, Used};
use crate::key_value;
use crate::load;
use crate::nginx::Nginx;
use crate::process::Program;
use crate::sampler;
use crate::sampler::account::{Spent, Watched};
use crate::world::Side;
use crate::zeromq;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The processes whose costs count.
struct Serving {
    watched: Watched,
    /// Whether its processes and threads are those that there were: what others did is known when they have ended, but
    /// not how often they were switched away from.
    is_steady: bool,
}

impl Serving {
    fn of(subject: &Subject, server: Option<Server>) -> Self {
        let (mut processes, mut families) = (Vec::new(), Vec::new());
        if let Some(pid) = subject.server(server) {
            // That may be a process for each client.
            match server {
                Some(Server::Postgres) => families.push((SERVER, pid)),
                _ => processes.push((SERVER, pid)),
            }
        }
        processes.extend(subject.behind(server).map(|pid| (BEHIND, pid)));
        processes.extend(subject.engine().map(|pid| (ENGINE, pid)));
        Self {
            watched: Watched {
                processes,
                families,
                engine: subject.outboard().cloned(),
            },
            is_steady: server.is_none_or(Server::is_steady),
        }
    }

    fn has(&self, name: &str) -> bool {
        let (processes, families) = (&self.watched.processes, &self.watched.families);
        let mut all = processes.iter().chain(families);
        all.any(|(known, _)| *known == name)
    }

    fn switches(&self) -> u64 {
        let processes = self.watched.processes.iter().chain(&self.watched.families);
        let counted = processes.filter(|(name, _)| *name != BEHIND);
        counted.map(|(_, pid)| sampler::switches(*pid)).sum()
    }

    /// What `requests` cost in which so much was spent, and the processes were switched away from so often.
    fn costs(&self, spent: &Spent, switches: u64, requests: f64) -> Vec<(&'static Measure, f64)> {
        let (server, engine) = (spent.of(SERVER), spent.of(ENGINE));
        // What is behind the server is where the client is.
        let client = spent.own + spent.of(BEHIND);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / requests;
        let mut costs = vec![
            (&report::MACHINE_CPU, each(spent.machine())),
            (&report::PROGRAMS_CPU, each(server + engine + client)),
        ];
        if self.has(SERVER) {
            costs.push((&report::SERVER_CPU, each(server)));
        }
        if self.has(SERVER) && self.is_steady {
            costs.push((&report::SWITCHES, switches as f64 / requests));
        }
        if self.has(ENGINE) {
            costs.push((&report::ENGINE_CPU, each(engine)));
        }
        costs
    }
}

/// What an account calls what a server passes requests on to.
const BEHIND: &str = "behind the server";

/// What was measured.
pub(crate) struct Measured {
    /// By measure.
    pub values: Vec<(&'static Measure, f64)>,
    /// What programs used, and what the engine says of itself.
    pub used: Used,
}

/// What came of a load: requests that were answered, and what their client says of them.
type Came = (f64, Vec<(&'static Measure, f64)>);

/// Starts what [`measure`] needs, and puts there what is asked for: none of that is part of what is measured.
pub(crate) fn prepare(plan: &Plan, case: &Case, subject: &mut Subject) -> Result<()> {
    let Some(server) = server(case, subject) else {
        return Ok(());
    };
    // It counts what it receives from its start on: one that others have asked is not the one.
    if matches!(case.load, Load::Stream) {
        subject.end(server);
    }
    subject.start(server)?;
    if let Load::Memcached { connections } = case.load {
        let load = commands(plan, connections);
        subject.world().on(Side::Client, || load.fill())?;
    }
    Ok(())
}

/// The server of a case, if it is one beside nginx.
fn server(case: &Case, subject: &Subject) -> Option<Server> {
    case.load.server().filter(|_| !subject.is_floor())
}

/// Measures `case` on `subject`, which was prepared for it, once.
pub(crate) fn measure(plan: &Plan, case: &Case, subject: &mut Subject) -> Result<Measured> {
    let server = server(case, subject);
    if let Some(server) = server {
        subject.directory(server)?;
    }
    let serving = Serving::of(subject, server);
    let (((requests, said), switches), spent) = serving.watched.during(|closed| {
        let (before, mut after) = (serving.switches(), None);
        let mut over = || {
            closed();
            after = Some(serving.switches());
        };
        let came = load(plan, case.load, subject, &mut over)?;
        let after = after.unwrap_or_else(|| serving.switches());
        Ok((came, after.saturating_sub(before)))
    })?;
    let mut values = serving.costs(&spent, switches, requests);
    values.extend(said);
    Ok(Measured {
        values,
        used: Used::with_client(&spent),
    })
}

/// Makes a load. `closed` is called when the window is over, if something comes after it.
fn load(
    plan: &Plan,
    load: Load,
    subject: &mut Subject,
    closed: &mut load::Closed<'_>,
) -> Result<Came> {
    let seconds = seconds(plan);
    let address = Side::Server.ipv4().to_string();
    match load {
        Load::Rate { per_second } => rate(plan, per_second, subject, closed),
        Load::Closed {
            connections,
            close,
            page,
        } => {
            let path = match page {
                Page::Small => subject.path().to_owned(),
                Page::File(file) => format!("/{}", file.name),
            };
            let url = format!("http://{}{path}", Nginx::address());
            wrk(plan, subject, connections, close, &url)
        }
        Load::Haproxy { connections } => {
            let url = format!("http://{address}:{}/64", Server::Haproxy.port());
            wrk(plan, subject, connections, false, &url)
        }
        Load::Redis {
            clients,
            pipelined,
            per_second,
        } => {
            let requests = per_second * seconds;
            let text = subject
                .client("redis-benchmark")
                .args(["-h", &address, "-p", &Server::Redis.port().to_string()])
                .args(["-t", "get", "--csv", "-n", &requests.to_string()])
                .args(["-c", &clients.to_string(), "-P", &pipelined.to_string()])
                .output()?;
            let read = printed::redis(&text).with_context(|| text)?;
            Ok((requests as f64, timed(read)))
        }
        Load::Memcached { connections } => {
            let load = commands(plan, connections);
            let outcome = subject.world().on(Side::Client, || load.run())?;
            let read = told(outcome.answered, outcome.took, &outcome.latency);
            Ok((outcome.answered as f64, timed(read)))
        }
        Load::PingPong => {
            let text = sockperf(plan, subject, "ping-pong").output()?;
            let (trips, read) = printed::sockperf(&text).with_context(|| text)?;
            Ok((trips, timed(read)))
        }
        Load::Stream => {
            let text = sockperf(plan, subject, "throughput").output()?;
            closed();
            let took = printed::sockperf_sent(&text).with_context(|| text)?;
            // What was sent need not have been received.
            let is_said = |text: &str| printed::sockperf_received(text).is_some();
            let text = subject.says(Server::Sockperf, is_said)?;
            let received = printed::sockperf_received(&text).with_context(|| text)?;
            Ok((received, vec![(&report::RATE, received / took)]))
        }
        Load::Postgres { clients } => postgres(plan, subject, clients),
        Load::ZeroMq => {
            let program = zeromq::program(subject.directory(Server::ZeroMq)?);
            let text = subject
                .client(program)
                .args(["ask", &endpoint(), "64", &seconds.to_string()])
                .output()?;
            let (trips, read) = printed::zeromq(&text).with_context(|| text)?;
            Ok((trips, timed(read)))
        }
        Load::Bulk { from_server } => {
            let mut iperf = subject
                .client("iperf3")
                .args(["--client", &address, "--json"])
                .args(["-p", &Server::Iperf.port().to_string()])
                .args(["-t", &seconds.to_string()]);
            if from_server {
                iperf = iperf.arg("--reverse");
            }
            let text = iperf.output()?;
            let (bytes, rate) = printed::iperf(&text).with_context(|| text)?;
            Ok((bytes / 1e6, vec![(&report::BULK, rate / 1e6)]))
        }
    }
}

fn timed(read: Printed) -> Vec<(&'static Measure, f64)> {
    vec![
        (&report::RATE, read.rate),
        (&report::P50, read.median),
        (&report::P99, read.high),
    ]
}

fn wrk(plan: &Plan, subject: &Subject, connections: usize, close: bool, url: &str) -> Result<Came> {
    let mut wrk = subject
        .client("wrk")
        .args(["-t1", "--latency", &format!("-c{connections}")])
        .arg(format!("-d{}", seconds(plan)));
    if close {
        wrk = wrk.args(["-H", "Connection: close"]);
    }
    let text = wrk.arg(url).output()?;
    let read = printed::wrk(&text).with_context(|| text.clone())?;
    let requests = requests_of_wrk(&text).with_context(|| text)?;
    Ok((requests, timed(read)))
}

/// sockperf in one of its ways, with messages of 64 bytes.
fn sockperf(plan: &Plan, subject: &Subject, way: &str) -> Program {
    let program = subject.client("sockperf");
    program
        .args([
            way,
            "--tcp",
            "-m",
            "64",
            "-i",
            &Side::Server.ipv4().to_string(),
        ])
        .args(["-p", &Server::Sockperf.port().to_string()])
        .args(["-t", &seconds(plan).to_string()])
}

/// Transactions that read a row; of one in ten it is noted how long it took.
fn postgres(plan: &Plan, subject: &Subject, clients: usize) -> Result<Came> {
    let logs = subject.directory(Server::Postgres)?.join("transactions");
    if logs.exists() {
        std::fs::remove_dir_all(&logs)?;
    }
    std::fs::create_dir(&logs)?;
    let text = subject
        .pgbench()?
        .args(["-n", "-S", "-c", &clients.to_string()])
        .args(["-j", &clients.min(2).to_string()])
        .args(["-T", &seconds(plan).to_string()])
        .args(["--log", "--sampling-rate=0.1"])
        .arg(format!("--log-prefix={}", logs.join("of").display()))
        .arg("postgres")
        .output()?;
    // A file for each of its threads.
    let mut transactions = String::new();
    for entry in std::fs::read_dir(&logs)? {
        transactions += &std::fs::read_to_string(entry?.path())?;
    }
    let (requests, read) = printed::pgbench(&text, &transactions).with_context(|| text)?;
    Ok((requests, timed(read)))
}

/// Commands of memcached's, of values of 64 bytes.
fn commands(plan: &Plan, connections: usize) -> key_value::Load {
    key_value::Load {
        server: (Side::Server.ipv4(), Server::Memcached.port()).into(),
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
) -> Result<Came> {
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
    let read = told(outcome.in_time, outcome.window, &outcome.latency);
    let mut said = timed(read);
    // It is that which is asked for.
    said.retain(|(measure, _)| **measure != report::RATE);
    Ok((outcome.in_time as f64, said))
}

/// What a client of our own says, as if it had printed it.
fn told(answered: u64, took: Duration, latency_ns: &Histogram<u64>) -> Printed {
    let quantile = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1e3;
    Printed {
        rate: answered as f64 / took.as_secs_f64(),
        median: quantile(0.5),
        high: quantile(0.99),
    }
}

/// From `14020 requests in 2.00s, 3.02MB read`.
fn requests_of_wrk(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok()
}
