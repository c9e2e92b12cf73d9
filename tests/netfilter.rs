//! Netfilter does not see what is steered. The engine follows the rules of nf_tables, as they change, and
//! leaves to the kernel what only that can decide; it does not start in silence where the older tables
//! have rules, and names them.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root, tool};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
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

    /// A connection of the client's to the server.
    fn connect(&self) -> TcpStream {
        let address = SocketAddr::from((Side::Server.ipv4(), 8080));
        let connected = || Ok(TcpStream::connect_timeout(&address, LIMIT)?);
        self.world.on(Side::Client, connected).expect("served")
    }

    /// How many connections the engine has.
    fn ours(&self) -> usize {
        let rows = self.outboard.sockets().expect("sockets");
        let open = |row: &&serde_json::Value| row["state"] == "ESTABLISHED";
        rows.iter().filter(open).count()
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
    let _first = bench.connect();
    assert_eq!(bench.ours(), 1);
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
    let _second = bench.connect();
    assert_eq!(bench.ours(), 1, "the kernel's");

    // And it comes back.
    bench.rules("nft delete table inet guard").unwrap();
    until(&mut engine, "left to the kernel", false);
    // It is said a moment before it is so, and an engine that a busy machine keeps waiting takes none.
    let mut later = Vec::new();
    let taken = engine.wait_until(LIMIT, || {
        later.push(bench.connect());
        bench.ours() == 2
    });
    taken.expect("one of them");
    let said = engine.printed();
    assert!(said.contains("netfilter: left to the kernel"), "{said}");
    assert!(said.contains("netfilter: open to all peers"), "{said}");
}

/// What the kernel would encrypt, or refuse because it comes bare, is its own.
#[test]
fn all_that_is_new_is_the_kernels_while_ipsec_has_policies() {
    let test = "all_that_is_new_is_the_kernels_while_ipsec_has_policies";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    let stranger = Ipv4Addr::new(10, 99, 99, 99);
    let policy = |verb: &str| {
        let server = Side::Server.ipv4();
        let peers = format!("src {stranger} dst {server}");
        bench.rules(&format!(
            "ip xfrm policy {verb} {peers} dir in tmpl {peers} proto esp mode transport"
        ))
    };
    if let Err(why) = policy("add") {
        return skipped(test, &format!("ip xfrm: {why}"));
    }
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let site = bench.world.scratch();
    let outboard = &bench.outboard;
    let server = outboard
        .command(&bench.world, "serve")
        .arg(site)
        .args(["-L", &address.to_string()])
        .log(site.join("serve.log"))
        .start()
        .expect("it starts");
    let explained = || {
        let explain = outboard.command(&bench.world, "explain");
        let explain = explain.arg(server.id().to_string());
        explain.output().unwrap_or_default()
    };
    let mut until = |there: bool| {
        let why = "left to the kernel: IPsec has policies here";
        let waited = engine.wait_until(LIMIT, || {
            let said = explained();
            said.contains(why) == there && (said.contains("listener") || !there && !said.is_empty())
        });
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", explained()));
    };
    until(true);
    let _first = bench.connect();
    assert_eq!(bench.ours(), 0, "the kernel's");
    bench.rules("ip xfrm policy flush").unwrap();
    until(false);
    let _second = bench.connect();
    assert_eq!(bench.ours(), 1);
    policy("add").unwrap();
    until(true);
    let _third = bench.connect();
    assert_eq!(bench.ours(), 1, "the kernel's");
    let said = engine.printed();
    assert!(said.contains("all that is new is the kernel's"), "{said}");
}

/// How many segments of connections that are there the rules have dropped.
fn filtered(outboard: &Outboard) -> f64 {
    let stats = outboard.stats().unwrap_or_default();
    let filtered = |c: &&lab::outboard::Counter| c.name == "dropped" && c.labels == ["filtered"];
    stats.iter().find(filtered).map_or(0.0, |c| c.value)
}

#[test]
fn connections_stand_still_while_a_rule_drops_their_segments() {
    let test = "connections_stand_still_while_a_rule_drops_their_segments";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let site = bench.world.scratch().join("site");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("page"), "here I am").unwrap();
    let server = bench.outboard.start_serve(&bench.world, &site, address);
    let server = server.expect("it serves");
    let connected = || Ok(TcpStream::connect_timeout(&address, LIMIT)?);
    let mut client = bench.world.on(Side::Client, connected).expect("served");
    let answered = |client: &mut TcpStream| {
        let mut page = Vec::new();
        while !page.ends_with(b"here I am") {
            let mut bytes = [0; 4096];
            let count = client.read(&mut bytes).expect("an answer");
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&page));
            page.extend(&bytes[..count]);
        }
    };
    let ask = |client: &mut TcpStream| {
        let request = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n";
        client.write_all(request).unwrap();
    };
    client.set_read_timeout(Some(LIMIT)).unwrap();
    ask(&mut client);
    answered(&mut client);

    // An operator shuts somebody out, in front of what accepts all that is established: what comes from
    // there is dropped, or what goes there.
    let peer = Side::Client.ipv4();
    for (hook, rule) in [
        ("input", format!("ip saddr {peer} drop")),
        ("output", format!("tcp sport 8080 ip daddr {peer} drop")),
    ] {
        bench.rules("nft delete table inet guard").unwrap();
        bench.rules("nft add table inet guard").unwrap();
        let chain =
            format!("nft add chain inet guard {hook} {{ type filter hook {hook} priority 0 ; }}");
        bench.rules(&chain).unwrap();
        let established = format!("nft add rule inet guard {hook} ct state established accept");
        bench.rules(&established).unwrap();
        ask(&mut client);
        answered(&mut client);
        let explained = || {
            let pid = server.id().to_string();
            let explain = bench.outboard.command(&bench.world, "explain");
            explain.arg(pid).output().unwrap()
        };
        assert!(!explained().contains("are dropped"), "{}", explained());
        bench
            .rules(&format!("nft insert rule inet guard {hook} {rule}"))
            .unwrap();
        let said = |word: &str, there: bool| explained().contains(word) == there;
        let by = format!("are dropped: rule 3 of chain {hook} in table inet guard");
        let told = engine.wait_until(LIMIT, || said(&by, true));
        told.unwrap_or_else(|error| panic!("{error:#}\n{}", explained()));
        let before = filtered(&bench.outboard);
        ask(&mut client);
        let dropped = engine.wait_until(LIMIT, || filtered(&bench.outboard) >= before + 2.0);
        dropped.expect("its segments are dropped and counted");
        client.set_nonblocking(true).unwrap();
        let nothing = client.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(nothing, Err(std::io::ErrorKind::WouldBlock));
        client.set_nonblocking(false).unwrap();

        // It is withdrawn: nothing was lost.
        bench.rules("nft flush table inet guard").unwrap();
        answered(&mut client);
        assert!(said("are dropped", false), "{}", explained());
    }
    let log = engine.printed();
    for said in [
        "connections with some peers stand still",
        "no connections stand still",
    ] {
        assert!(log.contains(said), "{log}");
    }
}

#[test]
fn who_is_rejected_hears_what_the_kernel_would_say() {
    let test = "who_is_rejected_hears_what_the_kernel_would_say";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    let chain = "nft add chain inet guard input { type filter hook input priority 0 ; }";
    bench.rules(chain).unwrap();
    // Address, what rejects it, and what connect then says.
    let strangers = [
        ("10.99.0.1", "tcp reset", "ConnectionRefusedError"),
        (
            "10.99.0.2",
            "icmp type admin-prohibited",
            "No route to host",
        ),
        (
            "10.99.0.3",
            "icmpx type port-unreachable",
            "ConnectionRefusedError",
        ),
    ];
    for (stranger, with, _) in strangers {
        let ip = bench.world.program(Side::Client, "ip");
        let device = Side::Client.interface();
        let add = ["addr", "add", &format!("{stranger}/32"), "dev", device];
        ip.args(add).output().unwrap();
        let back = format!("ip route add {stranger} via {}", Side::Client.ipv4());
        bench.rules(&back).unwrap();
        let rule = format!(
            "nft add rule inet guard input ip saddr {stranger} tcp dport 8080 reject with {with}"
        );
        bench.rules(&rule).unwrap();
    }
    let _engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let site = bench.world.scratch();
    let server = bench.outboard.start_serve(&bench.world, site, address);
    let _server = server.expect("it serves");
    for (stranger, with, said) in strangers {
        let python = bench.world.program(Side::Client, "python3");
        let script = format!(
            "import socket\ns = socket.socket()\ns.bind(('{stranger}', 0))\ns.settimeout(60)\n\
             try:\n s.connect(('{}', 8080))\nexcept OSError as e:\n print(type(e).__name__, e)",
            Side::Server.ipv4()
        );
        let heard = python.args(["-c", &script]).output().unwrap();
        assert!(heard.contains(said), "{with}: {heard}");
    }
    let stats = bench.outboard.stats().unwrap();
    let denied = |c: &&lab::outboard::Counter| c.name == "dropped" && c.labels == ["denied"];
    let denied = stats.iter().find(denied).map_or(0.0, |c| c.value);
    assert!(denied >= 3.0, "by the engine: {denied}");
}

#[test]
fn what_programs_have_opened_stands_still_too() {
    let test = "what_programs_have_opened_stands_still_too";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    if let Err(why) = bench.rules("nft add table inet guard") {
        return skipped(test, &format!("nft: {why}"));
    }
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let bound = || Ok(TcpListener::bind((Side::Client.ipv4(), 0))?);
    let listener = bench.world.on(Side::Client, bound).unwrap();
    let script = format!(
        "import socket, time\ns = socket.create_connection(('{}', {}))\n\
         while True:\n s.send(b'.')\n time.sleep(0.05)",
        Side::Client.ipv4(),
        listener.local_addr().unwrap().port()
    );
    let program = bench.outboard.on_engine(&bench.world, "python3");
    let log = bench.world.scratch().join("program.log");
    let mut program = program.args(["-c", &script]).log(log).start().unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    let connected = program.wait_until(LIMIT, || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    connected.unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    let (mut peer, _) = accepted.expect("just accepted");
    peer.set_nonblocking(false).unwrap();
    peer.set_read_timeout(Some(LIMIT)).unwrap();
    peer.read_exact(&mut [0; 3]).expect("it sends");
    assert_eq!(bench.outboard.sockets().unwrap().len(), 1, "the engine's");

    let chain = "nft add chain inet guard output { type filter hook output priority 0 ; }";
    bench.rules(chain).unwrap();
    let rule = format!(
        "nft add rule inet guard output ip daddr {} drop",
        Side::Client.ipv4()
    );
    bench.rules(&rule).unwrap();
    let dropped = engine.wait_until(LIMIT, || filtered(&bench.outboard) >= 1.0);
    dropped.expect("its segments are dropped and counted");
    // What had left before has arrived.
    let mut bytes = [0; 4096];
    peer.set_nonblocking(true).unwrap();
    while peer.read(&mut bytes).is_ok_and(|count| count > 0) {}
    let before = filtered(&bench.outboard);
    let dropped = engine.wait_until(LIMIT, || filtered(&bench.outboard) > before);
    dropped.expect("again and again");
    assert!(peer.read(&mut bytes).is_err(), "nothing more comes");
    peer.set_nonblocking(false).unwrap();
    bench.rules("nft flush table inet guard").unwrap();
    peer.read_exact(&mut [0; 3]).expect("it goes on");
    drop(program);
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
    let egress = "iptables-legacy -A OUTPUT -p tcp --dport 5432 -j REJECT";
    bench.rules(egress).unwrap();
    bench.refuses(&["iptables, table filter: -A OUTPUT -p tcp", "--dport 5432"]);
    bench.rules("iptables-legacy -F OUTPUT").unwrap();
    bench
        .rules("ip6tables-legacy -t raw -P PREROUTING DROP")
        .unwrap();
    bench.refuses(&["ip6tables, table raw: :PREROUTING DROP"]);
}

#[test]
fn all_that_is_new_is_the_kernels_once_there_is_a_table_that_nobody_looked_into() {
    let test = "all_that_is_new_is_the_kernels_once_there_is_a_table_that_nobody_looked_into";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    let mut engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let site = bench.world.scratch();
    let server = bench.outboard.start_serve(&bench.world, site, address);
    let server = server.expect("nothing is in its way");
    let _first = bench.connect();
    assert_eq!(bench.ours(), 1);
    if let Err(why) = bench.rules("iptables-legacy -A INPUT -p tcp --dport 9 -j DROP") {
        return skipped(test, &format!("iptables-legacy: {why}"));
    }
    let explained = || {
        let explain = bench.outboard.command(&bench.world, "explain");
        let explain = explain.arg(server.id().to_string());
        explain.output().unwrap_or_default()
    };
    let noticed = engine.wait_until(LIMIT, || explained().contains("(filter of iptables)"));
    noticed.unwrap_or_else(|error| panic!("{error:#}\n{}", explained()));
    let _second = bench.connect();
    assert_eq!(bench.ours(), 1, "the kernel's");
    let said = engine.printed();
    assert!(said.contains("until the engine is started again"), "{said}");
}

#[test]
fn rules_of_iptables_that_have_moved_are_followed() {
    let test = "rules_of_iptables_that_have_moved_are_followed";
    if skip_without_root(test) {
        return;
    }
    let bench = Bench::new();
    // An ordinary firewall of the older kind.
    for line in [
        "iptables-legacy -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "iptables-legacy -A INPUT -i lo -j ACCEPT",
        "iptables-legacy -A INPUT -p icmp -j ACCEPT",
        "iptables-legacy -A INPUT -s 10.99.0.0/16 -j DROP",
        "iptables-legacy -A INPUT -p tcp -m multiport --dports 80,8080 -j ACCEPT",
        "iptables-legacy -A INPUT -p tcp --dport 8081 -m limit --limit 5/s -j ACCEPT",
        "iptables-legacy -P INPUT DROP",
    ] {
        if let Err(why) = bench.rules(line) {
            return skipped(test, &format!("{line}: {why}"));
        }
    }
    let said = bench.refusal();
    // What it advises is done.
    for advice in [
        "iptables-legacy-save | iptables-nft-restore",
        "iptables-legacy -F and -P INPUT ACCEPT",
    ] {
        assert!(said.contains(advice), "{advice:?} is missing in: {said}");
    }
    let moved = bench.world.program(Side::Server, "sh").args([
        "-c",
        "iptables-legacy-save | iptables-nft-restore && iptables-legacy -F && iptables-legacy -P INPUT ACCEPT",
    ]);
    moved.output().expect("they are moved");

    let _engine = bench.outboard.start_engine(&bench.world, None).unwrap();
    let site = bench.world.scratch();
    let at = |port| SocketAddr::from((Side::Server.ipv4(), port));
    let server = bench
        .outboard
        .start_serve(&bench.world, site, at(8080))
        .expect("an open port");
    let pid = server.id().to_string();
    let explain = |pid: &str| {
        let explain = bench.outboard.command(&bench.world, "explain").arg(pid);
        explain.output().expect("it explains")
    };
    assert!(!explain(&pid).contains("left to the kernel"));
    drop(server);
    // What asks for a rate only the kernel can follow, and does.
    let mut limited = bench
        .outboard
        .command(&bench.world, "serve")
        .arg(site)
        .args(["-L", &at(8081).to_string()])
        .log(site.join("limited.log"))
        .start()
        .unwrap();
    let reached = || bench.world.is_reached(at(8081));
    limited.wait_until(LIMIT, reached).expect("by the kernel");
    let said = explain(&limited.id().to_string());
    assert!(said.contains("left to the kernel"), "{said}");
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
