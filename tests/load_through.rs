//! `outboard load` through what people put in front of servers: a firewall that follows
//! connections (nftables), and a proxy (HAProxy). No packet may be invalid to the firewall, whose
//! idea of what TCP allows is strict.

use std::net::Ipv4Addr;
use std::time::Duration;

use lab::{Side, World};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
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
        .args(["--json", "-n", REQUESTS])
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
            "global\n  maxconn 2000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client \
             30s\n  timeout server 30s\nfrontend f\n  bind {MIDDLE}:81\n  default_backend \
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
    let log = world.scratch().join("respond.log");
    // Made in place, its answers need a neighbour that polls.
    let peer = format!(
        "{}/{}",
        world.middle().expect("a middle"),
        lab::world::MIDDLE_INTERFACES[0]
    );
    let mut responder = world
        .program(Side::Server, BINARY)
        .args([
            "respond",
            "-i",
            Side::Server.interface(),
            "-L",
            ":80",
            "--json",
        ])
        .args(["--peer", &peer])
        .log(&log)
        .start()
        .expect("a responder");
    responder
        .wait_until(LIMIT, || {
            std::fs::read_to_string(&log).is_ok_and(|said| said.contains('{'))
        })
        .expect("a responder");
    load_in_every_way(&world, "http://10.77.0.1/?s=64");
    let proxy = start_proxy(&world);
    load_in_every_way(&world, "http://10.77.0.3:81/?s=64");
    proxy.stop(LIMIT).expect("an end");
    responder.stop(LIMIT).expect("an end");
}
