//! 001, figures 6.9 to 6.18: a web server in each variant by what is offered to it, for each of the source's workloads.
//! `static`, `dynamic` and `bursts` have nginx and `serve` so.

use super::super::bursts::{BURST, BURSTS, EACH};
use super::super::dynamic::SHARE;
use super::super::offered::{self, CONNECTIONS, GRACE, LOAD};
use super::super::prime::prime;
use super::super::static_files::in_pieces;
use super::super::{Entry, Extent, Setup, trace};
use super::web_sends::{PIECES, SIZE, piece, places};
use super::web_server::{
    ALL, Beds, EAGER, INTERPOSED, KERNEL, KERNEL_RECEIVED, LOG, NGINX, PULL, PUSH, Running, SETUP,
    SUBJECTS, VARIANTS, drawn, words,
};
use super::{REGISTERED, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
use crate::experiment::declaration::{Axis, Bound, Claim, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::sessions::Sessions;
use crate::load::{Asked, Closed, Outcome};
use crate::nginx::Nginx;
use crate::workload::replay::Replay;
use crate::world::World;
use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "web-loads",
    source: "001",
    about: "a web server in each variant by load: files, the same file, 80:20 computed, bursts, a log: throughput, CPU",
    needs: &["nginx", "taskset"],
    seconds: (1, 1),
    windows: 1,
    declare,
    open,
};

const WORKLOAD: &str = "workload";

/// What is asked for.
struct Workload {
    name: &'static str,
    /// The sends in which it leaves.
    sends: &'static str,
    asks: Asks,
    /// The figures of throughput and CPU.
    figures: [&'static str; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// For all files in turn.
    Files,
    /// For one of them.
    Same,
    /// For any of them or, one time in five, for what is computed.
    Mixed,
    /// For files, six on a connection.
    Bursts,
    /// For what an access log has, at its rhythm.
    Log,
}

const FOUR: &str = "sends of 4 KB";
const SIXTEEN: &str = "sends of 16 KB";
const SAME: &str = "the same file";
const MIXED: &str = "80:20, computed";
const IN_BURSTS: &str = "in bursts of three";
const LOGGED: &str = "an access log";
/// Where nginx has what that asks for, and so many KB it reads at once.
const LOGGED_AT: (&str, u32) = ("/log-16K", 16);

/// In sends as the source has them: of 4 KB until its figure 6.13, of 16 KB from then on.
const WORKLOADS: [Workload; 6] = [
    Workload {
        name: FOUR,
        sends: PIECES[0].0,
        asks: Asks::Files,
        figures: ["6.9", "6.10"],
    },
    Workload {
        name: SIXTEEN,
        sends: PIECES[1].0,
        asks: Asks::Files,
        figures: ["6.14", "6.15"],
    },
    Workload {
        name: SAME,
        sends: PIECES[0].0,
        asks: Asks::Same,
        figures: ["6.11", "6.11"],
    },
    Workload {
        name: MIXED,
        sends: PIECES[0].0,
        asks: Asks::Mixed,
        figures: ["6.12", "6.13"],
    },
    Workload {
        name: IN_BURSTS,
        sends: PIECES[1].0,
        asks: Asks::Bursts,
        figures: ["6.16", "6.17"],
    },
    Workload {
        name: LOGGED,
        sends: PIECES[1].0,
        asks: Asks::Log,
        figures: ["6.18", "6.18"],
    },
];

/// Requests a second. Of those that come in bursts a server bears more.
const LOADS: [u32; 4] = [2_000, 4_000, 8_000, MOST];
const MOST: u32 = 48_000;
/// Requests that are drawn for each file before they begin again.
const DRAWN: usize = 4;

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let workloads: Vec<&str> = match quick {
        true => vec![SIXTEEN, MIXED, IN_BURSTS, LOGGED],
        false => WORKLOADS.iter().map(|workload| workload.name).collect(),
    };
    let mut loads = vec![offered::full()];
    if !quick {
        loads.extend(LOADS.map(prime));
        loads.sort_by(f64::total_cmp);
    }
    // What it is for is said of a server that is full.
    let light: Vec<String> = loads
        .iter()
        .filter(|load| !quick && **load < offered::full())
        .map(f64::to_string)
        .collect();
    let mut load_axis = Axis::of_numbers(LOAD, "req/s", &loads);
    for load in &light {
        load_axis = load_axis.without_of(&[KERNEL_RECEIVED], load);
    }
    let most = loads.last().copied().unwrap_or_default().to_string();
    // Ways to receive and to accept alone are in web-variants.
    let is_meant = |name: &&str| match quick {
        true => [KERNEL, REGISTERED.0, SETUP].contains(name),
        false => ![EAGER, PULL, PUSH].contains(name),
    };
    let subjects = SUBJECTS.iter().map(|(name, _)| *name).filter(is_meant);
    let subjects: Vec<String> = subjects.map(String::from).collect();
    let mut pictures: Vec<Picture> = Vec::new();
    for workload in WORKLOADS.iter().filter(|it| workloads.contains(&it.name)) {
        let what = match workload.asks {
            Asks::Log => "What an access log asks for".into(),
            _ => format!("Files of 16 KB, {}", workload.name),
        };
        let at = [(WORKLOAD, workload.name)];
        for (title, names) in drawn(&subjects) {
            let of = offered::pictures(&format!("{what}{title}"), workload.figures, &at);
            pictures.extend(of.into_iter().map(|picture| picture.of(&names)));
        }
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "A web server in each variant, by load".into(),
        question: "How much of what is offered does a web server answer, and what has its host to do for it, by the way \
            in which it sends? In 001 all variants did the same until the server was full; then sends that waited for \
            the engine had 7 % (4 KB) and 22 % (16 KB) more answered, and sends that nobody waited for 17 % and (with \
            set-up) 30 %; 11 % and 18 % where the server computes a fifth of the answers, 17 % and 27 % where requests \
            come in bursts, 19 % and 26 % of a trace, and nothing for the same file again and again."
            .into(),
        workload: format!(
            "GET by HTTP/1.1 of {}, due at a fixed rate, at most {CONNECTIONS} connections at once: \
             a connection for each request, for all files in turn, in sends of 4 KB and of 16 KB; the same file again and \
             again, in sends of 4 KB; any of the files or, one time in five, as many bytes that the server computes by a \
             random number for each, in sends of 4 KB; {EACH} requests on each connection in {BURSTS} bursts of \
             {BURST}, in sends of 16 KB, where the load is in requests, too; and what an access log (`--log FILE`, or \
             ours) asks for, at its rhythm, as much faster as the load says, in sends of 16 KB. A head leaves with the \
             first send. nginx reads and writes in pieces of 4 KB or 16 KB (sendfile off). It computes nothing here \
             (`dynamic` has it so). As in the source set-up with accept is left out where connections stay. {VARIANTS}",
            words(SIZE)
        ),
        roles: offered::roles(extent),
        axes: vec![
            load_axis,
            Axis::of_words(WORKLOAD, &workloads)
                .without_of(&[NGINX, INTERPOSED], MIXED)
                .without_of(&[SETUP, ALL], IN_BURSTS),
        ],
        claims: offered::as_by_a_nic(
            extent,
            claims(&most, &workloads, &subjects),
            &[(KERNEL, KERNEL_RECEIVED)],
        ),
        subjects,
        measures: offered::measures(),
        pictures,
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
    }
}

/// What 001 says of each workload that is measured, of subjects that are: bursts at the load that is the most.
fn claims(most: &str, workloads: &[&str], subjects: &[String]) -> Vec<Claim> {
    let waits = SYNCHRONOUS_REGISTERED.0;
    let all = [
        (
            FOUR,
            waits,
            "In sends of 4 KB that wait for the engine a full server answers 7 % more",
            "6.9",
            1.07,
        ),
        (
            FOUR,
            REGISTERED.0,
            "In sends of 4 KB that nobody waits for it answers 17 % more",
            "6.9",
            1.17,
        ),
        (
            SIXTEEN,
            SYNCHRONOUS.0,
            "In sends of 16 KB that copy and wait it answers 15 % more",
            "6.14, Sock",
            1.15,
        ),
        (
            SIXTEEN,
            waits,
            "In sends of 16 KB that wait for the engine it answers 22 % more",
            "6.14",
            1.22,
        ),
        (
            SIXTEEN,
            SETUP,
            "In sends of 16 KB that nobody waits for, with set-up, a full server answers 30 % more",
            "6.14",
            1.3,
        ),
        (
            MIXED,
            waits,
            "Where it computes a fifth, by sends that wait, a full server answers 11 % more",
            "6.12",
            1.11,
        ),
        (
            MIXED,
            REGISTERED.0,
            "Where it computes a fifth, by sends that nobody waits for, it answers 18 % more",
            "6.12",
            1.18,
        ),
        (
            IN_BURSTS,
            waits,
            "Of requests in bursts, by sends that wait, a full server answers 17 % more",
            "6.16",
            1.17,
        ),
        (
            IN_BURSTS,
            REGISTERED.0,
            "Of requests in bursts, by sends that nobody waits for, it answers 27 % more",
            "6.16",
            1.27,
        ),
        (
            LOGGED,
            waits,
            "Of a trace, by sends that wait, a full server answers 19 % more",
            "6.18",
            1.19,
        ),
        (
            LOGGED,
            REGISTERED.0,
            "Of a trace, by sends that nobody waits for, it answers 26 % more",
            "6.18",
            1.26,
        ),
    ];
    let gains = all
        .into_iter()
        .map(|(workload, subject, says, figure, gain)| {
            (workload, subject, says, figure, Bound::AtLeast(gain))
        });
    let nothing = "Nothing is gained for the same file again and again";
    let all = gains.chain([(SAME, waits, nothing, "6.11", Bound::AtMost(1.05))]);
    let is_there = |(workload, subject, ..): &(&str, &str, _, _, _)| {
        workloads.contains(workload) && subjects.iter().any(|known| known == subject)
    };
    let claim = |(workload, subject, says, figure, ratio): (&str, &str, &str, &str, Bound)| {
        let mut at = vec![(WORKLOAD, workload)];
        at.extend((workload == IN_BURSTS).then_some((LOAD, most)));
        Claim {
            subject: subject.into(),
            to: KERNEL.into(),
            ..offered::claim(says, figure, &at, ratio)
        }
    };
    all.filter(is_there).map(claim).collect()
}

struct Loads {
    beds: Beds,
    replay: Replay,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let replay = trace::replay(setup.log.as_deref())?;
    let further = |site: &Path| {
        let (path, size) = LOGGED_AT;
        places(site) + &in_pieces(path, &site.join(LOG), size)
    };
    let beds = Beds::new(setup, &[SIZE], &replay.files, World::new, further)?;
    Ok(Box::new(Loads { beds, replay }))
}

impl Bench for Loads {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let name = at.word(WORKLOAD)?;
        let workload = WORKLOADS.iter().find(|workload| workload.name == name);
        let workload = workload.with_context(|| format!("no {name}"))?;
        let (place, bytes) = piece(workload.sends)?;
        let size = SIZE.to_string();
        let mut further = vec!["--piece", &bytes];
        if workload.asks == Asks::Mixed {
            further.extend(["--computed", &size]);
        }
        let (files, place) = match workload.asks {
            Asks::Log => (LOG, LOGGED_AT.0),
            _ => (size.as_str(), place),
        };
        let server = self.beds.start(at.subject, files, place, &further)?;
        let rate = at.number(LOAD)?;
        let asking = match workload.asks {
            Asks::Log => Asking::Each(logged(&self.replay, &server, rate, at)),
            asks => Asking::new(&server.paths(SIZE), asks, rate, at),
        };
        let (outcome, cost) = server.account_closing(|closed| {
            let run = || asking.run(rate, at.window, closed);
            server.bed.on_client(run)
        })?;
        let mut sample = offered::sample(&outcome, &cost);
        if workload.asks == Asks::Log {
            sample.notes.extend(trace::left_out(&self.replay));
        }
        Ok(sample)
    }
}

/// What a log asks for, a connection each.
fn logged(replay: &Replay, server: &Running<'_>, rate: f64, at: &At<'_>) -> Asked {
    let host = Nginx::address();
    trace::asked(replay, rate, at, |name, condition| {
        let path = server.path(name);
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{condition}\r\n")
    })
}

/// Who asks.
enum Asking {
    Each(Asked),
    Bursts(Sessions),
}

impl Asking {
    fn new(paths: &[String], asks: Asks, rate: f64, at: &At<'_>) -> Self {
        if asks == Asks::Bursts {
            return Self::Bursts(Sessions {
                server: Nginx::address(),
                paths: paths.to_vec(),
                bursts: BURSTS,
                burst: BURST,
                rate: rate / EACH as f64,
                connections: CONNECTIONS,
                duration: at.window,
                grace: GRACE,
            });
        }
        let (paths, order) = order(paths, asks, at.seed);
        Self::Each(Running::asked_for(&paths, order, true))
    }

    fn run(&self, rate: f64, window: Duration, closed: &mut Closed<'_>) -> Result<Outcome> {
        match self {
            Self::Each(asked) => offered::load(rate, window).run_closing(asked, closed),
            Self::Bursts(sessions) => sessions.run_closing(closed),
        }
    }
}

/// What is asked for, a connection each, and in which order.
fn order(files: &[String], asks: Asks, seed: u64) -> (Vec<String>, Vec<u16>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = files.len();
    let mut paths = files.to_vec();
    let order: Vec<usize> = match asks {
        // A log has an order of its own.
        Asks::Files | Asks::Bursts | Asks::Log => (0..count).collect(),
        Asks::Same => vec![0],
        Asks::Mixed => {
            paths.push("/computed".into());
            let mut one = || match random.random_bool(SHARE) {
                true => count,
                false => random.random_range(0..count),
            };
            (0..DRAWN * count).map(|_| one()).collect()
        }
    };
    (paths, order.into_iter().map(|index| index as u16).collect())
}

#[cfg(test)]
mod tests {
    use super::{
        ALL, Asks, Extent, IN_BURSTS, MIXED, NGINX, SETUP, WORKLOAD, WORKLOADS, declare, order,
    };

    const FILES: usize = 2_048;

    fn paths() -> Vec<String> {
        (0..FILES).map(|number| format!("/{number}")).collect()
    }

    #[test]
    fn one_request_in_five_is_for_what_is_computed() {
        let (paths, mixed) = order(&paths(), Asks::Mixed, 1);
        assert_eq!(paths[FILES], "/computed");
        let is_computed = |index: &&u16| usize::from(**index) == FILES;
        let computed = mixed.iter().filter(is_computed).count();
        let share = computed as f64 / mixed.len() as f64;
        // Three deviations of 8,192 draws.
        assert!((0.1867..0.2133).contains(&share), "{share}");
        let mut files = mixed.clone();
        files.sort_unstable();
        files.dedup();
        // Of 6,550 draws from 2,048 files, all but e^-3.2 of them, and what is computed.
        assert!((1_930..2_000).contains(&files.len()), "{}", files.len());
    }

    #[test]
    fn files_are_asked_for_in_turn_and_the_same_one_alone() {
        let (_, files) = order(&paths(), Asks::Files, 1);
        assert_eq!(files, (0..FILES as u16).collect::<Vec<u16>>());
        assert_eq!(order(&paths(), Asks::Same, 1).1, [0]);
    }

    #[test]
    fn each_workload_has_its_claims_and_the_subjects_that_can_do_it() {
        let full = declare(Extent::Full);
        assert_eq!(full.axis(WORKLOAD).unwrap().levels.len(), WORKLOADS.len());
        for workload in &WORKLOADS {
            let is_there = |at: &(String, String)| at.1 == workload.name;
            let mut claims = full.claims.iter();
            let has_one = claims.any(|claim| claim.at.iter().any(is_there));
            assert!(has_one, "{}", workload.name);
        }
        let without = |name: &str| {
            let levels = &full.axis(WORKLOAD).unwrap().levels;
            let level = levels.iter().find(|level| level.name == name);
            level.unwrap().without.clone()
        };
        assert!(without(MIXED).contains(&NGINX.to_owned()));
        assert!(
            [SETUP, ALL]
                .iter()
                .all(|name| without(IN_BURSTS).contains(&(*name).to_owned()))
        );
        assert!(!declare(Extent::Quick).claims.is_empty());
    }
}
