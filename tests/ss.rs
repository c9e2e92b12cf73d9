//! `outboard ss` beside ss(8): the same connections, of the same program, are on the kernel and then on the
//! engine, and both are asked the same.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Process, Program, Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// Each connection by the client's port, and its state at the server.
const STATES: [(u16, &str); 15] = [
    (40001, "ESTAB"),
    (40002, "ESTAB"),
    (40003, "CLOSE-WAIT"),
    (40004, "FIN-WAIT-2"),
    (40005, "TIME-WAIT"),
    (40006, "ESTAB"),
    (40007, "ESTAB"),
    (40008, "ESTAB"),
    (40009, "ESTAB"),
    (40010, "ESTAB"),
    (40011, "SYN-RECV"),
    (40012, "LAST-ACK"),
    (40013, "FIN-WAIT-1"),
    (40014, "ESTAB"),
    (40016, "ESTAB"),
];

/// What both are asked. Not among it: "or" before "and" without parentheses, which ss(8) says binds less, and
/// which its program (iproute2 6.1) reads from left to right.
const QUESTIONS: &[&str] = &[
    "-a",
    "",
    "-l",
    "-4",
    "-6",
    "-a4",
    "-a6",
    "-l -f inet6",
    "-t -a",
    "state established",
    "state connected",
    "state synchronized",
    "state bucket",
    "state big",
    "state all",
    "state listening",
    "state time-wait",
    "state fin-wait-1",
    "state fin-wait-2",
    "state close-wait state last-ack",
    "state syn-recv",
    "exclude established",
    "-a exclude listening exclude time-wait",
    "-a sport = :80",
    "-a sport != :80",
    "-a sport eq :80",
    "-a sport gt :443",
    "-a sport ge :443",
    "-a sport lt :443",
    "-a sport le :443",
    "-a sport = 80",
    "-a sport :80",
    "sport = :80",
    "dport = :40006",
    "dport > :40006",
    "dst 10.77.0.2",
    "dst 10.77.0.0/24",
    "dst 10.77.0.2:40001",
    "dst = 10.77.0.2:40001",
    "src 10.77.0.1",
    "-a src 10.77.0.1:443",
    "-a src [fd77::1]",
    "-a src fd77::/16",
    "dst [fd77::2]:40006",
    "-a src *:443",
    "-a src :443",
    "state established sport = :80",
    "-a ( sport = :80 or sport = :81 )",
    "-a sport = :80 and dport = :40001 or sport = :443",
    "-a ( sport = :80 or sport = :443 ) and dport = :40007",
    "-a not sport = :80",
    "-a ! ( sport = :80 or dst 10.77.0.2 )",
    "-a sport = :http",
];

/// The connections, and who is asked about them.
struct Scene {
    world: World,
    /// The engine, if there is one, the server and the client.
    _running: Vec<Process>,
    outboard: Option<Outboard>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sockets/scene.py")
}

impl Scene {
    fn new(on_engine: bool) -> Self {
        let world = World::new().expect("a private network");
        let mut running = Vec::new();
        let outboard = on_engine.then(|| Outboard::new(Path::new(BINARY), &world));
        if let Some(outboard) = &outboard {
            running.push(outboard.start_engine(&world, None).expect("an engine"));
        }
        let start = |side: Side, program: Program, said: &str| {
            let log = world.scratch().join(said);
            let program = program.arg(script()).arg(if side == Side::Server {
                "server"
            } else {
                "client"
            });
            let program = program.arg(Side::Server.ipv4().to_string());
            let program = program.arg(Side::Server.ipv6().to_string()).log(&log);
            let mut process = program.start().expect("it starts");
            let is_said = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(said));
            process
                .wait_until(LIMIT, is_said)
                .unwrap_or_else(|error| panic!("{error:#}"));
            process
        };
        let server = match &outboard {
            Some(outboard) => outboard.on_engine(&world, "python3"),
            None => world.program(Side::Server, "python3"),
        };
        running.push(start(Side::Server, server, "listens"));
        running.push(start(
            Side::Client,
            world.program(Side::Client, "python3"),
            "ready",
        ));
        Self {
            world,
            _running: running,
            outboard,
        }
    }

    /// What is said, without a heading, each line by itself.
    fn ask(&self, question: &str) -> Vec<String> {
        let program = match &self.outboard {
            Some(outboard) => outboard.command(&self.world, "ss"),
            None => self.world.program(Side::Server, "ss").arg("-tn"),
        };
        let program = program.arg("-HO").args(question.split_whitespace());
        let said = program
            .output()
            .unwrap_or_else(|error| format!("{error:#}"));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines: Vec<String> = said.lines().map(words).collect();
        lines.sort();
        lines
    }

    /// Waits until each connection is in its state.
    fn await_states(&self) {
        let started = Instant::now();
        loop {
            let lines = self.ask("state all");
            let has = |(port, state): &(u16, &str)| {
                let end = format!(":{port}");
                lines.iter().any(|line| {
                    line.starts_with(state)
                        && line
                            .split(' ')
                            .nth(4)
                            .is_some_and(|peer| peer.ends_with(&end))
                })
            };
            let missing: Vec<_> = STATES.iter().filter(|state| !has(state)).collect();
            if missing.is_empty() {
                return;
            }
            assert!(
                started.elapsed() < LIMIT,
                "missing {missing:?} of {lines:#?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn the_same_is_shown_of_the_same_sockets() {
    let test = "the_same_is_shown_of_the_same_sockets";
    if lab::skip_without(test, &["ss", "python3", "iptables-legacy"]) {
        return;
    }
    if lab::built_beside(test, BINARY).is_none() {
        return;
    }
    let (kernel, engine) = (Scene::new(false), Scene::new(true));
    kernel.await_states();
    engine.await_states();
    let mut wrong = Vec::new();
    for question in QUESTIONS {
        let of_kernel: BTreeSet<String> = kernel
            .ask(question)
            .iter()
            .map(|line| plain(line))
            .collect();
        let of_engine: BTreeSet<String> = engine.ask(question).into_iter().collect();
        let is_of_one_family = question.contains('4') || question.contains('6');
        let differs = |line: &&String| !(is_of_one_family && line.contains(MAPPED));
        let [only_kernel, only_engine] = [(&of_kernel, &of_engine), (&of_engine, &of_kernel)]
            .map(|(one, other)| one.difference(other).filter(differs).collect::<Vec<_>>());
        if !only_kernel.is_empty() || !only_engine.is_empty() {
            wrong.push(format!(
                "{question:?}: only the kernel's has {only_kernel:#?}, and only the engine's {only_engine:#?}"
            ));
        }
        assert!(
            !of_kernel.is_empty(),
            "{question:?} asks for nothing that there is"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The connection over IPv4 to a socket of both families. Both agree on which it is; but it counts as IPv6 for
/// ss(8), and as what it is for the engine.
const MAPPED: &str = "10.77.0.1:443 ";

/// A line of ss(8), with addresses of IPv4 written as such.
fn plain(line: &str) -> String {
    let words = line
        .split(' ')
        .map(|word| match word.strip_prefix("[::ffff:") {
            Some(rest) => rest.replacen(']', "", 1),
            None => word.to_owned(),
        });
    words.collect::<Vec<_>>().join(" ")
}

/// A row with more columns, by the client's port: what stands behind the addresses.
fn behind(lines: &[String]) -> BTreeMap<u16, Vec<String>> {
    let of_connection = |line: &String| {
        let mut words = line.split(' ').map(str::to_owned).skip(4);
        let peer = words.next()?;
        let port = peer.rsplit(':').next()?.parse().ok()?;
        Some((port, words.collect()))
    };
    lines.iter().filter_map(of_connection).collect()
}

/// The name of a value such as `rto:204`; of `timer:(on,1sec,0)` with what it is for, of `users` with whose.
fn name(word: &str) -> String {
    let name = word.split_once(':').map_or(word, |(name, _)| name);
    match (
        name,
        word.split(['(', ',', ')']).collect::<Vec<_>>().as_slice(),
    ) {
        ("timer", [_, what, ..]) => format!("timer:{what}"),
        ("users", [_, _, program, ..]) => format!("users:{program}"),
        // Letters before numbers.
        ("skmem", _) => word.replace(|c: char| c.is_ascii_digit(), ""),
        _ => name.to_owned(),
    }
}

#[test]
fn its_columns_are_those_of_ss() {
    let test = "its_columns_are_those_of_ss";
    if lab::skip_without(test, &["ss", "python3", "iptables-legacy"]) {
        return;
    }
    if lab::built_beside(test, BINARY).is_none() {
        return;
    }
    let (kernel, engine) = (Scene::new(false), Scene::new(true));
    kernel.await_states();
    engine.await_states();
    for option in ["-ao", "-ap", "-am"] {
        let said = [&kernel, &engine].map(|scene| behind(&scene.ask(option)));
        let said = said.map(|rows| {
            let named = |words: Vec<String>| words.iter().map(|word| name(word)).collect();
            let rows = rows.into_iter().map(|(port, words)| (port, named(words)));
            rows.collect::<BTreeMap<u16, BTreeSet<String>>>()
        });
        assert_eq!(
            said[0], said[1],
            "{option}: of the kernel, and of the engine"
        );
        assert!(said[0].values().any(|names| !names.is_empty()), "{option}");
    }
    let said = [&kernel, &engine].map(|scene| behind(&scene.ask("-ai")));
    // Of those that wait for nothing.
    for port in [40001, 40002, 40006] {
        let [of_kernel, of_engine] = [&said[0][&port], &said[1][&port]];
        let names = |words: &[String]| -> BTreeSet<String> {
            let is_name = |word: &&String| word.starts_with(|c: char| c.is_ascii_lowercase());
            words
                .iter()
                .filter(is_name)
                .map(|word| name(word))
                .collect()
        };
        let (wanted, there) = (names(of_kernel), names(of_engine));
        let ours = |name: &&String| !ONLY_KERNEL.contains(&name.as_str()) && !there.contains(*name);
        let missing: Vec<_> = wanted.iter().filter(ours).collect();
        assert!(
            missing.is_empty(),
            "{port}: {missing:?} of {of_kernel:?} in {of_engine:?}"
        );
        for value in ["mss", "pmtu", "rcvmss", "bytes_received", "data_segs_in"] {
            let of = |words: &[String]| {
                let start = format!("{value}:");
                words.iter().find(|word| word.starts_with(&start)).cloned()
            };
            assert!(of(of_kernel).is_some(), "{value}");
            assert_eq!(of(of_kernel), of(of_engine), "{port}");
        }
    }
}

/// What only the kernel knows of its connections, or what is called after an algorithm of congestion control.
const ONLY_KERNEL: [&str; 10] = [
    "ato",
    "app_limited",
    "bbr",
    "busy",
    "cubic",
    "delivered",
    "lastack",
    // BBR always has one, and the test machine may have that.
    "pacing_rate",
    "rcv_space",
    "rcv_ssthresh",
];
