//! `outboard respond` with the clients that people use, in namespaces: each way in, beside an
//! engine, and when it is killed.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use lab::flood::SynFlood;
use lab::outboard::Outboard;
use lab::{Process, Program, Side, World, tool};

const STARTING: Duration = Duration::from_secs(60);
/// How long, in seconds, a client may take, and each of its requests.
const CLIENT_SECONDS: &str = "300";
const FETCH_SECONDS: &str = "60";
const PORT: u16 = 8000;

/// A world with a responder on the server's side.
struct Bench {
    responder: Option<Process>,
    world: World,
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_outboard"))
}

/// A responder's command, without what is special.
fn alone(world: &World) -> Program {
    world
        .program(Side::Server, binary())
        .args(["respond", "-i", Side::Server.interface()])
        .args(["-L", &format!(":{PORT}-{}", PORT + 9)])
        .env("OUTBOARD_SOCKET", world.scratch().join("engine.sock"))
        .log(world.scratch().join("respond.log"))
}

/// The same, and the other end of the veth is made to take answers that are made in place.
fn command(world: &World) -> Program {
    let peer = format!("{}/{}", world.name(Side::Client), Side::Client.interface());
    alone(world).args(["--peer", &peer])
}

/// Starts it, and waits until it answers a connection. The client's kernel is kept from connecting
/// from one of the responder's ports (all from 1024 on are its own in a world): that would wait for
/// ever.
fn start(world: &World, program: &Program) -> Process {
    let ports = format!("{PORT}-{}", PORT + 9);
    let reserved = world.sysctl(Side::Client, "net.ipv4.ip_local_reserved_ports", &ports);
    reserved.expect("reserved ports");
    let mut responder = program.start().expect("it starts");
    let address = (Side::Server.ipv4(), PORT).into();
    let answered = responder.wait_until(STARTING, || world.is_reached(address));
    answered.expect("it answers");
    responder
}

impl Bench {
    fn new(arguments: &[&str]) -> Self {
        let world = World::new().expect("a private network");
        let responder = start(&world, &command(&world).args(arguments));
        Self {
            responder: Some(responder),
            world,
        }
    }

    /// Runs a client's program; what it printed.
    fn client(&self, program: &str, arguments: &[&str]) -> String {
        let words = [&["-k", "2", CLIENT_SECONDS, program], arguments].concat();
        let run = self.world.program(Side::Client, "timeout").args(words);
        run.output().expect("the client succeeds")
    }

    fn fetch(&self, target: &str) -> String {
        let url = format!("http://{}:{PORT}{target}", Side::Server.ipv4());
        self.client("curl", &["-s", "--max-time", FETCH_SECONDS, &url])
    }

    /// Stops it; what it printed.
    fn stop(mut self) -> String {
        let responder = self.responder.take().expect("it runs");
        let status = responder.stop(STARTING).expect("it stops");
        assert!(status.success());
        assert!(!has_program(&self.world), "nothing stays behind");
        std::fs::read_to_string(self.world.scratch().join("respond.log")).expect("a log")
    }
}

/// Whether the server's interface has an XDP program.
fn has_program(world: &World) -> bool {
    let name = world.name(Side::Server);
    let shown = tool::run(&format!(
        "ip -n {name} link show {}",
        Side::Server.interface()
    ));
    shown.expect("ip").contains("prog/xdp")
}

fn url(target: &str) -> String {
    format!("http://{}:{PORT}{target}", Side::Server.ipv4())
}

/// The first bytes of the body that is made up.
fn pattern(size: usize) -> String {
    const LINE: &str = ".outboard.123456789.abcdefghijklmnopqrstuvwxyz.ABCDEFGHIJKLMNOP\n";
    LINE.chars().cycle().take(size).collect()
}

/// Fails without printing all of it.
fn is_pattern(body: &str, size: usize, what: &str) {
    assert_eq!(body.len(), size, "{what}");
    assert!(body == pattern(size), "{what}: another body");
}

/// The bodies of all sizes are what they should be, by both families, with and without keep-alive.
fn bodies_are_whole(bench: &Bench, sizes: &[usize]) {
    for size in sizes {
        for target in [
            format!("/?s={size}"),
            format!("/{size}?C=1"),
            format!("/?s={size}&k=1"),
        ] {
            is_pattern(&bench.fetch(&target), *size, &target);
        }
        // A second response is within what the client's window is then.
        if *size > 20_000 {
            continue;
        }
        let url = format!("http://[{}]:{PORT}/?s={size}", Side::Server.ipv6());
        let body = bench.client("curl", &["-sg", "--max-time", FETCH_SECONDS, &url, &url]);
        is_pattern(&body[..*size], *size, &url);
        is_pattern(&body[*size..], *size, &url);
    }
}

/// The clients that people measure with find no error.
fn load_tools_are_content(bench: &Bench) {
    let wrk = ["-t1", "-c16", "-d1s", "--timeout", FETCH_SECONDS];
    let said = bench.client("wrk", &[&wrk[..], &[&url("/?s=64")]].concat());
    assert!(
        said.contains("requests in") && !said.contains("Socket errors"),
        "{said}"
    );
    assert!(!said.contains("Non-2xx"), "{said}");
    let close = ["-H", "Connection: close", &url("/")];
    let said = bench.client("wrk", &[&wrk[..], &close].concat());
    assert!(!said.contains("Socket errors: connect"), "{said}");
    let target = url("/?s=100");
    for keep in [&["-k"][..], &[]] {
        let limit = ["-s", FETCH_SECONDS];
        let arguments = [keep, &limit, &["-q", "-c", "8", "-n", "2000", &target]].concat();
        let said = bench.client("ab", &arguments);
        assert!(said.contains("Failed requests:        0"), "{said}");
        assert!(said.contains("Complete requests:      2000"), "{said}");
    }
    let said = bench.client("h2load", &["--h1", "-c8", "-n2000", &url("/?s=100")]);
    assert!(said.contains("2000 succeeded, 0 failed"), "{said}");
    let server = Side::Server.ipv4().to_string();
    let arguments = ["--server", &server, "--port", "8000", "--uri", "/?s=10"];
    let calls = ["--num-conns", "100", "--num-calls", "5"];
    let said = bench.client("httperf", &[&arguments[..], &calls].concat());
    assert!(
        said.contains("2xx=500") && said.contains("Errors: total 0"),
        "{said}"
    );
}

const TOOLS: &[&str] = &["curl", "wrk", "ab", "h2load", "httperf"];

#[test]
fn in_place() {
    if lab::skip_without("in_place", TOOLS) {
        return;
    }
    let bench = Bench::new(&["--json"]);
    // From some size on there is no room in a veth's frames, and answers take the detour.
    bodies_are_whole(&bench, &[0, 1, 63, 64, 65, 200, 300, 1000, 1100]);
    assert!(bench.fetch("/?").contains("C  1: close"));
    load_tools_are_content(&bench);
    let log = bench.stop();
    let last = log
        .lines()
        .rfind(|line| line.starts_with('{'))
        .expect("JSON");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    let counters = &last["counters"];
    let count = |name: &str| counters[name].as_u64().expect("a count");
    assert!(
        count("requests") > 4000 && count("detours") > 0,
        "{counters}"
    );
    assert_eq!(
        count("dropped_checksum") + count("dropped_no_room"),
        0,
        "{counters}"
    );
}

#[test]
fn by_af_xdp_in_several_segments() {
    if lab::skip_without("by_af_xdp_in_several_segments", TOOLS) {
        return;
    }
    let bench = Bench::new(&["--mode", "afxdp"]);
    bodies_are_whole(&bench, &[0, 64, 1100, 1500, 10_000, 50_000]);
    load_tools_are_content(&bench);
    bench.stop();
}

#[test]
fn by_a_netfilter_queue() {
    if lab::skip_without("by_a_netfilter_queue", &["curl", "iptables-legacy"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let arguments = ["--mode", "nfqueue", "--queue", "7"];
    let refused = command(&world).args(arguments).output();
    let said = refused.expect_err("no rule is there").to_string();
    assert!(said.contains("-j NFQUEUE --queue-num 7"), "{said}");
    for tool in ["iptables-legacy", "ip6tables-legacy"] {
        let rule = "-t raw -A PREROUTING -p tcp --dport 8000:8009 -j NFQUEUE --queue-num 7";
        let added = world
            .program(Side::Server, tool)
            .args(rule.split(' '))
            .output();
        added.expect("a rule");
    }
    let responder = start(&world, &command(&world).args(arguments));
    let bench = Bench {
        responder: Some(responder),
        world,
    };
    bodies_are_whole(&bench, &[0, 64, 1100, 10_000]);
    bench.stop();
}

#[test]
fn on_the_loopback_by_the_generic_hook() {
    if lab::skip_without("on_the_loopback_by_the_generic_hook", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = world
        .program(Side::Server, binary())
        .args(["respond", "-q", "-i", "lo", "-L", "127.0.0.1:8000"])
        .log(world.scratch().join("lo.log"));
    let mut responder = program.start().expect("it starts");
    let fetch = |target: &str| {
        let url = format!("http://127.0.0.1:8000{target}");
        let curl = world.program(Side::Server, "curl");
        curl.args(["-s", "--max-time", FETCH_SECONDS, &url])
            .output()
    };
    let ready = responder.wait_until(STARTING, || fetch("/?s=10").is_ok());
    ready.expect("it answers");
    for size in [0, 1, 64, 100] {
        assert_eq!(fetch(&format!("/?s={size}")).expect("curl"), pattern(size));
    }
    responder.stop(STARTING).expect("it stops");
}

/// What a responder with `--json` counted when it last said so; nothing before it did.
fn counted(world: &World, names: &[&str]) -> Option<Vec<u64>> {
    let log = std::fs::read_to_string(world.scratch().join("respond.log")).expect("a log");
    // The line that is being written is not one yet.
    let (whole, _) = log.rsplit_once('\n')?;
    let last = whole.lines().rfind(|line| line.starts_with('{'))?;
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    let count = |name: &&str| last["counters"][*name].as_u64().expect("a count");
    Some(names.iter().map(count).collect())
}

#[test]
fn a_flood_of_syns_is_answered_one_for_one() {
    const SYNS: u32 = 100_000;
    if lab::skip_without("a_flood_of_syns_is_answered_one_for_one", &[]) {
        return;
    }
    let mut bench = Bench::new(&["--json"]);
    let count = || {
        tool::run(&format!(
            "ip -n {} -s -j link show dev client0",
            bench.world.name(Side::Client)
        ))
    };
    // What the interface had no room for never left.
    let lost = || -> u64 {
        let shown: serde_json::Value = serde_json::from_str(&count().expect("ip")).expect("JSON");
        shown[0]["stats64"]["tx"]["dropped"]
            .as_u64()
            .expect("a count")
    };
    let before = lost();
    let target = (Side::Server.ipv4(), PORT).into();
    let flood = SynFlood::send(&bench.world, target, SYNS).expect("a flood");
    assert_eq!(flood.sent, u64::from(SYNS));
    let arrived = flood.sent - (lost() - before);
    assert!(arrived > 0, "nothing arrived");
    let mut responder = bench.responder.take().expect("it runs");
    let names = [
        "syns",
        "fins",
        "probes",
        "frames_out",
        "dropped_malformed",
        "dropped_loop",
        "dropped_no_room",
    ];
    let all = || {
        let counts = counted(&bench.world, &names);
        counts.is_some_and(|counts| {
            let [syns, fins, probes, frames_out] = [0, 1, 2, 3].map(|at| counts[at]);
            syns >= arrived && frames_out == syns + fins + probes
        })
    };
    let answered = responder.wait_until(STARTING, all);
    answered.expect("all arrive and are answered");
    bench.responder = Some(responder);
    let counts = counted(&bench.world, &names).expect("counters");
    // The connections that showed that it answers had SYNs as well, and no more than a few.
    let own = counts[0] - arrived;
    assert!((1..100).contains(&own), "{counts:?} for {arrived}");
    assert_eq!(counts[4..], [0, 0, 0]);
    bench.stop();
}

#[test]
fn in_the_generic_hook() {
    if lab::skip_without("in_the_generic_hook", &["curl"]) {
        return;
    }
    let bench = Bench::new(&["--xdp", "generic"]);
    bodies_are_whole(&bench, &[0, 1, 64, 100, 1100]);
    let log = bench.stop();
    assert!(log.contains("in place (XDP, generic)"), "{log}");
}

#[test]
fn objects_come_from_a_directory_and_must_fit() {
    if lab::skip_without("objects_come_from_a_directory_and_must_fit", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let directory = world.scratch().join("objects");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::write(directory.join("health"), "fine\n").expect("a file");
    std::fs::write(directory.join("old.redirect"), "http://new.example/\n").expect("a file");
    let objects = directory.to_str().expect("a path").to_owned();
    let responder = start(&world, &command(&world).args(["--objects", &objects]));
    let bench = Bench {
        responder: Some(responder),
        world,
    };
    assert_eq!(bench.fetch("/health"), "fine\n");
    let head = bench.client("curl", &["-sI", "--max-time", FETCH_SECONDS, &url("/old")]);
    assert!(head.starts_with("HTTP/1.1 302") && head.contains("Location: http://new.example/"));
    std::fs::write(directory.join("large"), [0; 1400]).expect("a file");
    let refused = alone(&bench.world).args(["--objects", &objects]).output();
    let said = refused.expect_err("too large").to_string();
    assert!(
        said.contains("large") && said.contains("1400 bytes"),
        "{said}"
    );
    bench.stop();
}

#[test]
fn a_port_that_somebody_has_is_refused_with_the_name() {
    if lab::skip_without(
        "a_port_that_somebody_has_is_refused_with_the_name",
        &["nginx"],
    ) {
        return;
    }
    let world = World::new().expect("a private network");
    let _listener = world
        .on(Side::Server, || {
            Ok(std::net::TcpListener::bind("0.0.0.0:8003")?)
        })
        .expect("a listener");
    let said = command(&world).output().expect_err("taken").to_string();
    let own = format!("process {}", std::process::id());
    assert!(
        said.contains("port 8003 is taken") && said.contains(&own),
        "{said}"
    );
}

#[test]
fn nothing_stays_behind_when_it_is_killed() {
    if lab::skip_without("nothing_stays_behind_when_it_is_killed", &["curl"]) {
        return;
    }
    let mut bench = Bench::new(&[]);
    assert!(has_program(&bench.world));
    let responder = bench.responder.take().expect("it runs");
    responder.kill().expect("killed");
    assert!(!has_program(&bench.world), "the link went with its owner");
    // Another can start at once.
    bench.responder = Some(start(&bench.world, &command(&bench.world)));
    bench.stop();
}

/// A server of the engine's on another port, and the responder: both are reached.
fn both_are_reached(bench: &Bench) {
    assert_eq!(bench.fetch("/?s=64"), pattern(64));
    let url = format!("http://{}:7000/file", Side::Server.ipv4());
    let file = bench.client("curl", &["-s", "--max-time", FETCH_SECONDS, &url]);
    assert_eq!(file, "a file\n");
}

#[test]
fn an_engine_calls_the_responder_while_it_lives() {
    if lab::skip_without("an_engine_calls_the_responder_while_it_lives", &["curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(binary(), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let site = world.scratch().join("site");
    std::fs::create_dir(&site).expect("a directory");
    std::fs::write(site.join("file"), "a file\n").expect("a file");
    // The engine's socket is told by the environment, as to every command.
    let responder = start(&world, &command(&world));
    let address = (Side::Server.ipv4(), 7000).into();
    let server = outboard.start_serve(&world, &site, address);
    let _server = server.expect("a server");
    let mut bench = Bench {
        responder: Some(responder),
        world,
    };
    both_are_reached(&bench);
    // A second is refused, and says why.
    let second = alone(&bench.world).args(["-L", ":9000"]).output();
    assert!(
        second
            .expect_err("refused")
            .to_string()
            .contains("another responder")
    );

    // Killed, it leaves the ports to the kernel, which refuses; the engine goes on.
    let responder = bench.responder.take().expect("it runs");
    responder.kill().expect("killed");
    let refused = || {
        let address = (Side::Server.ipv4(), PORT).into();
        let connect = || Ok(TcpStream::connect_timeout(&address, STARTING).map(drop));
        let outcome = bench.world.on(Side::Client, connect).expect("a client");
        outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let started = std::time::Instant::now();
    while !refused() {
        assert!(started.elapsed() < STARTING, "the ports stay steered");
    }
    bench.responder = Some(start(&bench.world, &command(&bench.world)));
    both_are_reached(&bench);
}

#[test]
fn an_engine_that_comes_later_is_told_who_is_there() {
    if lab::skip_without("an_engine_that_comes_later_is_told_who_is_there", &["curl"]) {
        return;
    }
    let bench = Bench::new(&[]);
    let outboard = Outboard::new(binary(), &bench.world);
    let engine = outboard.command(&bench.world, "engine");
    let refused = engine.args(["-i", Side::Server.interface()]).output();
    let said = refused.expect_err("refused").to_string();
    let pid = bench.responder.as_ref().expect("it runs").id();
    assert!(said.contains("already has an XDP program"), "{said}");
    assert!(
        said.contains(&format!("outboard (process {pid})")),
        "{said}"
    );
    bench.stop();
}

#[test]
fn an_address_that_is_not_there_is_refused_with_those_that_are() {
    let test = "an_address_that_is_not_there_is_refused_with_those_that_are";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = world
        .program(Side::Server, binary())
        .args([
            "respond",
            "-i",
            Side::Server.interface(),
            "-L",
            "10.1.2.3:80",
        ])
        .log(world.scratch().join("respond.log"));
    let said = program.output().expect_err("it is not there").to_string();
    for part in ["10.1.2.3 is no address of", "10.77.0.1", "ip addr add"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_client_whose_kernel_takes_no_answers_is_noticed() {
    let test = "a_client_whose_kernel_takes_no_answers_is_noticed";
    if lab::skip_without(test, &["nft"]) {
        return;
    }
    let bench = Bench::new(&[]);
    // What is answered does not arrive, from a new responder's point of view.
    let Bench { responder, world } = bench;
    responder.expect("it runs").kill().expect("killed");
    let nft = |rule: &str| {
        let nft = world.program(Side::Client, "nft").args(rule.split(' '));
        nft.output().expect("nft");
    };
    nft("add table inet deaf");
    nft("add chain inet deaf in { type filter hook input priority 0 ; }");
    nft("add rule inet deaf in tcp sport 8000-8009 drop");
    let mut responder = command(&world).start().expect("it starts");
    let connecting = world
        .on(Side::Client, || {
            let address = (Side::Server.ipv4(), PORT);
            Ok(std::thread::spawn(move || {
                // The kernel repeats its SYN after 1, 2 and 4 seconds.
                let _ = TcpStream::connect_timeout(&address.into(), Duration::from_secs(20));
            }))
        })
        .expect("a client");
    let warned = || {
        let log = std::fs::read_to_string(world.scratch().join("respond.log")).unwrap_or_default();
        log.contains("nobody went on") && log.contains("--peer")
    };
    responder.wait_until(STARTING, warned).expect("a warning");
    responder.stop(STARTING).expect("it stops");
    drop(connecting);
}
