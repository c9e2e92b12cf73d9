//! A listener under the highest rate of SYNs that a sender on the same machine reaches: clients are
//! still served, and nothing grows.
#![forbid(unsafe_code)]

use lab::flood::SynFlood;
use lab::nginx::Nginx;
use lab::outboard::{Outboard, total};
use lab::{Side, World, sampler, skip_without_root, tool};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// What may differ between two looks at a process that does not grow.
const SLACK: u64 = 2 << 20;
/// How long a client may take under attack, its own SYNs lost again and again.
const PATIENCE: Duration = Duration::from_secs(300);
const HALF_OPEN: u64 = 512;
const CLIENTS: usize = 20;

#[test]
fn clients_are_served_under_a_flood_that_leaves_nothing() {
    if skip_without_root("clients_are_served_under_a_flood_that_leaves_nothing") {
        return;
    }
    let world = World::new().unwrap();
    let site = world.site(&[("small", b"hello")]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let settings = format!("[limits]\nhalf_open = {HALF_OPEN}\n");
    let engine = outboard.start_engine_with(&world, &settings).unwrap();
    let address = Nginx::address();
    let _server = outboard.start_serve(&world, &site, address).unwrap();

    let flood = SynFlood::start(&world, address).unwrap();
    let cookies = || total(&outboard.stats().unwrap(), "tcp_syn_cookies_sent");
    let begin = Instant::now();
    while cookies() < 100_000.0 {
        assert!(begin.elapsed() < PATIENCE, "the flood does not arrive");
    }
    let before = sampler::private_memory(engine.id()).unwrap();
    let mut times: Vec<Duration> = (0..CLIENTS)
        .map(|_| {
            let begin = Instant::now();
            world.on(Side::Client, || Ok(fetch(address)?)).unwrap();
            begin.elapsed()
        })
        .collect();
    let after = sampler::private_memory(engine.id()).unwrap();
    let report = flood.stop().unwrap();
    let stats = outboard.stats().unwrap();
    times.sort();
    println!(
        "{:.0} SYNs/s sent, {:.0} cookies, {:.0} of them back; a client was served in {:?} \
         (median), {:?} (worst)",
        report.rate(),
        total(&stats, "tcp_syn_cookies_sent"),
        total(&stats, "tcp_syn_cookies_accepted"),
        times[CLIENTS / 2],
        times[CLIENTS - 1],
    );
    assert!(total(&stats, "tcp_syn_cookies_accepted") > 0.0);
    assert!(
        after <= before + SLACK,
        "memory grew from {before} to {after}"
    );
    // Strangers are answered the way that they came: nobody is asked who they are.
    let neighbours = tool::run(&format!("ip -n {} neigh", world.name(Side::Server))).unwrap();
    assert!(!neighbours.contains("10.1"), "{neighbours}");
    // And afterwards it is as if nothing had been.
    world.on(Side::Client, || Ok(fetch(address)?)).unwrap();
}

/// One request on a connection of its own.
fn fetch(address: std::net::SocketAddr) -> std::io::Result<()> {
    // The kernel gives up after seven SYNs; a client that is lost among others begins again.
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Err(error)
                if error.kind() == std::io::ErrorKind::TimedOut && begin.elapsed() < PATIENCE => {}
            connected => break connected?,
        }
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );
    Ok(())
}
