//! What real clients notice of attacks at rates from below to above what a server bears: SYN floods, connections
//! without requests, headers that do not end, and floods of small requests.

use super::bed::{Bed, CLIENT_CORE, STACKS};
use super::each::Each;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::flood::attack::{Attack, Kind};
use crate::flood::experiment::{fetch_within, kernel_cookies, quantile};
use crate::flood::{Report, STRANGERS_NETWORK, SynFlood};
use crate::nginx::Nginx;
use crate::outboard::total;
use crate::world::{Side, World};
use crate::{sampler, tool};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry {
    name: "flood",
    source: "000",
    about: "what clients get during floods of SYNs, connections, slow headers and requests, by rate",
    needs: &["nginx", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const ATTACK: &str = "attack";
const ATTACKS: [(&str, Option<Kind>); 4] = [
    ("SYNs", None),
    ("connections", Some(Kind::Connections)),
    ("slow headers", Some(Kind::SlowHeaders)),
    ("small requests", Some(Kind::SmallRequests)),
];
const RATE: &str = "asked of the attack, a second";
const MEDIAN: &str = "a client's time, median";
const TIMES: [(&str, f64); 3] = [
    (MEDIAN, 0.5),
    ("a client's time, 99 %", 0.99),
    ("a client's time, worst", 1.0),
];
const SERVED: &str = "clients served";
const NOT_SERVED: &str = "clients not served";
const SENT: &str = "what the attack sent";
const ANSWERED: &str = "SYNs answered by a cookie";
const GROWN: &str = "growth of the engine's memory";
/// How long an attack goes on before anything is measured.
const BEFORE: Duration = Duration::from_millis(300);
/// How long it is given to be over.
const AFTER: Duration = Duration::from_millis(200);
/// How long a client waits for a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The least is hardly an attack, the greatest more than a core sends.
fn rates(extent: Extent) -> &'static [f64] {
    match extent {
        Extent::Full => &[10.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6],
        Extent::Quick => &[10.0, 1e6],
    }
}

fn declare(extent: Extent) -> Experiment {
    let mut measures = vec![Measure::new(SERVED, "1/s"), Measure::new(NOT_SERVED, "%")];
    measures.extend(TIMES.map(|(name, _)| Measure::new(name, "ms")));
    measures.extend([
        Measure::new(SENT, "1/s"),
        Measure::new(ANSWERED, "1/s"),
        Measure::new(GROWN, "KiB"),
    ]);
    let rate = Axis::of_numbers(RATE, "", rates(extent));
    let most = rate
        .levels
        .last()
        .map_or(String::new(), |level| level.name.clone());
    let claim = |attack: &str| Claim {
        says: format!(
            "In the worst flood ({attack}) as many clients are served on the engine as on the kernel"
        ),
        citation: Citation::goal(),
        measure: SERVED.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: vec![(ATTACK.into(), attack.into()), (RATE.into(), most.clone())],
        ratio: Bound::AtLeast(1.0),
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Clients during attacks".into(),
        question:
            "What does a client get of a server that is attacked, at rates from hardly any to more than it \
            bears? 000 left surviving such attacks as a goal."
                .into(),
        workload: format!(
            "Clients come one after another, each with one request on a connection of its own, and give up after \
             {} s. SYNs: each from another made-up address. Connections: opened by a kernel, held without a \
             request, up to 24,000 or what descriptors there are. Slow headers: the same, with a request whose header grows by a byte a second. \
             Small requests: on 64 connections, as fast as these take them. nginx has one worker with 20,000 \
             connections. An attack may be able to send less than is asked of it: the report says what it sent.",
            PATIENCE.as_secs()
        ),
        roles: "server and engine on core 0, the attack on core 1, the clients wherever there is room".into(),
        axes: vec![rate, Axis::of_words(ATTACK, &ATTACKS.map(|(name, _)| name))],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![
            Picture::new("Clients served a second", RATE, SERVED).log_x().log_y(),
            Picture::new("A client's time, median", RATE, MEDIAN).log_x().log_y(),
            Picture::new("Clients not served", RATE, NOT_SERVED).log_x(),
            Picture::new("What the attack sent", RATE, SENT).log_x().log_y(),
        ],
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: ATTACKS.map(|(name, _)| claim(name)).to_vec(),
    }
}

struct Attacked(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Bed::both(setup, |_| Ok(()))?;
    for bed in beds.all() {
        // The kernel answers nobody whom it has no way to; the engine answers the way that it was asked.
        let (name, by) = (bed.world().name(Side::Server), Side::Client.ipv4());
        tool::run(&format!(
            "ip -n {name} route add {STRANGERS_NETWORK} via {by}"
        ))?;
    }
    Ok(Box::new(Attacked(beds)))
}

/// An attack of either kind.
enum Running {
    Syns(SynFlood),
    Others(Attack),
}

impl Running {
    fn start(world: &World, target: SocketAddr, kind: Option<Kind>, rate: f64) -> Result<Self> {
        Ok(match kind {
            None => Self::Syns(SynFlood::start_at(world, target, CLIENT_CORE, rate)?),
            Some(kind) => Self::Others(Attack::start(world, target, kind, rate, CLIENT_CORE)?),
        })
    }

    fn stop(self) -> Result<Report> {
        match self {
            Self::Syns(flood) => flood.stop(),
            Self::Others(attack) => attack.stop(),
        }
    }
}

/// SYN cookies that a stack has sent.
fn cookies(bed: &Bed) -> Result<f64> {
    match bed.outboard() {
        Some(outboard) => Ok(total(&outboard.stats()?, "tcp_syn_cookies_sent")),
        None => kernel_cookies(bed.world()),
    }
}

impl Bench for Attacked {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let attack = at.word(ATTACK)?;
        let kind = ATTACKS.iter().find(|(name, _)| *name == attack);
        let (_, kind) = kind.with_context(|| format!("no attack {attack}"))?;
        let memory = || {
            bed.engine_process()
                .map(sampler::private_memory)
                .transpose()
        };
        let (address, held) = (Nginx::address(), memory()?);
        let running = Running::start(bed.world(), address, *kind, at.number(RATE)?)?;
        std::thread::sleep(BEFORE);
        // What the engine is asked before and after takes long under an attack, and is no time that clients have.
        let (answered, asked) = (cookies(bed)?, Instant::now());
        let (mut times, mut failed) = (Vec::new(), 0);
        let clients = || {
            let began = Instant::now();
            while began.elapsed() < at.window {
                match fetch_within(address, PATIENCE)? {
                    Some(time) => times.push(time.as_secs_f64() * 1e3),
                    None => failed += 1,
                }
            }
            Ok(began.elapsed().as_secs_f64())
        };
        let (passed, cost) = bed.account(|| bed.world().on(Side::Client, clients))?;
        let answered = (cookies(bed)? - answered) / asked.elapsed().as_secs_f64();
        let grown = memory()?
            .zip(held)
            .map(|(now, before)| now as f64 - before as f64);
        let report = running.stop()?;
        std::thread::sleep(AFTER);
        let all = times.len() + failed;
        if all == 0 {
            bail!("no client came");
        }
        // The attack is with the client in it: whether a client alone could have done more is not known.
        let mut sample = Sample::default()
            .using(&cost.used())
            .with(SERVED, times.len() as f64 / passed)
            .with(NOT_SERVED, failed as f64 * 100.0 / all as f64)
            .with(SENT, report.rate());
        for (name, part) in TIMES {
            if let Some(time) = quantile(&times, part) {
                sample = sample.with(name, time);
            }
        }
        if kind.is_none() {
            sample = sample.with(ANSWERED, answered);
        }
        if let Some(grown) = grown {
            sample = sample.with(GROWN, grown / 1_024.0);
        }
        Ok(sample)
    }
}
