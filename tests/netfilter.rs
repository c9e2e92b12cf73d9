//! Netfilter does not see what is steered. The engine follows the rules of nf_tables, as they change, and
//! leaves to the kernel what only that can decide; it does not start in silence where the older tables
//! have rules, and names them.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root, tool};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Refusing takes a moment, and more only where it hangs.
const LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    world: World,
    outboard: Outboard,
}

impl Bench {
    fn new() -> Self {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        Self { world, outboard }
    }

    /// Runs a tool on the server's side; whether it succeeded.
    fn rules(&self, line: &str) -> Result<(), String> {
        let mut words = line.split(' ');
        let program = tool::find(words.next().unwrap()).ok_or("it is not installed")?;
        let program = self.world.program(Side::Server, program).args(words);
        program.output().map(drop).map_err(|e| format!("{e:#}"))
    }

    /// What an engine says that does not start.
    fn refusal(&self) -> String {
        let mut engine = self
            .outboard
            .command(&self.world, "engine")
            .args(["-i", Side::Server.interface()])
            .log(self.world.scratch().join("refused.log"))
            .start()
            .unwrap();
        let status = engine.wait(LIMIT).expect("it does not start");
        assert!(!status.success());
        engine.printed()
    }

    #[track_caller]
    fn refuses(&self, parts: &[&str]) {
        let said = self.refusal();
        for part in parts.iter().chain(&["--ignore-netfilter"]) {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
        assert!(said.trim().lines().count() == 1, "one line: {said}");
    }

    #[track_caller]
    fn starts(&self) {
        let engine = self.outboard.start_engine(&self.world, None);
        engine.expect("it starts").stop(LIMIT).expect("it stops");
    }
}

/// Says aloud that a kind of rules could not be tried.
fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED ({}): {test}\n", why.replace('\n', " "));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn rules_of_nftables_are_followed() {
    let test = "rules_of_nftables_are_followed";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    // An ordinary firewall: what is not said to be open is closed.
    let stranger = Ipv4Addr::new(10, 99, 99, 99);
    for line in [
        "nft add chain inet guard arriving { type filter hook input priority 0 ; policy drop ; }",
        "nft add rule inet guard arriving ct state established accept",
        "nft add rule inet guard arriving meta l4proto != tcp accept",
        "nft add rule inet guard arriving ip saddr 10.99.0.0/16 drop",
        "nft add rule inet guard arriving tcp dport 8080 accept",
    ] {
        bench.rules(line).unwrap();
    }
    let client = |line: &str| {
        let ip = bench.world.program(Side::Client, "ip");
        ip.args(line.split(' ')).output().unwrap();
    };
    client(&format!(
        "addr add {stranger}/32 dev {}",
        Side::Client.interface()
    ));
    let back = format!("ip route add {stranger} via {}", Side::Client.ipv4());
    bench.rules(&back).unwrap();
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let site = bench.world.scratch();
    let server = bench.outboard.start_serve(&bench.world, site, address);
    let server = server.expect("an open port");

    // Whom the rules accept the engine serves, and nobody else.
    let connect = || {
        let connected = || Ok(TcpStream::connect_timeout(&address, LIMIT)?);
        bench.world.on(Side::Client, connected).expect("served")
    };
    let ours = || {
        let rows = bench.outboard.sockets().expect("sockets");
        let open = |row: &&serde_json::Value| row["state"] == "ESTABLISHED";
        rows.iter().filter(open).count()
    };
    let _first = connect();
    assert_eq!(ours(), 1);
    let denied = || {
        let stats = bench.outboard.stats().unwrap();
        let denied = |c: &&lab::outboard::Counter| c.name == "dropped" && c.labels == ["denied"];
        stats.iter().find(denied).map_or(0.0, |c| c.value)
    };
    assert_eq!(denied(), 0.0);
    let python = bench.world.program(Side::Client, "python3");
    let script = format!(
        "import socket\ns = socket.socket()\ns.bind(('{stranger}', 0))\ns.settimeout(1)\n\
         try:\n s.connect(('{}', 8080))\nexcept TimeoutError:\n print('dropped')",
        Side::Server.ipv4()
    );
    assert_eq!(
        python.args(["-c", &script]).output().unwrap().trim(),
        "dropped"
    );
    assert!(denied() >= 1.0);

    // What only the kernel can decide is left to it, and it is said so; what is there goes on.
    let explained = || {
        let pid = server.id().to_string();
        let explain = bench.outboard.command(&bench.world, "explain");
        explain.arg(pid).output().unwrap()
    };
    assert!(!explained().contains("netfilter") && !explained().contains("left to the kernel"));
    let rate = "nft insert rule inet guard arriving tcp dport 8080 limit rate 9/second accept";
    bench.rules(rate).unwrap();
    let until = |engine: &mut lab::Process, word: &str, there: bool| {
        let waited = engine.wait_until(LIMIT, || explained().contains(word) == there);
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", explained()));
    };
    until(
        &mut engine,
        "new connections are left to the kernel: rule ",
        true,
    );
    assert!(explained().contains("of chain arriving in table inet guard"));
    let _second = connect();
    assert_eq!(ours(), 1, "the kernel's");

    // And it comes back.
    bench.rules("nft delete table inet guard").unwrap();
    until(&mut engine, "left to the kernel", false);
    let _third = connect();
    assert_eq!(ours(), 2);
    let said = engine.printed();
    assert!(said.contains("netfilter: left to the kernel"), "{said}");
    assert!(said.contains("netfilter: open to all peers"), "{said}");
}

#[test]
fn rules_of_iptables_are_named() {
    let test = "rules_of_iptables_are_named";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("iptables-legacy -A INPUT -p tcp --dport 80 -j ACCEPT") {
        return skipped(test, &format!("iptables-legacy: {why}"));
    }
    bench.refuses(&["iptables, table filter: -A INPUT -p tcp", "--dport 80"]);

    // Those who know what they do say so, and the log names what is bypassed.
    let engine = bench
        .outboard
        .start_engine_with(&bench.world, "ignore_netfilter = true\n")
        .expect("it starts");
    assert!(engine.printed().contains("table filter: -A INPUT"));
    engine.stop(LIMIT).expect("it stops");

    bench.rules("iptables-legacy -F").unwrap();
    bench.rules("iptables-legacy -A OUTPUT -j ACCEPT").unwrap();
    bench.starts();
    bench
        .rules("ip6tables-legacy -t raw -P PREROUTING DROP")
        .unwrap();
    bench.refuses(&["ip6tables, table raw: :PREROUTING DROP"]);
}

#[test]
fn rules_that_are_not_followed_are_told() {
    let test = "rules_that_are_not_followed_are_told";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    let mut engine = bench
        .outboard
        .start_engine_with(&bench.world, "ignore_netfilter = true\n")
        .unwrap();
    let mut chains = |count: f64| {
        let told = engine.wait_until(LIMIT, || {
            let stats = bench.outboard.stats().unwrap_or_default();
            !stats.is_empty() && lab::outboard::total(&stats, "netfilter_chains") == count
        });
        told.unwrap_or_else(|error| panic!("{count} chains: {error:#}"));
    };
    chains(0.0);
    for (hook, count) in [("input", 1.0), ("output", 2.0)] {
        let chain =
            format!("nft add chain inet guard {hook} {{ type filter hook {hook} priority 0 ; }}");
        bench.rules(&chain).unwrap();
        let rule = format!("nft add rule inet guard {hook} tcp dport 80 drop");
        bench.rules(&rule).unwrap();
        chains(count);
    }
    bench.rules("nft delete table inet guard").unwrap();
    chains(0.0);
    let said = engine.printed();
    for hook in ["input", "output"] {
        assert!(said.contains(&format!("at the {hook} hook")), "{said}");
    }
}
