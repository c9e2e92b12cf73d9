//! `outboard load` through what people put in front of servers: a firewall that follows
//! connections (nftables), and a proxy (HAProxy). No packet may be invalid to the firewall, whose
//! idea of what TCP allows is strict.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
/// The address of what stands in between.
const MIDDLE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const REQUESTS: &str = "2000";

/// Lets pass what belongs to connections that began with a SYN to a port that is served, and
/// nothing else.
const RULES: &str = "
table inet firewall {
    counter invalid { }
    counter untracked { }
    chain judge {
        ct state invalid counter name invalid drop
        ct state established accept
        ct state new tcp flags & (syn | ack | rst | fin) == syn accept
        ip protocol tcp counter name untracked drop
    }
    chain forward { type filter hook forward priority 0; policy drop; jump judge; }
    chain input { type filter hook input priority 0; policy accept; jump judge; }
    chain output { type filter hook output priority 0; policy accept; jump judge; }
}";

/// A world with firewall and router in the middle.
fn world() -> World {
    let world = World::with_middle().expect("a private network");
    world.route_in_middle(MIDDLE).expect("a router");
    let rules = world.scratch().join("rules");
    std::fs::write(&rules, RULES).expect("a file");
    let nft = world.program_in_middle("nft").expect("a middle");
    nft.arg("-f").arg(&rules).output().expect("nft");
    world
}

/// Packets that the firewall has refused.
fn refused(world: &World) -> u64 {
    let nft = world.program_in_middle("nft").expect("a middle");
    let text = nft.args(["-j", "list", "counters"]).output().expect("nft");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let objects = value["nftables"].as_array().expect("a list");
    let counters: Vec<_> = objects
        .iter()
        .filter_map(|object| object["counter"]["packets"].as_u64())
        .collect();
    assert_eq!(counters.len(), 2, "{text}");
    counters.iter().sum()
}

fn load(world: &World, arguments: &[&str]) -> Value {
    let printed = world
        .program(Side::Client, BINARY)
        .arg("load")
        .args(arguments)
        .args(["--json", "--grace", "60s", "-n", REQUESTS])
        .output()
        .expect("a client");
    serde_json::from_str(&printed).expect("JSON")
}

/// Loads `server` in all ways, through the firewall; nothing may be lost or refused.
fn load_in_every_way(world: &World, server: &str) {
    for further in [
        &["-c", "16"][..],
        &["-c", "16", "--close"],
        &["-c", "16", "--close", "--finish", "client"],
        &["-c", "16", "-k", "10", "--finish", "reset"],
        &["--conn-rate", "2000", "-k", "2"],
    ] {
        let mut arguments = vec![server, "--verify"];
        arguments.extend(further);
        let said = load(world, &arguments);
        assert_eq!(said["requests"].to_string(), REQUESTS, "{said:#}");
        assert_eq!(said["errors"], 0, "{said:#}");
        assert_eq!(said["outstanding"], 0, "{said:#}");
        assert_eq!(refused(world), 0, "{further:?}: {said:#}");
    }
}

#[test]
fn a_firewall_finds_nothing_invalid_before_nginx() {
    let test = "a_firewall_finds_nothing_invalid_before_nginx";
    if lab::skip_without(test, &["nft", "nginx"]) {
        return;
    }
    let world = world();
    let nginx = lab::nginx::Nginx::start(&world, None, world.scratch(), None).expect("nginx");
    load_in_every_way(&world, "http://10.77.0.1/64");
    nginx.stop().expect("an end");
}

/// HAProxy in the middle, for the server behind it.
fn start_proxy(world: &World) -> lab::Process {
    let configuration = world.scratch().join("haproxy.cfg");
    std::fs::write(
        &configuration,
        format!(
            "global\n  maxconn 2000\ndefaults\n  mode http\n  timeout connect 60s\n  timeout client \
             300s\n  timeout server 300s\nfrontend f\n  bind {MIDDLE}:81\n  default_backend \
             b\nbackend b\n  server s {}:80\n",
            Side::Server.ipv4()
        ),
    )
    .expect("a file");
    let mut proxy = world
        .program_in_middle("haproxy")
        .expect("a middle")
        .args(["-db", "-f"])
        .arg(&configuration)
        .log(world.scratch().join("haproxy.log"))
        .start()
        .expect("a proxy");
    proxy
        .wait_until(LIMIT, || world.is_reached((MIDDLE, 81).into()))
        .expect("a proxy");
    proxy
}

#[test]
fn a_proxy_behind_a_firewall_carries_everything_to_nginx() {
    let test = "a_proxy_behind_a_firewall_carries_everything_to_nginx";
    if lab::skip_without(test, &["nft", "nginx", "haproxy"]) {
        return;
    }
    let world = world();
    let nginx = lab::nginx::Nginx::start(&world, None, world.scratch(), None).expect("nginx");
    let proxy = start_proxy(&world);
    load_in_every_way(&world, "http://10.77.0.3:81/64");
    proxy.stop(LIMIT).expect("an end");
    nginx.stop().expect("an end");
}

#[test]
fn a_firewall_and_a_proxy_stand_between_both_stateless_ends() {
    let test = "a_firewall_and_a_proxy_stand_between_both_stateless_ends";
    if lab::skip_without(test, &["nft", "haproxy"]) {
        return;
    }
    let world = world();
    // Made in place, its answers need a neighbour that polls.
    let peer = format!(
        "{}/{}",
        world.middle().expect("a middle"),
        lab::world::MIDDLE_INTERFACES[0]
    );
    let responder = Outboard::new(Path::new(BINARY), &world)
        .start_respond(&world, &["--peer", &peer])
        .expect("a responder");
    load_in_every_way(&world, "http://10.77.0.1/?s=64");
    let proxy = start_proxy(&world);
    load_in_every_way(&world, "http://10.77.0.3:81/?s=64");
    proxy.stop(LIMIT).expect("an end");
    responder.stop(LIMIT).expect("an end");
}

/// A device that hides the client's address and ports, makes segments smaller and counts a hop.
const DEVICE: &str = "
table ip hider {
    chain prepare {
        type filter hook forward priority -150;
        tcp flags syn tcp option maxseg size set 1200
    }
    chain hide {
        type nat hook postrouting priority 100;
        ip saddr 10.77.0.2 ip protocol tcp snat to 10.77.0.3:20000-29999 fully-random
    }
}";

/// Every so many frames from the responder do not arrive.
const LOSSY: &str = "
table ip lossy {
    chain pass {
        type filter hook forward priority -140;
        iifname \"toserver0\" numgen inc mod 40 == 0 drop
    }
}";

#[test]
fn what_a_device_rewrites_and_loses_is_told_from_both_ends() {
    let test = "what_a_device_rewrites_and_loses_is_told_from_both_ends";
    if lab::skip_without(test, &["nft"]) {
        return;
    }
    let world = World::with_middle().expect("a private network");
    world.route_in_middle(MIDDLE).expect("a router");
    let add = |rules: &str| {
        let file = world.scratch().join("rules");
        std::fs::write(&file, rules).expect("a file");
        let nft = world.program_in_middle("nft").expect("a middle");
        nft.arg("-f").arg(&file).output().expect("nft");
    };
    add(DEVICE);
    let log = world.scratch().join("respond.log");
    let peer = format!(
        "{}/{}",
        world.middle().expect("a middle"),
        lab::world::MIDDLE_INTERFACES[0]
    );
    let responder = Outboard::new(Path::new(BINARY), &world)
        .start_respond(&world, &["--witness", "--peer", &peer])
        .expect("a responder");
    let log = log.display().to_string();
    let further = ["http://10.77.0.1/?s=64", "-c", "16", "-k", "10"];
    let arguments = [&further[..], &["--responder-json", &log]].concat();
    let said = load(&world, &arguments);
    let between = &said["between"];
    assert_eq!(between["lost_to_responder"], 0, "{said:#}");
    assert_eq!(between["lost_to_client"], 0, "{said:#}");
    let rewritten = &between["rewritten"];
    assert_eq!(rewritten["syns_compared"], 64, "{said:#}");
    assert_eq!(rewritten["syns_strange"], 0, "{said:#}");
    let changes = rewritten["changes"].as_array().expect("a list");
    let change = |what: &str, direction: &str| {
        let mut found = changes
            .iter()
            .filter(|change| change["what"] == what && change["direction"] == direction);
        found.next().map(|change| {
            let text = |name: &str| change[name].as_str().expect("a text").to_owned();
            (change["count"].as_u64(), text("sent"), text("arrived"))
        })
    };
    let whole = |count: u64, sent: &str, arrived: &str| {
        Some((Some(count), sent.to_owned(), arrived.to_owned()))
    };
    let there = "to responder";
    assert_eq!(
        change("source address", there),
        whole(64, "10.77.0.2", "10.77.0.3"),
        "{said:#}"
    );
    let (_, _, port) = change("source port", there).expect("ports are rewritten");
    assert!(
        (20_000..30_000).contains(&port.parse().expect("a port")),
        "{said:#}"
    );
    assert_eq!(change("MSS", there), whole(64, "1460", "1200"), "{said:#}");
    assert_eq!(change("TTL", there), whole(64, "64", "63"), "{said:#}");
    // The rule is for SYN-ACKs as well.
    let (_, _, mss) = change("MSS", "to client").expect("it is rewritten both ways");
    assert_eq!(mss, "1200", "{said:#}");
    let (_, sent, arrived) = change("TTL", "to client").expect("a hop");
    assert_eq!((&sent[..], &arrived[..]), ("64", "63"), "{said:#}");
    assert_eq!(changes.len(), 6, "{said:#}");

    add(LOSSY);
    let said = load(&world, &[&arguments[..], &["--retry", "100ms"]].concat());
    let between = &said["between"];
    assert_eq!(said["requests"].to_string(), REQUESTS, "{said:#}");
    assert_eq!(between["lost_to_responder"], 0, "{said:#}");
    let lost = between["lost_to_client"].as_u64().expect("a number");
    // One in forty of what was sent back.
    assert!((30..150).contains(&lost), "{said:#}");
    let printed = world
        .program(Side::Client, BINARY)
        .arg("load")
        .args(&arguments)
        .args(["-n", "200", "--retry", "100ms", "--grace", "60s"])
        .output()
        .expect("a client");
    assert!(
        printed.contains("Lost on the way to the responder: 0; on the way back:"),
        "{printed}"
    );
    assert!(
        printed.contains("client → responder  source address")
            && printed.contains("10.77.0.2 → 10.77.0.3"),
        "{printed}"
    );
    responder.stop(LIMIT).expect("an end");
}
