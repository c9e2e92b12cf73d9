//! A server with many children that accept, as Apache's prefork and PostgreSQL: each of them on the engine,
//! every client served, and memory for no more than is used.
//!
//! `OUTBOARD_TEST_CHILDREN=1000` makes it as many children; the gate has 64.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(300);
/// Most bytes for a child that serves nobody, at the engine and shared with it.
const IDLE_CHILD: u64 = 512 << 10;

/// The bytes under a name in a process's memory (proc_pid_smaps(5)).
fn memory(pid: u32, name: &str) -> u64 {
    let all = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The program that `process` has started, behind whatever it was started by.
fn server(process: &Process, count: usize) -> Option<u32> {
    let mut pid = process.id();
    loop {
        let below = children(pid);
        if below.len() >= count {
            return Some(pid);
        }
        pid = *below.first()?;
    }
}

#[test]
fn every_child_of_a_prefork_server_serves_on_the_engine() {
    let test = "every_child_of_a_prefork_server_serves_on_the_engine";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let count = std::env::var("OUTBOARD_TEST_CHILDREN").ok();
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(64);
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let anonymous = memory(engine.id(), "Pss_Anon:");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prefork/server.py");
    let mut process = outboard
        .on_engine(&world, "python3")
        .arg(script)
        .arg(count.to_string())
        .log(world.scratch().join("server.log"))
        .start()
        .expect("it starts");
    let sessions = || total(&outboard.stats().unwrap_or_default(), "sessions");
    let mut seen = 0.0;
    let waited = process.wait_until(PATIENCE, || {
        seen = sessions();
        seen >= count as f64
    });
    waited.unwrap_or_else(|error| panic!("{error:#}: {seen} of {count} have attached"));
    let parent = server(&process, count).expect("they are its children");
    let all = children(parent);
    let shared: u64 = all.iter().map(|pid| memory(*pid, "Pss_Shmem:")).sum();
    let own = memory(engine.id(), "Pss_Anon:").saturating_sub(anonymous);
    let each = (shared + memory(engine.id(), "Pss_Shmem:") + own) / count as u64;
    println!("{count} children: {} KiB each", each >> 10);
    assert!(each < IDLE_CHILD, "an idle child costs {each} bytes");

    // Two at a time for each child, and one after the other.
    let accepted = || total(&outboard.stats().expect("counters"), "tcp_passive_opens");
    let clients = 2 * count;
    let before = accepted();
    let served = std::sync::Mutex::new(BTreeSet::new());
    world
        .on(Side::Client, || {
            let begin = Instant::now();
            let mut streams: Vec<TcpStream> = Vec::new();
            for _ in 0..clients {
                streams.push(TcpStream::connect_timeout(
                    &(Side::Server.ipv4(), 7000).into(),
                    PATIENCE,
                )?);
            }
            for stream in &mut streams {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"x")?;
            }
            for stream in &mut streams {
                let mut said = String::new();
                stream.read_to_string(&mut said)?;
                served.lock().unwrap().insert(said);
            }
            println!("{clients} clients in {:?}", begin.elapsed());
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", process.printed()));
    assert_eq!(accepted() - before, clients as f64, "all on the engine");
    let served = served.into_inner().unwrap();
    assert!(
        served.len() * 2 > count,
        "{} of {count} served",
        served.len()
    );
    let dropped = |name: &str| {
        let counters = outboard.stats().expect("counters");
        let of = |counter: &&lab::outboard::Counter| counter.labels == [name];
        counters
            .iter()
            .filter(of)
            .map(|counter| counter.value)
            .sum::<f64>()
    };
    assert_eq!(dropped("forks_full") + dropped("sessions_full"), 0.0);
    let explained = outboard.command(&world, "explain").arg(all[0].to_string());
    let explained = explained.output().expect("an answer");
    assert!(explained.contains("7000"), "{explained}");
    process.stop(PATIENCE).expect("an end");
}
