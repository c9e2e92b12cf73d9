//! An engine does not start in silence where netfilter has rules that what is steered would not
//! pass: it names them, and what to do.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root, tool};
use std::io::Write;
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
fn rules_of_nftables_are_named() {
    let test = "rules_of_nftables_are_named";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    // What leaves through the kernel's own output passes its rules as ever.
    let chain =
        "nft add chain inet guard leaving { type filter hook output priority 0 ; policy drop ; }";
    bench.rules(chain).unwrap();
    // A chain without rules that lets everything in is none.
    let chain = "nft add chain inet guard arriving { type filter hook input priority 0 ; }";
    bench.rules(chain).unwrap();
    bench.starts();

    let rule = "nft add rule inet guard arriving tcp dport 80 accept";
    bench.rules(rule).unwrap();
    bench.refuses(&["nftables, table guard: chain arriving at the input hook"]);

    bench.rules("nft flush chain inet guard arriving").unwrap();
    let chain =
        "nft add chain inet guard first { type filter hook prerouting priority 0 ; policy drop ; }";
    bench.rules(chain).unwrap();
    bench.refuses(&["chain first at the prerouting hook"]);
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
fn rules_that_come_later_are_told() {
    let test = "rules_that_come_later_are_told";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
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
