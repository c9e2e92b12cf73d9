//! `outboard respond` over a wire that loses one segment in twenty, in either direction: bodies of
//! several segments arrive as those of one do, or the mode says that it has none.
#![forbid(unsafe_code)]

use lab::faults::{Faults, FaultyWire};
use lab::{Process, Side, World};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// How long, in seconds, a fetch may take: it ends a hang.
const FETCH_SECONDS: &str = "60";
const PORT: u16 = 8000;
/// How often each size is fetched.
const FETCHES: usize = 20;

const LOSS: Faults = Faults {
    loss: 0.05,
    ..Faults::NONE
};

/// A responder behind a wire that loses.
struct Bench {
    responder: Process,
    wire: FaultyWire,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Bench {
    fn new(world: World, arguments: &[&str]) -> Self {
        // It does not answer a client that comes from a port of its own.
        let reserved = world.sysctl(
            Side::Client,
            "net.ipv4.ip_local_reserved_ports",
            &PORT.to_string(),
        );
        reserved.expect("reserved ports");
        let wire = FaultyWire::start(&world, LOSS, 7).expect("a wire");
        let mut responder = world
            .program(Side::Server, Path::new(env!("CARGO_BIN_EXE_outboard")))
            .args(["respond", "--json", "-i", Side::Server.interface()])
            .args(["-p", &PORT.to_string()])
            .args(arguments)
            .env("OUTBOARD_SOCKET", world.scratch().join("engine.sock"))
            .log(world.scratch().join("respond.log"))
            .start()
            .expect("it starts");
        let address = (Side::Server.ipv4(), PORT).into();
        let answered = responder.wait_until(LIMIT, || world.is_reached(address));
        answered.unwrap_or_else(|error| panic!("{error}: {}", responder.printed()));
        Self {
            responder,
            wire,
            world,
        }
    }

    /// A body, and the status that came with it; neither where the fetch failed.
    fn fetch(&self, target: &str) -> Option<(String, String)> {
        let url = format!("http://{}:{PORT}{target}", Side::Server.ipv4());
        let said = self
            .world
            .program(Side::Client, "curl")
            .args(["-s", "--max-time", FETCH_SECONDS, "-w", "\n%{http_code}"])
            .arg(&url)
            .output()
            .ok()?;
        let (body, status) = said.rsplit_once('\n')?;
        Some((body.to_owned(), status.to_owned()))
    }

    /// Fetches 1 kB and 50 kB in turns, with and without keep-alive; how often each came whole, up to
    /// the first that did not.
    fn succeeded(&self) -> [usize; 2] {
        let mut succeeded = [0; 2];
        for number in 0..FETCHES {
            for (index, size) in [1_000, 50_000].into_iter().enumerate() {
                let target = format!("/?s={size}&C={}", number % 2);
                match self.fetch(&target) {
                    Some((body, _)) if body == pattern(size) => succeeded[index] += 1,
                    other => {
                        eprintln!("{target}: {:?} bytes", other.map(|(body, _)| body.len()));
                        return succeeded;
                    }
                }
            }
        }
        succeeded
    }

    /// Stops it; what it printed at its start, and a counter.
    fn stop(self, counter: &str) -> (String, u64) {
        self.responder.stop(LIMIT).expect("it stops");
        let report = self.wire.stop().expect("a report");
        assert!(report.there.lost > 0 && report.back.lost > 0, "{report}");
        let log = std::fs::read_to_string(self.world.scratch().join("respond.log"));
        let log = log.expect("a log");
        let last = log.lines().rfind(|line| line.starts_with('{'));
        let last: serde_json::Value = serde_json::from_str(last.expect("JSON")).expect("JSON");
        let began = log.lines().find(|line| line.starts_with("answering on"));
        let began = began.expect("it says how it runs").to_owned();
        (began, last["counters"][counter].as_u64().expect("a count"))
    }
}

/// The first bytes of the body that is made up.
fn pattern(size: usize) -> String {
    const LINE: &str = ".outboard.123456789.abcdefghijklmnopqrstuvwxyz.ABCDEFGHIJKLMNOP\n";
    LINE.chars().cycle().take(size).collect()
}

#[test]
fn bodies_of_several_segments_arrive_as_those_of_one_do() {
    let test = "bodies_of_several_segments_arrive_as_those_of_one_do";
    if lab::skip_without(test, &["curl"]) {
        return;
    }
    let world = World::with_middle().expect("a private network");
    let bench = Bench::new(world, &["--mode", "afxdp"]);
    assert_eq!(bench.succeeded(), [FETCHES; 2]);
    let (began, repairs) = bench.stop("repairs");
    // Of 720 segments one in twenty is lost: if none was sent again, something else saved them.
    assert!(repairs > 0, "{repairs}");
    let limits =
        "bodies of at most 59700 bytes, of which lost segments are sent again for the last 4096";
    assert!(began.contains(limits), "{began}");
}

#[test]
fn also_by_a_netfilter_queue() {
    if lab::skip_without("also_by_a_netfilter_queue", &["curl", "iptables-legacy"]) {
        return;
    }
    let world = World::with_middle().expect("a private network");
    let rule = format!("-t raw -A PREROUTING -p tcp --dport {PORT} -j NFQUEUE --queue-num 80");
    let added = world
        .program(Side::Server, "iptables-legacy")
        .args(rule.split(' '))
        .output();
    added.expect("a rule");
    let bench = Bench::new(world, &["--mode", "nfqueue"]);
    assert_eq!(bench.succeeded(), [FETCHES; 2]);
    let (began, repairs) = bench.stop("repairs");
    assert!(repairs > 0, "{repairs}");
    assert!(began.contains("bodies of at most 59700 bytes"), "{began}");
}

#[test]
fn in_place_there_are_none_and_this_is_said() {
    if lab::skip_without("in_place_there_are_none_and_this_is_said", &["curl"]) {
        return;
    }
    let world = World::with_middle().expect("a private network");
    let middle = world.middle().expect("a middle");
    let peer = format!("{middle}/{}", lab::world::MIDDLE_INTERFACES[0]);
    let bench = Bench::new(world, &["--peer", &peer]);
    for number in 0..FETCHES {
        let target = format!("/?s=1000&C={}", number % 2);
        let (body, _) = bench.fetch(&target).expect("an answer");
        assert!(body == pattern(1000), "{target}: {} bytes", body.len());
    }
    let (body, status) = bench.fetch("/?s=50000").expect("an answer");
    assert_eq!(status, "501");
    assert!(body.contains("--mode afxdp takes 59700"), "{body}");
    let (began, _) = bench.stop("repairs");
    let limits = "bodies of at most 1140 bytes (--mode afxdp takes 59700)";
    assert!(began.contains(limits), "{began}");
}
