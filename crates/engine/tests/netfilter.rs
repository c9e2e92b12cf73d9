//! What the rules of netfilter say of packets that do not pass them, by the kernel's own word: random
//! rules of nf_tables, real connections through them, and what the engine would have made of each; and
//! the rules that ordinary firewalls make.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use engine::netfilter::policy::by_family;
use engine::netfilter::{Access, Interface, Outcome, Packet, Ranges, Segment, Way};
use engine::opener::Opener;
use engine::slow::kernel::netfilter::Followed;
use lab::{Side, World};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// A connection that the rules accept is there within this; it is hardly ever waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one that is to be dropped is waited for in vain.
const GRACE: Duration = Duration::from_millis(60);

const PORTS: [u16; 3] = [80, 81, 443];

/// The peers: in different prefixes, and at their edges.
const PEERS: [Ipv4Addr; 8] = [
    Ipv4Addr::new(198, 18, 0, 1),
    Ipv4Addr::new(198, 18, 0, 2),
    Ipv4Addr::new(198, 18, 0, 127),
    Ipv4Addr::new(198, 18, 0, 128),
    Ipv4Addr::new(198, 18, 1, 0),
    Ipv4Addr::new(198, 18, 255, 255),
    Ipv4Addr::new(198, 19, 0, 0),
    Ipv4Addr::new(198, 19, 77, 3),
];

struct Bench {
    world: World,
    interface: Interface,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        if lab::skip_without(test, &["nft"]) || lab::skip_without_root(test) {
            return None;
        }
        let world = World::new().expect("namespaces");
        let run = |side: Side, line: &str| {
            let mut words = line.split(' ');
            let program = world.program(side, words.next().unwrap());
            program.args(words).output().expect(line);
        };
        run(Side::Client, "ip route add local 198.18.0.0/15 dev lo");
        let back = format!("ip route add 198.18.0.0/15 via {}", Side::Client.ipv4());
        run(Side::Server, &back);
        let name = Side::Server.interface().to_owned();
        let index = index_of(&world, &name);
        Some(Self {
            world,
            interface: Interface {
                index,
                name,
                has_others: false,
            },
        })
    }

    /// Makes these the rules, if nft takes them.
    fn try_load(&self, rules: &str) -> Result<(), String> {
        let path = self.world.scratch().join("rules");
        std::fs::write(&path, format!("flush ruleset\n{rules}")).unwrap();
        let nft = self.world.program(Side::Server, "nft");
        let loaded = nft.args(["-f", path.to_str().unwrap()]).output();
        loaded
            .map(drop)
            .map_err(|error| format!("{error:#}\n{rules}"))
    }

    fn load(&self, rules: &str) {
        self.try_load(rules).expect("nft takes them");
    }

    fn followed(&self) -> Followed {
        let index = self.interface.index;
        let read = || Ok(Followed::of_interfaces(&[index], Opener::default())?);
        self.world.on(Side::Server, read).expect("the kernel says")
    }

    /// What becomes of connections to a port.
    fn access(&self, followed: &Followed, port: u16) -> Access {
        let local = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let own = followed.addresses();
        followed.rules().listener(&self.interface, &own, local)
    }

    fn of(&self, port: u16) -> Access {
        self.access(&self.followed(), port)
    }
}

fn index_of(world: &World, name: &str) -> u32 {
    let ip = world
        .program(Side::Server, "ip")
        .args(["-o", "link", "show", name]);
    let line = ip.output().expect("ip says it");
    let index = line
        .split(':')
        .next()
        .and_then(|index| index.trim().parse().ok());
    index.expect("an index")
}

/// Answers each connection to the ports with a byte.
fn serve(world: &World) {
    for port in PORTS {
        let bound = || Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?);
        let listener = world.on(Side::Server, bound).expect("it is free");
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut connection = connection;
                    let mut byte = [0];
                    while connection.read_exact(&mut byte).is_ok() {
                        let _ = connection.write_all(&byte);
                    }
                });
            }
        });
    }
}

/// A connection that has begun.
struct Begun {
    peer: Ipv4Addr,
    port: u16,
    socket: OwnedFd,
    asked: bool,
    answered: bool,
}

impl Begun {
    fn new(peer: Ipv4Addr, port: u16) -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        bind(&socket, &SocketAddr::new(peer.into(), 0)).expect("an address of the client's");
        let to = SocketAddr::new(Side::Server.ipv4().into(), port);
        assert_eq!(connect(&socket, &to), Err(Errno::INPROGRESS));
        Self {
            peer,
            port,
            socket,
            asked: false,
            answered: false,
        }
    }

    fn look(&mut self) {
        self.asked = self.asked || rustix::io::write(&self.socket, b"?").is_ok();
        self.answered |= rustix::io::read(&self.socket, &mut [0; 1]) == Ok(1);
    }
}

/// A rule that may hold for some: what it asks for, and what it says.
fn rule() -> impl Strategy<Value = String> {
    let prefix = prop_oneof![
        Just("198.18.0.0/24"),
        Just("198.18.0.0/25"),
        Just("198.18.0.2"),
        Just("198.18.0.0/16"),
        Just("198.19.0.0/16"),
        Just("198.18.0.2-198.18.1.0"),
        Just("{ 198.18.0.1, 198.18.0.128/25, 198.19.0.0-198.19.0.9 }"),
        Just("@banned"),
        Just("@nets"),
    ];
    let peer = (prop_oneof![Just(""), Just("!= ")], prefix)
        .prop_map(|(not, prefix)| format!("ip saddr {not}{prefix}"));
    let port = prop_oneof![
        Just("tcp dport 80"),
        Just("tcp dport != 443"),
        Just("tcp dport { 80, 81 }"),
        Just("tcp dport 81-443"),
        Just("tcp dport > 80"),
        Just("tcp dport < 81"),
        Just("th dport @ports"),
    ];
    let other = prop_oneof![
        Just("ct state new"),
        Just("ct state established,related"),
        Just("ct state invalid"),
        Just("ct state != new"),
        Just("iifname \"eth0\""),
        Just("iifname \"nothing*\""),
        Just("tcp flags syn / fin,syn,rst,ack"),
        Just("tcp flags & (fin|syn) == (fin|syn)"),
        Just("fib daddr type local"),
        Just("meta pkttype host"),
        Just("meta mark 0"),
        Just("ip protocol tcp"),
        Just("ip saddr . tcp dport { 198.18.0.1 . 80, 198.19.0.0/16 . 443 }"),
        Just("ip saddr & 255.255.0.0 == 198.19.0.0"),
        Just("meta nfproto ipv6"),
        Just("meta mark 1"),
        Just("ct mark 0"),
        Just("iif != \"lo\""),
        Just("iifname { \"lo\", \"server0\" }"),
        Just("ip daddr != 192.0.2.0/24"),
        Just("ip daddr 192.0.2.1"),
        Just("ip saddr @moving"),
        Just("ip saddr . tcp dport @pairs"),
        Just("fib saddr . iif oif missing"),
        Just("tcp flags != syn"),
        Just("tcp flags & (syn|ack) != 0"),
        Just("meta mark set 0"),
    ];
    let ask =
        prop_oneof![3 => peer, 3 => port.prop_map(String::from), 2 => other.prop_map(String::from)];
    let asks = proptest::collection::vec(ask, 0..3);
    let says = prop_oneof![
        4 => Just("accept"),
        4 => Just("drop"),
        1 => Just("reject"),
        1 => Just("reject with tcp reset"),
        1 => Just("return"),
        2 => Just("jump first"),
        2 => Just("jump second"),
        1 => Just("goto second"),
        1 => Just("counter"),
        1 => Just("tcp dport vmap { 80 : accept, 81 : drop, 443 : jump second }"),
        1 => Just("ip saddr vmap { 198.18.0.1 : drop, 198.18.0.2 : goto second, 198.19.0.0/16 : accept }"),
        1 => Just("ct state vmap { established : accept, new : jump first, invalid : drop }"),
        1 => Just("ip saddr vmap { 198.18.0.1 : return, 198.19.0.0/16 : drop, * : accept }"),
        1 => Just("tcp dport vmap @verdicts"),
        1 => Just("meta mark set tcp dport map { 80 : 0, 81 : 1 } accept"),
        1 => Just("limit rate 1/hour accept"),
        1 => Just("limit rate 1/hour log"),
    ];
    (asks, says).prop_map(|(asks, says)| format!("    meta l4proto tcp {} {says}", asks.join(" ")))
}

/// Rules for what comes, and now and then for what goes.
fn ruleset() -> impl Strategy<Value = String> {
    let rules = |most| proptest::collection::vec(rule(), 0..most).prop_map(|r| r.join("\n"));
    // The last chain calls nobody, so that none is called in a circle.
    let last = rules(3).prop_map(|rules| {
        rules
            .replace("jump", "return #")
            .replace("goto", "return #")
    });
    let last = last.prop_map(|rules| without_vmaps_that_call(&rules));
    let first = rules(3).prop_map(|rules| rules.replace("first", "second"));
    let policy = prop_oneof![Just("accept"), Just("drop")];
    let leaving = prop_oneof![
        4 => Just(""),
        1 => Just("ip daddr 198.18.0.0/24 drop"),
        1 => Just("ct state established accept\n drop"),
        1 => Just("tcp sport 81 drop"),
    ];
    (rules(6), first, last, policy, rules(2), leaving).prop_map(
        |(input, first, last, policy, before, leaving)| {
            format!(
                "table inet t {{
  set banned {{ type ipv4_addr; elements = {{ 198.18.0.2, 198.18.255.255 }} }}
  set nets {{ type ipv4_addr; flags interval; elements = {{ 198.18.0.0/25, 198.19.0.0/16 }} }}
  set moving {{ type ipv4_addr; flags timeout; elements = {{ 198.18.0.1 }} }}
  set pairs {{ type ipv4_addr . inet_service; flags interval;
    elements = {{ 198.18.0.0/24 . 80-81, 198.19.77.3 . 443 }} }}
  map verdicts {{ type inet_service : verdict; flags interval; elements = {{ 1-80 : accept, 90-500 : drop }} }}
  set ports {{ type inet_service; flags interval; elements = {{ 1-80, 443 }} }}
  chain second {{\n{last}\n  }}
  chain first {{\n{first}\n  }}
  chain before {{\n    type filter hook prerouting priority -150;\n{before}\n  }}
  chain input {{\n    type filter hook input priority 0; policy {policy};\n    meta l4proto != tcp accept\n{input}\n  }}
  chain leaving {{\n    type filter hook output priority 0;\n    {leaving}\n  }}
}}"
            )
        },
    )
}

fn without_vmaps_that_call(rules: &str) -> String {
    let lines = rules.lines().filter(|line| !line.contains("vmap"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Draws so many rulesets.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    })
}

/// A connection from each peer to each port.
fn from_all_to_all(bench: &Bench) -> Vec<Begun> {
    let begin = || {
        let each = PORTS
            .iter()
            .flat_map(|port| PEERS.map(|peer| (peer, *port)));
        Ok(each.map(|(peer, port)| Begun::new(peer, port)).collect())
    };
    bench.world.on(Side::Client, begin).unwrap()
}

/// Looks at connections until those have an answer that it `waits_for`, and for a moment more: others may
/// have one that they should not have.
fn until_answered(begun: &mut [Begun], waits_for: impl Fn(&Begun) -> bool) {
    let start = Instant::now();
    let mut complete = None;
    while complete.is_none_or(|at: Instant| at.elapsed() < GRACE) {
        begun.iter_mut().for_each(Begun::look);
        let all = begun.iter().all(|b| b.answered || !waits_for(b));
        if all && complete.is_none() {
            complete = Some(Instant::now());
        }
        if start.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn whom_the_kernel_accepts_the_engine_does_and_nobody_else() {
    let name = "whom_the_kernel_accepts_the_engine_does_and_nobody_else";
    let Some(bench) = Bench::new(name) else {
        return;
    };
    serve(&bench.world);
    // Accepted, refused, left to the kernel.
    let counts = [const { Cell::new(0) }; 3];
    let mut runner = runner(60);
    runner
        .run(&ruleset(), |rules| {
            bench.try_load(&rules).map_err(TestCaseError::reject)?;
            let followed = bench.followed();
            let of = PORTS.map(|port| (port, bench.access(&followed, port)));
            let mut begun = from_all_to_all(&bench);
            // What the engine says of each: accepted, refused, or the kernel's.
            let says = |begun: &Begun| {
                let (_, access) = of.iter().find(|(port, _)| *port == begun.port).unwrap();
                match access {
                    Ok(refused) => Some(!refused.contains(IpAddr::from(begun.peer))),
                    // Nobody gets in, so nobody may.
                    Err(why) if why.contains("lets nobody in") => Some(false),
                    Err(_) => None,
                }
            };
            until_answered(&mut begun, |begun| says(begun) == Some(true));
            for begun in &begun {
                let count = match says(begun) {
                    Some(true) => &counts[0],
                    Some(false) => &counts[1],
                    None => &counts[2],
                };
                count.set(count.get() + 1);
                let (peer, port, answered) = (begun.peer, begun.port, begun.answered);
                if let Some(says) = says(begun) {
                    prop_assert_eq!(answered, says, "{} to {}:\n{}\n{:?}", peer, port, rules, of);
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // It has to be about something.
    let [accepted, refused, unclear] = counts.map(Cell::into_inner);
    let all = accepted + refused + unclear;
    println!("{accepted} accepted, {refused} refused, {unclear} left to the kernel");
    assert!(
        accepted * 8 > all && refused * 8 > all,
        "{accepted} {refused} {unclear}"
    );
}

/// What the engine makes of the segments of a connection that is there: they pass, or one way they do not;
/// who knows if neither.
fn passes(bench: &Bench, followed: &Followed, begun: &Begun) -> Option<bool> {
    let own = IpAddr::from(Side::Server.ipv4());
    let peer = IpAddr::from(begun.peer);
    let port = Some(begun.port);
    let cut = followed.rules().cut(&bench.interface, own, port);
    let cut = cut.is_some_and(|cut| cut.drops(Way::In, peer) || cut.drops(Way::Out, peer));
    let accepted = [Way::In, Way::Out].into_iter().all(|way| {
        let packet = Packet {
            interface: &bench.interface,
            way,
            segment: Segment::Other,
            own: &[own],
            own_port: port,
        };
        let verdict = followed.rules().verdict(&packet, Ranges::all(32));
        let mut of = verdict
            .iter()
            .filter(|(peers, _)| peers.contains_address(peer));
        of.all(|(_, outcome)| *outcome == Outcome::Accepted)
    });
    assert!(!(cut && accepted));
    (cut || accepted).then_some(accepted)
}

#[test]
fn whose_segments_the_kernel_drops_later_the_engine_does_and_nobody_elses() {
    let name = "whose_segments_the_kernel_drops_later_the_engine_does_and_nobody_elses";
    let Some(bench) = Bench::new(name) else {
        return;
    };
    serve(&bench.world);
    // Pass, dropped, left as they are.
    let counts = [const { Cell::new(0) }; 3];
    let mut runner = runner(40);
    // Connections are tracked from their beginning: what follows is established.
    let before = "table inet before {
  chain input { type filter hook input priority 0; ct state invalid counter; }
}";
    runner
        .run(&ruleset(), |rules| {
            bench.load(before);
            let mut begun = from_all_to_all(&bench);
            until_answered(&mut begun, |_| true);
            for begun in &mut begun {
                prop_assert!(begun.answered, "nothing keeps it");
                (begun.asked, begun.answered) = (false, false);
            }
            bench.try_load(&rules).map_err(TestCaseError::reject)?;
            let followed = bench.followed();
            let says = |begun: &Begun| passes(&bench, &followed, begun);
            until_answered(&mut begun, |begun| says(begun) == Some(true));
            for begun in &begun {
                let count = match says(begun) {
                    Some(true) => &counts[0],
                    Some(false) => &counts[1],
                    None => &counts[2],
                };
                count.set(count.get() + 1);
                let (peer, port, answered) = (begun.peer, begun.port, begun.answered);
                if let Some(says) = says(begun) {
                    prop_assert_eq!(answered, says, "{} to {}:\n{}", peer, port, rules);
                }
            }
            bench.load("");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let [passed, dropped, unclear] = counts.map(Cell::into_inner);
    let all = passed + dropped + unclear;
    println!("{passed} passed, {dropped} dropped, {unclear} left as they were");
    assert!(
        passed * 8 > all && dropped * 8 > all,
        "{passed} {dropped} {unclear}"
    );
}

/// What somebody hears: nobody is refused, or why the kernel has it.
fn told(access: &Access) -> String {
    match access {
        Ok(refused) if refused.is_empty() => "open".to_owned(),
        Ok(_) => "some".to_owned(),
        Err(why) => why.clone(),
    }
}

#[test]
fn rules_as_firewalld_makes_them() {
    let Some(bench) = Bench::new("rules_as_firewalld_makes_them") else {
        return;
    };
    let eth = &bench.interface.name;
    bench.load(&format!(
        "table inet firewalld {{
  ct helper helper-ftp-tcp {{ type \"ftp\" protocol tcp; l3proto inet; }}
  chain mangle_PREROUTING {{
    type filter hook prerouting priority mangle + 10;
    jump mangle_PREROUTING_POLICIES
  }}
  chain mangle_PREROUTING_POLICIES {{ iifname \"{eth}\" jump mangle_PRE_public
    iifname \"{eth}\" return
    jump mangle_PRE_public
    return
  }}
  chain mangle_PRE_public {{ }}
  chain nat_PREROUTING {{
    type nat hook prerouting priority dstnat + 10;
    jump mangle_PRE_public
  }}
  chain nat_POSTROUTING {{
    type nat hook postrouting priority srcnat + 10;
    jump mangle_PRE_public
  }}
  chain filter_PREROUTING {{
    type filter hook prerouting priority filter + 10;
    icmpv6 type {{ nd-router-advert, nd-neighbor-solicit }} accept
    meta nfproto ipv6 fib saddr . mark . iif oif missing drop
  }}
  chain filter_INPUT {{
    type filter hook input priority filter + 10;
    ct state {{ established, related }} accept
    ct status dnat accept
    iifname \"lo\" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }}
  chain filter_OUTPUT {{
    type filter hook output priority filter + 10;
    ct state {{ established, related }} accept
    oifname \"lo\" accept
    ip6 daddr {{ ::/96, 2002::/24 }} reject with icmpv6 addr-unreachable
  }}
  chain filter_INPUT_ZONES {{ ip saddr 192.0.2.0/24 goto filter_IN_drop
    iifname \"{eth}\" goto filter_IN_public
    goto filter_IN_public
  }}
  chain filter_IN_drop {{ drop
  }}
  chain filter_IN_public {{ jump filter_IN_public_allow
    meta l4proto {{ icmp, ipv6-icmp }} accept
  }}
  chain filter_IN_public_allow {{ tcp dport 22 ct state {{ new, untracked }} accept
    tcp dport 80 ct state {{ new, untracked }} accept
    ip saddr 198.51.100.0/24 tcp dport 8080 accept
    tcp dport 8443 limit rate 3/minute accept
  }}
}}"
    ));
    let Ok(of_80) = bench.of(80) else {
        panic!("{:?}", bench.of(80));
    };
    let peer = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(of_80.contains(peer("192.0.2.7")), "the zone that drops");
    assert!(!of_80.contains(peer("192.0.3.7")));
    let of_8080 = bench.of(8080).expect("some are accepted");
    assert!(!of_8080.contains(peer("198.51.100.9")));
    assert!(of_8080.contains(peer("198.51.101.9")));
    let closed = told(&bench.of(81));
    assert!(closed.contains("lets nobody in"), "{closed}");
    let rate = told(&bench.of(8443));
    assert!(
        rate.contains("asks for what only the kernel knows"),
        "{rate}"
    );
    assert!(
        rate.contains("of chain filter_IN_public_allow in table inet firewalld"),
        "{rate}"
    );
    let opens = bench.followed();
    let opens = opens
        .rules()
        .connections(&bench.interface, &opens.addresses());
    let opens = opens.expect("to nearly everybody");
    assert!(opens.contains(peer("2002:1::9")) && !opens.contains(peer("2001:db8::9")));
    // The way back is not known of several interfaces; that is of IPv6 alone.
    let several = Interface {
        has_others: true,
        ..bench.interface.clone()
    };
    let followed = bench.followed();
    let (rules, own) = (followed.rules(), followed.addresses());
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 80);
    for access in [
        by_family(own.iter(), |own| rules.connections(&several, own)),
        by_family(own.iter(), |own| rules.listener(&several, own, any)),
    ] {
        let access = access.expect("IPv4 goes on");
        let (is_v6, why) = access.left().expect("what only the kernel knows");
        assert!(is_v6 && why.contains("chain filter_PREROUTING"), "{why}");
        assert!(!access.contains(peer("192.0.3.7")) && access.contains(peer("2001:db8::9")));
    }
}

/// Feeds lines to a tool that restores tables.
fn restore(bench: &Bench, tool: &str, lines: &str) {
    let path = bench.world.scratch().join("tables");
    std::fs::write(&path, lines).unwrap();
    let restored = bench.world.program(Side::Server, tool);
    restored
        .args([path.to_str().unwrap()])
        .output()
        .expect(tool);
}

#[test]
fn rules_as_ufw_and_docker_make_them() {
    let name = "rules_as_ufw_and_docker_make_them";
    if lab::skip_without(name, &["iptables-nft-restore"]) {
        return;
    }
    let Some(bench) = Bench::new(name) else {
        return;
    };
    bench.load("");
    restore(
        &bench,
        "iptables-nft-restore",
        "*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-input - [0:0]
:ufw-not-local - [0:0]
:ufw-logging-deny - [0:0]
:ufw-user-input - [0:0]
:ufw-user-limit - [0:0]
:ufw-user-limit-accept - [0:0]
:ufw-after-input - [0:0]
:ufw-track-output - [0:0]
-A INPUT -j ufw-before-input
-A INPUT -j ufw-after-input
-A OUTPUT -j ufw-track-output
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j ufw-logging-deny
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j ufw-logging-deny
-A ufw-not-local -j DROP
-A ufw-logging-deny -m limit --limit 3/min -j LOG --log-prefix \"[UFW BLOCK] \"
-A ufw-user-input -p tcp -m tcp --dport 80 -m comment --comment web -j ACCEPT
-A ufw-user-input -p tcp -m multiport --dports 443,9000:9010 -j ACCEPT
-A ufw-user-input -s 198.51.100.0/24 -p tcp -m tcp --dport 5432 -j ACCEPT
-A ufw-user-input -p tcp -m tcp --dport 8080 -j ACCEPT
-A ufw-user-input -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW -m recent --set
-A ufw-user-input -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW -m recent --update --seconds 30 --hitcount 6 -j ufw-user-limit
-A ufw-user-input -p tcp -m tcp --dport 22 -j ufw-user-limit-accept
-A ufw-user-limit -m limit --limit 3/min -j LOG
-A ufw-user-limit -j REJECT --reject-with icmp-port-unreachable
-A ufw-user-limit-accept -j ACCEPT
-A ufw-after-input -p tcp -m tcp --dport 139 -j DROP
-A ufw-track-output -p tcp -m conntrack --ctstate NEW -j ACCEPT
COMMIT
",
    );
    for open in [80, 443, 9005] {
        assert_eq!(told(&bench.of(open)), "open", "{open}");
    }
    for closed in [81, 139, 9011] {
        assert!(
            told(&bench.of(closed)).contains("lets nobody in"),
            "{closed}"
        );
    }
    let of_5432 = bench.of(5432).expect("some are accepted");
    assert!(!of_5432.contains("198.51.100.3".parse().unwrap()));
    assert!(of_5432.contains("198.51.99.3".parse().unwrap()));
    let forwarded = told(&bench.of(8080));
    assert!(
        forwarded.contains("brings it where only the kernel can"),
        "{forwarded}"
    );
    let limited = told(&bench.of(22));
    assert!(
        limited.contains("asks for what only the kernel knows"),
        "{limited}"
    );
    let opens = bench.followed();
    let opens = opens
        .rules()
        .connections(&bench.interface, &opens.addresses());
    assert!(opens.is_ok(), "{opens:?}");
}
