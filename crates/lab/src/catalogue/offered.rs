//! What the experiments of 001 with a web server have in common: requests or connections are due at a
//! rate that rises, whether the server keeps up or not, and throughput and CPU are drawn over it.

use super::bed::{Bed, Cost, RECEIVED, ROLES, SERVER_CORE, STACKS};
use super::each::Each;
use super::prime::prime;
use super::{Extent, Setup};
use crate::experiment::Sample;
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::load::{Asked, Load, Outcome};
use crate::nginx::Nginx;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// The axis.
pub const LOAD: &str = "offered load";
/// What is answered.
pub const REPLIES: &str = "replies";
/// How busy the server's core is, with all that runs there.
pub const BUSY: &str = "CPU of the server's core";
const RUN_SERVER: &str = "run time of the server";
const RUN_ENGINE: &str = "run time of the engine";
/// How long a request takes.
pub const TIME: &str = "time of a request, median";
const UNANSWERED: &str = "not answered";

/// Requests a second, from what bores a server of today to what is too much for it on one core.
const LOADS: [u32; 8] = [1_000, 2_000, 4_000, 6_000, 8_000, 12_000, 16_000, FULL];
const QUICK: [u32; 2] = [2_000, FULL];
/// What fills it: of 12,000 a second for 16 KB some servers of today have a fifth of a core left.
const FULL: u32 = 24_000;
/// Connections at once, at most.
pub const CONNECTIONS: usize = 256;
/// How long a server may still answer, after the last request was due.
pub const GRACE: Duration = Duration::from_secs(1);

/// A server that knows of its engine, on the kernel and on the engine: what it sends it does not wait for.
pub const SERVE: [&str; 2] = ["serve on the kernel", "serve on the engine"];
/// The same on a kernel that has its receive work on the server's core.
const SERVE_RECEIVED: &str = "serve on the kernel, received on its core";
/// A kernel on two cores is beside an engine on one, where the client's core does the receiving.
const AS_BY_A_NIC: &str = ", beside a kernel that has its receive work on the server's core, too";
/// What a workload says of them.
pub const SERVERS: &str = "Kernel and engine have an unmodified nginx. `outboard serve` has the native interface on \
    both: on the engine it names the file, and the engine sends it, while the call is over; there is no piece that \
    it would send at once.";

/// nginx on both stacks, and on a kernel that is alone on the server's core, as far as there is time for it.
pub fn of_nginx(extent: Extent) -> Vec<String> {
    let received = (extent == Extent::Full).then_some(RECEIVED);
    let all = [STACKS[0], STACKS[1]].into_iter().chain(received);
    all.map(String::from).collect()
}

/// The same, and `outboard serve`.
pub fn subjects(extent: Extent) -> Vec<String> {
    let received = (extent == Extent::Full).then_some(SERVE_RECEIVED);
    let serve = SERVE.into_iter().chain(received).map(String::from);
    of_nginx(extent).into_iter().chain(serve).collect()
}

/// What roles say of [`RECEIVED`] beside others.
pub const WHERE_RECEIVED: &str = "of a kernel that is \u{201c}received on its core\u{201d} the receive work of the server's \
    interface is on core 0, as by a NIC whose interrupt is there: what the source's servers had";

/// Who is where.
pub fn roles(extent: Extent) -> String {
    match extent {
        Extent::Quick => ROLES.into(),
        Extent::Full => format!("{ROLES}; {WHERE_RECEIVED}"),
    }
}

/// These claims, and each beside a kernel that has its receive work where its server is, where that is measured: the
/// source's client had another machine, which did none of it.
pub fn as_in_the_source(extent: Extent, claims: Vec<Claim>) -> Vec<Claim> {
    let received = [(STACKS[0], RECEIVED), (SERVE[0], SERVE_RECEIVED)];
    as_by_a_nic(extent, claims, &received)
}

/// The same of other subjects, each of which has its name on a kernel that has its receive work where its server is beside
/// it. What is not claimed beside any of them stands as it is.
pub fn as_by_a_nic(extent: Extent, claims: Vec<Claim>, received: &[(&str, &str)]) -> Vec<Claim> {
    let is_measured = extent == Extent::Full;
    let beside = claims.iter().filter(|_| is_measured).filter_map(|claim| {
        let (_, to) = received.iter().find(|(known, _)| claim.to == *known)?;
        Some(Claim {
            says: format!("{}{AS_BY_A_NIC}", claim.says),
            to: (*to).into(),
            ..claim.clone()
        })
    });
    let beside: Vec<Claim> = beside.collect();
    claims.into_iter().chain(beside).collect()
}

/// The axis, in requests a second.
pub fn loads(extent: Extent) -> Axis {
    loads_of(extent, prime)
}

/// The axis where connections carry more requests: what is offered, in requests, for each load of the others.
pub fn loads_of(extent: Extent, offer: impl Fn(u32) -> f64) -> Axis {
    let loads = match extent {
        Extent::Full => &LOADS[..],
        Extent::Quick => &QUICK[..],
    };
    let loads: Vec<f64> = loads.iter().copied().map(offer).collect();
    Axis::of_numbers(LOAD, "req/s", &loads)
}

/// What fills a server, in requests a second.
pub fn full() -> f64 {
    prime(FULL)
}

/// What is measured.
pub fn measures() -> Vec<Measure> {
    vec![
        Measure::new(REPLIES, "1/s"),
        Measure::new(BUSY, "%"),
        Measure::new(RUN_SERVER, "%"),
        Measure::new(RUN_ENGINE, "%"),
        Measure::new(TIME, "ms"),
        Measure::new(UNANSWERED, "%"),
    ]
}

/// Throughput and CPU over the load, by these numbers of 001's figures, at these levels of other axes. The source's figures
/// of CPU have host and engine apart, which had a processor each; here both are on one core, which is drawn besides.
pub fn pictures(what: &str, figures: [&str; 2], at: &[(&str, &str)]) -> Vec<Picture> {
    let [throughput, cpu] = figures.map(|figure| format!(" (001, figure {figure})"));
    let each = [
        ("throughput", REPLIES, &throughput),
        ("CPU of the server", RUN_SERVER, &cpu),
        ("CPU of the engine", RUN_ENGINE, &cpu),
        ("CPU of the core that both share", BUSY, &String::new()),
    ];
    let drawn = each.map(|(name, measure, figure)| {
        let picture = Picture::new(format!("{what}: {name}{figure}"), LOAD, measure);
        at.iter()
            .fold(picture, |picture, (axis, level)| picture.at(axis, level))
    });
    drawn.to_vec()
}

/// A statement of 001 about the throughput of a full server, at these levels of other axes: its gains
/// are those of calls that wait for the engine, as those of programs that nobody changes do.
pub fn claim(says: &str, figure: &str, at: &[(&str, &str)], ratio: Bound) -> Claim {
    let full = full().to_string();
    // Whoever has other loads says which is the full one.
    let says_load = at.iter().any(|(axis, _)| *axis == LOAD);
    let full = (!says_load).then_some((LOAD, full.as_str()));
    let at = at.iter().copied().chain(full);
    Claim {
        says: says.into(),
        citation: Citation {
            document: "001".into(),
            place: format!("figure {figure}"),
        },
        measure: REPLIES.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: at
            .map(|(axis, level)| (axis.to_owned(), level.to_owned()))
            .collect(),
        ratio,
    }
}

/// As [`claim`], about calls that do not wait for the engine: of a server that knows of it, with the engine and without.
pub fn asynchronous(says: &str, figure: &str, at: &[(&str, &str)], ratio: Bound) -> Claim {
    Claim {
        subject: SERVE[1].into(),
        to: SERVE[0].into(),
        ..claim(says, figure, at, ratio)
    }
}

/// Both stacks, each with nginx and with `outboard serve`, as far as they are asked for: `fill` as for [`beds`], and
/// `write` puts the same files into the directory of the other.
pub fn all_beds(
    setup: &Setup,
    fill: impl Fn(&Path) -> Result<String>,
    write: impl Fn(&Path) -> Result<()>,
) -> Result<Each<Bed>> {
    Each::of(setup, |subject| {
        let bed = Bed::of(setup, subject)?;
        match is_serve(subject) {
            true => bed.serving_natively(setup, &[], &write),
            false => bed.serving(|site| Ok(fill(site)?.into())),
        }
    })
}

/// Both stacks, as far as they are asked for, each with nginx: `fill` puts files into its directory, and says what else
/// it needs in its configuration.
pub fn beds(setup: &Setup, fill: impl Fn(&Path) -> Result<String>) -> Result<Each<Bed>> {
    Each::of(setup, |stack| Bed::with_nginx_and(setup, stack, &fill))
}

/// Whether a subject is the server that knows of its engine, which has no places of nginx's.
pub fn is_serve(subject: &str) -> bool {
    SERVE.contains(&subject) || subject == SERVE_RECEIVED
}

/// A request by HTTP/1.0, which the server ends by closing the connection.
pub fn get(path: &str) -> Vec<u8> {
    let host = Nginx::address();
    format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// Asks for this at a rate, a connection for each request, and measures.
pub fn measure(bed: &Bed, asked: &Asked, rate: f64, window: Duration) -> Result<Sample> {
    measure_with(bed, &[], asked, rate, window)
}

/// As [`measure`], with further processes that serve.
pub fn measure_with(
    bed: &Bed,
    servers: &[u32],
    asked: &Asked,
    rate: f64,
    window: Duration,
) -> Result<Sample> {
    let load = load(rate, window);
    let (outcome, cost) = bed.account_closing(servers, |closed| {
        bed.on_client(|| load.run_closing(asked, closed))
    })?;
    Ok(sample(&outcome, &cost))
}

/// A connection for each request, at a rate.
pub fn load(rate: f64, window: Duration) -> Load {
    Load {
        server: Nginx::address(),
        path: String::new(),
        close: true,
        connections: CONNECTIONS,
        rate,
        duration: window,
        grace: GRACE,
    }
}

/// What came of it.
pub fn sample(outcome: &Outcome, cost: &Cost) -> Sample {
    let passed = cost.spent.passed;
    let part = |time: Duration| 100.0 * time.as_secs_f64() / passed.as_secs_f64().max(1e-9);
    let due = outcome.due.max(1) as f64;
    let mut sample = cost
        .sample_of(outcome)
        .with(REPLIES, outcome.rate())
        .with(RUN_SERVER, part(cost.server()))
        .with(UNANSWERED, 100.0 * outcome.unanswered() as f64 / due);
    if let Some(share) = cost.spent.share_of_core(SERVER_CORE) {
        sample = sample.with(BUSY, 100.0 * share);
    }
    if cost.spent.engine.is_some() {
        sample = sample.with(RUN_ENGINE, part(cost.engine()));
    }
    if outcome.answered > 0 {
        let median = outcome.latency.value_at_quantile(0.5) as f64 / 1e6;
        sample = sample.with(TIME, median);
    }
    let connections = outcome.connections as f64;
    sample.notes.extend(cost.beside_engine(connections));
    if outcome.failed > 0 {
        let failed = outcome.failed;
        let note = format!("{failed} of {} requests failed", outcome.due);
        sample.notes.push(note);
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::{AS_BY_A_NIC, RECEIVED, SERVE, SERVE_RECEIVED, STACKS};
    use super::{BUSY, LOAD, REPLIES, RUN_ENGINE, RUN_SERVER, measures, pictures};
    use super::{as_in_the_source, asynchronous, claim, is_serve, of_nginx, subjects};
    use crate::catalogue::{Extent, find};
    use crate::experiment::declaration::Bound;

    #[test]
    fn what_is_claimed_is_held_against_a_kernel_that_receives_on_the_servers_core_too() {
        let claims = || {
            let gain = |says: &str| claim(says, "6.9", &[], Bound::AtLeast(1.07));
            let later = asynchronous("later", "6.9", &[], Bound::AtLeast(1.17));
            vec![gain("gains"), later]
        };
        let told = |extent| -> Vec<(bool, String, String)> {
            let each = as_in_the_source(extent, claims()).into_iter();
            each.map(|claim| {
                (
                    claim.says.ends_with(AS_BY_A_NIC),
                    claim.subject,
                    claim.to.subject,
                )
            })
            .collect()
        };
        let at = |is_beside, subject: &str, to: &str| (is_beside, subject.into(), to.into());
        let full = [
            at(false, STACKS[1], STACKS[0]),
            at(false, SERVE[1], SERVE[0]),
            at(true, STACKS[1], RECEIVED),
            at(true, SERVE[1], SERVE_RECEIVED),
        ];
        assert_eq!(told(Extent::Full), full);
        assert_eq!(told(Extent::Quick), full[..2]);
        for extent in [Extent::Full, Extent::Quick] {
            let known = subjects(extent);
            let is_there = |name: &String| known.contains(name);
            let all = told(extent);
            assert!(
                all.iter()
                    .all(|(_, one, other)| is_there(one) && is_there(other))
            );
            assert!(of_nginx(extent).iter().all(is_there));
        }
        assert!(is_serve(SERVE_RECEIVED) && !is_serve(RECEIVED));
    }

    /// Of each claim beside a kernel there is one beside that kernel as by a NIC, and both are measured there.
    #[test]
    fn every_experiment_with_a_full_server_has_it_beside_both_kernels() {
        for name in [
            "rates",
            "static",
            "dynamic",
            "bursts",
            "trace",
            "web-sends",
            "web-variants",
            "web-loads",
        ] {
            let entry = find(name).unwrap();
            let full = entry.declare(Extent::Full);
            let is_by_a_nic = |subject: &str| subject.ends_with("received on its core");
            let kernels = [STACKS[0], SERVE[0], "kernel sockets"];
            let (mut plain, mut beside) = (Vec::new(), Vec::new());
            for claim in &full.claims {
                let words = (claim.says.clone(), claim.subject.clone(), claim.at.clone());
                if kernels.contains(&claim.to.as_str()) {
                    plain.push((format!("{}{AS_BY_A_NIC}", words.0), words.1, words.2));
                } else if is_by_a_nic(claim.to.as_str()) {
                    beside.push(words);
                }
            }
            assert!(!plain.is_empty(), "{name}");
            assert_eq!(plain, beside, "{name}");
            let quick = entry.declare(Extent::Quick).subjects;
            assert!(!quick.iter().any(|it| is_by_a_nic(it)), "{name}: {quick:?}");
        }
    }

    /// The source's figures of CPU are of the host and of the engine, which are measured apart.
    #[test]
    fn host_and_engine_are_drawn_apart_where_the_source_has_them_so() {
        let drawn = pictures("Files", ["6.9", "6.10"], &[("sends", "small")]);
        let of = |measure: &str| {
            let mut found = drawn.iter().filter(|picture| picture.y == measure);
            let picture = found.next().expect(measure);
            assert_eq!((found.count(), picture.x.as_str()), (0, LOAD), "{measure}");
            assert_eq!(picture.at, [("sends".to_owned(), "small".to_owned())]);
            picture.title.clone()
        };
        assert!(of(REPLIES).ends_with("(001, figure 6.9)"));
        for measure in [RUN_SERVER, RUN_ENGINE] {
            assert!(of(measure).ends_with("(001, figure 6.10)"), "{measure}");
        }
        assert!(!of(BUSY).contains("001"));
        let known = measures();
        let is_known = |name: &String| known.iter().any(|measure| measure.name == *name);
        assert!(drawn.iter().all(|picture| is_known(&picture.y)));
    }
}
