//! What real clients notice of attacks at rates from below to above what a server bears: SYN floods, connections
//! without requests, headers that do not end, and floods of small requests.

use super::bed::{Bed, CLIENT_CORE, RECEIVED, SERVER_CORE, STACKS};
use super::each::Each;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::flood::attack::{Attack, Kind};
use crate::flood::experiment::{fetch_within, kernel_cookies, quantile};
use crate::flood::{Report, STRANGERS_NETWORK, SynFlood};
use crate::nginx::{Lines, Nginx};
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
    needs: &["nginx", "taskset", "chrt"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const ATTACK: &str = "attack";
/// What it is of, and the rate up to which it is the same for all that are attacked: beyond it some hold the sender up.
struct Known {
    name: &'static str,
    /// SYNs that nobody follows up have none.
    kind: Option<Kind>,
    same_up_to: f64,
}

static ATTACKS: [Known; 4] = [
    Known {
        name: "SYNs",
        kind: None,
        same_up_to: 1e5,
    },
    Known {
        name: "connections",
        kind: Some(Kind::Connections),
        same_up_to: 1e4,
    },
    Known {
        name: "slow headers",
        kind: Some(Kind::SlowHeaders),
        same_up_to: 1e4,
    },
    Known {
        name: "small requests",
        kind: Some(Kind::SmallRequests),
        same_up_to: 1e4,
    },
];
/// The kernel, which takes a veth's frames in where their sender is; the same as with a NIC whose interrupt is on the
/// server's core; and the engine.
const SUBJECTS: [&str; 3] = [STACKS[0], RECEIVED, STACKS[1]];
const RATE: &str = "asked of the attack, a second";
const MEDIAN: &str = "a client's time, median";
const TIMES: [(&str, f64); 3] = [
    (MEDIAN, 0.5),
    ("a client's time, 99 %", 0.99),
    ("a client's time, worst", 1.0),
];
const SERVED: &str = "clients served";
const SHARE: &str = "of those that are served in peace";
const NOT_SERVED: &str = "clients not served";
const SENT: &str = "what the attack sent";
const ANSWERED: &str = "SYNs answered by a cookie";
const GROWN: &str = "growth of the engine's memory";
/// How long an attack goes on before anything is measured.
const BEFORE: Duration = Duration::from_millis(300);
/// How long it is given to be over: what it held is closed, one after another.
const AFTER: Duration = Duration::from_millis(400);
/// How long a client waits for a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The part of a window for which clients are counted in peace before it.
const PEACE: u32 = 4;

/// None, and then from what is hardly an attack to more than a core sends.
fn rates(extent: Extent) -> &'static [f64] {
    match extent {
        Extent::Full => &[0.0, 10.0, 1e3, 1e4, 3e4, 1e5, 1e6],
        Extent::Quick => &[1e4],
    }
}

/// A first impression is of two.
fn attacks(extent: Extent) -> Vec<&'static Known> {
    let is_meant = |known: &&Known| match known.kind {
        None | Some(Kind::SmallRequests) => true,
        Some(_) => extent == Extent::Full,
    };
    ATTACKS.iter().filter(is_meant).collect()
}

/// The greatest rate of those that are measured at which the attack is the same for all.
fn comparable(known: &Known, extent: Extent) -> f64 {
    let same = rates(extent)
        .iter()
        .filter(|rate| **rate <= known.same_up_to);
    same.copied().fold(0.0, f64::max)
}

fn declare(extent: Extent) -> Experiment {
    let mut measures = vec![
        Measure::new(SERVED, "1/s"),
        Measure::new(SHARE, "%"),
        Measure::new(NOT_SERVED, "%"),
    ];
    measures.extend(TIMES.map(|(name, _)| Measure::new(name, "ms")));
    measures.extend([
        Measure::new(SENT, "1/s"),
        Measure::new(ANSWERED, "1/s"),
        Measure::new(GROWN, "KiB"),
    ]);
    let claim = |known: &Known, measure: &str, than: &str, kernel: &str| {
        let rate = comparable(known, extent).to_string();
        Claim {
            says: format!(
                "In a flood of {rate} {} a second {than} on the engine as on the {kernel}",
                known.name
            ),
            citation: Citation::goal(),
            measure: measure.into(),
            subject: SUBJECTS[2].into(),
            to: kernel.into(),
            at: vec![(ATTACK.into(), known.name.into()), (RATE.into(), rate)],
            ratio: Bound::AtLeast(1.0),
        }
    };
    let attacks = attacks(extent);
    let mut claims = Vec::new();
    for known in &attacks {
        for kernel in [SUBJECTS[0], SUBJECTS[1]] {
            claims.push(claim(known, SERVED, "as many clients are served", kernel));
        }
        let part = "as large a part of those in peace is served";
        claims.push(claim(known, SHARE, part, SUBJECTS[1]));
    }
    let names: Vec<&str> = attacks.iter().map(|known| known.name).collect();
    Experiment {
        name: ENTRY.name.into(),
        title: "Clients during attacks".into(),
        question:
            "What does a client get of a server that is attacked, at rates from none to more than it bears? 000 left \
            surviving such attacks as a goal."
                .into(),
        workload: format!(
            "Clients come one after another, each with one request on a connection of its own, and give up after \
             {} s. How many are served in peace is counted before each attack, for a {PEACE}th part of the time. SYNs: each \
             from another made-up address. Connections: opened by a kernel, held without a \
             request, up to 24,000 or what descriptors there are. Slow headers: the same, with a request whose header grows by a byte a second. \
             Small requests: on 64 connections, as fast as these take them. nginx has one worker with 20,000 \
             connections. An attack may be able to send less than is asked of it, and the report says what it sent. \
             Attacks that did not send the same are not compared: the kernel has a veth's frames taken in by their sender, \
             so a flood of the kernel holds itself up, and of a million SYNs a second fewer are sent to it than to the engine. \
             So what is to hold is said at 100,000 SYNs and at 10,000 of what takes an answer, which all are sent",
            PATIENCE.as_secs(),
        ),
        roles: format!(
            "server and engine on core {SERVER_CORE}, the attack on core {CLIENT_CORE}, and the clients wherever there is \
             room: the attack gives way to them at once (SCHED_IDLE), as if it came from another machine. \
             \"{}\" has the server's kernel do on core {SERVER_CORE} what it does with frames that come, by receive packet \
             steering, as where the interrupt of a NIC is: its server pays for what it is sent, as the \
             engine's does. \"{}\" has it as a veth has, on the core of the attack, which pays for it",
            SUBJECTS[1], SUBJECTS[0],
        ),
        axes: vec![
            Axis::of_numbers(RATE, "", rates(extent)),
            Axis::of_words(ATTACK, &names),
        ],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures,
        pictures: names.iter().flat_map(|attack| pictures(attack)).collect(),
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims,
    }
}

/// What is drawn of an attack.
fn pictures(attack: &str) -> Vec<Picture> {
    let by_rate = |what: &str, measure: &str| {
        let picture = Picture::new(format!("{what}: {attack}"), RATE, measure);
        picture.at(ATTACK, attack).log_x()
    };
    vec![
        by_rate("Clients served, of those in peace", SHARE),
        by_rate("Clients served a second", SERVED).log_y(),
        by_rate("A client's time, median", MEDIAN).log_y(),
        by_rate("Clients not served", NOT_SERVED),
        by_rate("What the attack sent", SENT).log_y(),
    ]
}

struct Attacked {
    beds: Each<Bed>,
    /// Clients a second that are served in peace, just before what is measured.
    in_peace: f64,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Each::of(setup, |subject| {
        let bed = Bed::of(setup, subject)?.serving(|_| Ok(Lines::default()))?;
        let world = bed.world();
        // The kernel answers nobody whom it has no way to; the engine answers the way that it was asked.
        let (name, by) = (world.name(Side::Server), Side::Client.ipv4());
        tool::run(&format!(
            "ip -n {name} route add {STRANGERS_NETWORK} via {by}"
        ))?;
        Ok(bed)
    })?;
    Ok(Box::new(Attacked {
        beds,
        in_peace: 0.0,
    }))
}

/// Clients that came one after another.
#[derive(Debug, Default)]
struct Clients {
    /// The times of those that were served, milliseconds.
    times: Vec<f64>,
    failed: usize,
    /// How long they came, seconds.
    passed: f64,
}

impl Clients {
    fn come(window: Duration) -> Result<Self> {
        let (mut clients, began) = (Self::default(), Instant::now());
        while began.elapsed() < window {
            match fetch_within(Nginx::address(), PATIENCE)? {
                Some(time) => clients.times.push(time.as_secs_f64() * 1e3),
                None => clients.failed += 1,
            }
        }
        clients.passed = began.elapsed().as_secs_f64();
        Ok(clients)
    }

    fn all(&self) -> usize {
        self.times.len() + self.failed
    }

    /// Served a second.
    fn rate(&self) -> f64 {
        self.times.len() as f64 / self.passed.max(1e-9)
    }
}

/// An attack of either kind.
enum Running {
    Syns(SynFlood),
    Others(Attack),
}

impl Running {
    fn start(world: &World, target: SocketAddr, kind: Option<Kind>, rate: f64) -> Result<Self> {
        Ok(match kind {
            None => Self::Syns(SynFlood::start_behind(world, target, CLIENT_CORE, rate)?),
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
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        let world = self.beds.get(at.subject)?.world();
        let clients = world.on(Side::Client, || Clients::come(at.window / PEACE))?;
        self.in_peace = clients.rate();
        if clients.times.is_empty() {
            bail!("nobody is served in peace");
        }
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.beds.get(at.subject)?;
        let (attack, rate) = (at.word(ATTACK)?, at.number(RATE)?);
        let known = ATTACKS.iter().find(|known| known.name == attack);
        let kind = known.with_context(|| format!("no attack {attack}"))?.kind;
        let memory = || {
            bed.engine_process()
                .map(sampler::private_memory)
                .transpose()
        };
        let held = memory()?;
        let start = || Running::start(bed.world(), Nginx::address(), kind, rate);
        let running = (rate > 0.0).then(start).transpose()?;
        std::thread::sleep(BEFORE);
        // What the engine is asked before and after takes long under an attack, and is no time that clients have.
        let (answered, asked) = (cookies(bed)?, Instant::now());
        let come = || bed.world().on(Side::Client, || Clients::come(at.window));
        let (clients, cost) = bed.account(come)?;
        let answered = (cookies(bed)? - answered) / asked.elapsed().as_secs_f64();
        let grown = memory()?
            .zip(held)
            .map(|(now, before)| now as f64 - before as f64);
        let report = running.map(Running::stop).transpose()?;
        std::thread::sleep(AFTER);
        if clients.all() == 0 {
            bail!("no client came");
        }
        // The attack is with the client in it: whether a client alone could have done more is not known.
        let mut sample = Sample::default()
            .using(&cost.used())
            .with(SERVED, clients.rate())
            .with(SHARE, 100.0 * clients.rate() / self.in_peace)
            .with(
                NOT_SERVED,
                clients.failed as f64 * 100.0 / clients.all() as f64,
            )
            .with(SENT, report.map_or(0.0, |report| report.rate()));
        for (name, part) in TIMES {
            if let Some(time) = quantile(&clients.times, part) {
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

#[cfg(test)]
mod tests {
    use super::{ATTACK, ATTACKS, Extent, Picture, RATE, SUBJECTS, declare};

    /// What is to hold is said where all are attacked alike, against the kernel in both ways.
    #[test]
    fn attacks_are_compared_where_they_are_the_same() {
        for extent in [Extent::Full, Extent::Quick] {
            let declared = declare(extent);
            assert_eq!(declared.mistakes(), [""; 0]);
            let attacks = &declared.axis(ATTACK).unwrap().levels;
            assert_eq!(declared.claims.len(), 3 * attacks.len());
            // Twelve lines in one picture cannot be read.
            let of_one = |picture: &Picture| picture.at.iter().any(|(axis, _)| axis == ATTACK);
            assert!(declared.pictures.iter().all(of_one));
            for claim in &declared.claims {
                let level = |axis: &str| {
                    let found = claim.at.iter().find(|(known, _)| known == axis);
                    found.unwrap().1.clone()
                };
                let attack = level(ATTACK);
                let known = ATTACKS.iter().find(|known| known.name == attack);
                let rate: f64 = level(RATE).parse().unwrap();
                assert!(rate > 0.0 && rate <= known.unwrap().same_up_to, "{attack}");
                assert_eq!(claim.subject, SUBJECTS[2]);
                assert!(SUBJECTS[..2].contains(&claim.to.as_str()));
            }
        }
        let full = declare(Extent::Full);
        assert_eq!(full.axis(RATE).unwrap().levels[0].value, Some(0.0), "peace");
        let says: Vec<&str> = full
            .claims
            .iter()
            .map(|claim| claim.says.as_str())
            .collect();
        assert!(says[0].contains("100000 SYNs"), "{says:?}");
        assert!(says[11].contains("10000 small requests"), "{says:?}");
    }
}
