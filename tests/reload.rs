//! An engine whose configuration is read again while a program serves on it.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

#[test]
fn an_engine_reads_its_configuration_again_and_keeps_its_connections() {
    let test = "an_engine_reads_its_configuration_again_and_keeps_its_connections";
    if lab::skip_without(test, &["kill"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let write = |settings: &str| {
        std::fs::write(world.scratch().join("engine.toml"), settings).expect("a file");
    };
    let reload = || outboard.command(&world, "reload").output();
    let mut engine = outboard
        .start_engine_with(&world, "drain_seconds = 5\n")
        .expect("an engine");
    let address = SocketAddr::from((Side::Server.ipv4(), 8080));
    let server = outboard
        .start_serve(&world, world.scratch(), address)
        .expect("a server");
    assert_eq!(reload().expect("an answer"), "nothing changed\n");

    let client = world
        .on(Side::Client, || Ok(TcpStream::connect(address)?))
        .expect("a connection");
    let connections = || {
        let rows = outboard.sockets().expect("sockets");
        let open = |row: &&serde_json::Value| row["state"] == "ESTABLISHED";
        rows.iter().filter(open).count()
    };
    let mut seen = 0;
    engine
        .wait_until(LIMIT, || {
            seen = connections();
            seen == 1
        })
        .unwrap_or_else(|error| panic!("{error}: {seen}"));

    // The port is left to the kernel, and the connection goes on.
    write(
        "drain_seconds = 7\nspin_microseconds = 11\nqueues = [0]\nreceive_frames = 8192\n[access]\ndeny = [{ ports = \"8080\" }]\n",
    );
    assert_eq!(
        reload().expect("an answer"),
        "changed: access, drain_seconds, queues, spin_microseconds\n\
         only a new start of the engine changes: receive_frames\n"
    );
    assert_eq!(connections(), 1);
    let second = world
        .on(Side::Client, || Ok(TcpStream::connect(address)?))
        .expect("the kernel serves");
    assert_eq!(connections(), 1, "a new connection is the kernel's");

    // What is wrong changes nothing, and says where it is.
    write("drain_seconds = \"soon\"\n");
    let refused = reload().expect_err("it is refused").to_string();
    assert!(refused.contains("engine.toml:1: "), "{refused}");

    // By SIGHUP: the port is the engine's again.
    write("spin_microseconds = 11\nprofile = \"latency\"\n[tcp]\ncongestion = \"reno\"\n");
    let pid = engine.id().to_string();
    world
        .program(Side::Server, "kill")
        .args(["-HUP", &pid])
        .output()
        .expect("a signal");
    let mut log = String::new();
    engine
        .wait_until(LIMIT, || {
            log = std::fs::read_to_string(world.scratch().join("engine.log")).unwrap_or_default();
            log.matches("configuration read again").count() == 3
        })
        .unwrap_or_else(|error| panic!("{error}: {log}"));
    let third = world
        .on(Side::Client, || Ok(TcpStream::connect(address)?))
        .expect("a connection");
    engine
        .wait_until(LIMIT, || connections() == 2)
        .expect("the engine has it");
    // A listener that was there before has the new settings for who comes.
    let rows = outboard.sockets().expect("sockets");
    let algorithms = rows
        .iter()
        .filter_map(|row| row["info"]["congestion"].as_str());
    let mut algorithms: Vec<&str> = algorithms.collect();
    algorithms.sort_unstable();
    assert_eq!(algorithms, ["cubic", "reno"]);
    let stats = outboard.stats().expect("counters");
    let serving = |profile: &str| {
        stats.iter().any(|counter| {
            counter.name == "worker_profile"
                && counter.labels.iter().any(|label| label == profile)
                && counter.value == 1.0
        })
    };
    assert!(serving("latency") && !serving("balanced"), "{stats:?}");
    drop((client, second, third));
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
}

#[test]
fn without_a_file_there_is_nothing_to_read() {
    if lab::skip_without("without_a_file_there_is_nothing_to_read", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let refused = outboard.command(&world, "reload").output();
    let refused = refused.expect_err("it is refused").to_string();
    assert!(refused.contains("without --config FILE"), "{refused}");
    engine.stop(LIMIT).expect("an end");
}
