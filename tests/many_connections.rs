//! 10,000 connections at once, and 100,000 one after the other: nothing grows, nothing is lost.
#![forbid(unsafe_code)]

use lab::load::Load;
use lab::nginx::Nginx;
use lab::outboard::Outboard;
use lab::{Process, Side, World, sampler, skip_without_root};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const AT_ONCE: usize = 10_000;
const BODY: &str = "hello";
const PATIENCE: Duration = Duration::from_secs(60);
const IN_SEQUENCE: f64 = 100_000.0;
/// Connections a second, on a machine that manages so many.
const RATE: f64 = 5_000.0;
/// What may differ between two looks at a process that does not grow.
const SLACK: u64 = 2 << 20;

struct Bench {
    engine: Process,
    outboard: Outboard,
    site: PathBuf,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Bench {
    fn new() -> Self {
        let world = World::new().unwrap();
        let site = world.site(&[("small", BODY.as_bytes())]).unwrap();
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        // A short memory for what has ended, so that it is full before a measurement begins.
        let settings = "[limits]\ntime_wait = 8192\n";
        let engine = outboard.start_engine_with(&world, settings).unwrap();
        Self {
            engine,
            outboard,
            site,
            world,
        }
    }

    fn serve(&self) -> Process {
        self.outboard
            .start_serve(&self.world, &self.site, address())
            .unwrap()
    }
}

fn address() -> SocketAddr {
    Nginx::address()
}

#[test]
fn a_hundred_thousand_connections_in_sequence_leave_no_trace() {
    if skip_without_root("a_hundred_thousand_connections_in_sequence_leave_no_trace") {
        return;
    }
    let bench = Bench::new();
    let server = bench.serve();
    let pids = [bench.engine.id(), server.id()];
    let run = |count: f64| {
        let load = Load {
            server: address(),
            path: "/small".into(),
            close: true,
            connections: 64,
            rate: RATE,
            duration: Duration::from_secs_f64(count / RATE),
            // They follow later where the machine does not manage so many.
            grace: Duration::from_secs(300),
        };
        let outcome = bench.world.on(Side::Client, || load.run()).unwrap();
        assert_eq!(outcome.answered, outcome.due, "{} failed", outcome.failed);
    };
    run(IN_SEQUENCE / 5.0);
    let look = || {
        pids.map(|pid| {
            let memory = sampler::private_memory(pid).unwrap();
            (memory, sampler::descriptors(pid).unwrap())
        })
    };
    let before = look();
    run(IN_SEQUENCE);
    for ((memory_before, fds_before), (memory, fds)) in before.into_iter().zip(look()) {
        assert!(
            memory <= memory_before + SLACK,
            "memory grew from {memory_before} to {memory}"
        );
        assert!(
            fds <= fds_before,
            "descriptors grew from {fds_before} to {fds}"
        );
    }
}

#[test]
fn ten_thousand_connections_are_open_at_once() {
    if skip_without_root("ten_thousand_connections_are_open_at_once") {
        return;
    }
    let bench = Bench::new();
    let server = bench.serve();
    // A socket of the native interface needs no descriptor.
    open_at_once(&bench, server.id(), 0);
}

#[test]
fn ten_thousand_connections_are_open_at_once_to_nginx() {
    if skip_without_root("ten_thousand_connections_are_open_at_once_to_nginx") {
        return;
    }
    let bench = Bench::new();
    let nginx = Nginx::start(&bench.world, Some(&bench.outboard), &bench.site, None).unwrap();
    open_at_once(&bench, nginx.worker(), AT_ONCE);
}

/// Opens many connections to the server `pid`, uses all of them, and closes them; meanwhile the
/// server has so many descriptors at least.
fn open_at_once(bench: &Bench, pid: u32, more: usize) {
    allow_descriptors();
    let before = sampler::descriptors(pid).unwrap();
    let streams = bench
        .world
        .on(Side::Client, || {
            let mut streams = Vec::with_capacity(AT_ONCE);
            for _ in 0..AT_ONCE {
                let stream = TcpStream::connect_timeout(&address(), PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                streams.push(stream);
            }
            // All of them work, in whatever order.
            for mut stream in streams.iter().rev() {
                stream.write_all(b"GET /small HTTP/1.1\r\nHost: test\r\n\r\n")?;
            }
            for mut stream in &streams {
                let mut heard = Vec::new();
                let mut buffer = [0; 512];
                while !heard.ends_with(BODY.as_bytes()) {
                    let length = stream.read(&mut buffer)?;
                    assert!(length > 0, "a connection ended");
                    heard.extend_from_slice(&buffer[..length]);
                }
            }
            Ok(streams)
        })
        .unwrap();
    // By then it has closed the one by which its start was seen, which may be among those before.
    assert!(sampler::descriptors(pid).unwrap() >= more);
    assert!(bench.outboard.sockets().unwrap().len() >= AT_ONCE);
    drop(streams);
    let closed = Instant::now();
    // nginx may keep some descriptors of files.
    while sampler::descriptors(pid).unwrap() > before + 8 {
        assert!(closed.elapsed() < PATIENCE, "descriptors stay");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// This process is the client of all of them.
fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = AT_ONCE as u64 + 1_000;
    limit.current = Some(limit.current.unwrap_or(u64::MAX).max(wanted));
    limit.maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, limit).unwrap();
}
