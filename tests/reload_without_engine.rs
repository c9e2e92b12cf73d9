//! The engine is killed and started at any moment of reloads of nginx, under load: the master and its workers
//! live, the port is served all the time by whoever is there, and by the engine again once it is back.
//!
//! `OUTBOARD_TEST_RELOADS` says how many reloads of each kind; `OUTBOARD_TEST_SEED` at which moments.
#![forbid(unsafe_code)]

mod on_drop;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::nginx::{BODY_64, Lines, Nginx};
use lab::outboard::{Outboard, total};
use lab::{Side, World};
use on_drop::OnDrop;

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// So long a client waits whose engine may be gone, before it asks anew.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(1);
const REQUEST: &[u8] = b"GET /64 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
/// Clients at a time.
const CLIENTS: usize = 3;

fn number(name: &str, else_: u64) -> u64 {
    let told = std::env::var(name).ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(else_)
}

/// One request on a connection of its own. When its engine is killed it may be reset, or hear nothing more: nobody
/// is there to say so.
fn fetch(port: u16) -> std::io::Result<bool> {
    let address = (Side::Server.ipv4(), port).into();
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(CLIENTS_PATIENCE))?;
    stream.set_write_timeout(Some(CLIENTS_PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard)?;
    Ok(heard.ends_with(BODY_64.as_bytes()))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

fn reloads(test: &str, port: u16, lines: &Lines) {
    if lab::skip_without(test, &["nginx", "kill"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = world.site(&[]).expect("a site");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let mut engine = Some(outboard.start_engine(&world, None).expect("an engine"));
    let mut nginx = Nginx::start_with(&world, Some(&outboard), &site, None, lines).expect("nginx");
    let master = nginx.master().id();
    let mut random = Random(number("OUTBOARD_TEST_SEED", 8_272_025));
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let serves = |what: &str| {
        let (begin, from) = (Instant::now(), served.load(Ordering::Relaxed));
        while served.load(Ordering::Relaxed) < from + 5 {
            assert!(begin.elapsed() < PATIENCE, "{what}: nobody is served");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                world.enter(Side::Client).expect("its namespace");
                while !over.load(Ordering::Relaxed) {
                    if fetch(port).is_ok_and(|right| right) {
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let _end = OnDrop(|| over.store(true, Ordering::Relaxed));
        for _ in 0..number("OUTBOARD_TEST_RELOADS", 3) {
            for signal in ["-HUP", "-USR1"] {
                let kill = world.program(Side::Server, "kill");
                kill.args([signal, &master.to_string()])
                    .output()
                    .expect("a signal");
                std::thread::sleep(Duration::from_micros(random.below(60_000)));
                match engine.take() {
                    Some(running) => drop(running.kill().expect("killed")),
                    None => {
                        engine = Some(outboard.start_engine(&world, None).expect("an engine"));
                    }
                }
                serves(signal);
                assert!(
                    nginx.master().ended().expect("known").is_none(),
                    "nginx ended"
                );
            }
        }
    });
    if engine.is_none() {
        engine = Some(outboard.start_engine(&world, None).expect("an engine"));
    }
    // By the engine, once it is back.
    let begin = Instant::now();
    let accepted = || total(&outboard.stats().expect("counters"), "tcp_passive_opens");
    let from = accepted();
    while accepted() < from + 5.0 {
        assert!(
            begin.elapsed() < PATIENCE,
            "the port is not the engine's again"
        );
        let served = world.on(Side::Client, || Ok(fetch(port)?)).expect("served");
        assert!(served, "cut short");
        std::thread::sleep(Duration::from_millis(20));
    }
    nginx.stop().expect("an end");
    drop(engine);
}

#[test]
fn one_worker_reloads_while_engines_come_and_go() {
    let test = "one_worker_reloads_while_engines_come_and_go";
    reloads(test, 80, &Lines::default());
}

#[test]
fn four_workers_reload_while_engines_come_and_go() {
    let test = "four_workers_reload_while_engines_come_and_go";
    let lines = Lines {
        processes: 4,
        ..Lines::default()
    };
    reloads(test, 80, &lines);
}

#[test]
fn four_workers_with_a_queue_each_reload_while_engines_come_and_go() {
    let test = "four_workers_with_a_queue_each_reload_while_engines_come_and_go";
    let lines = Lines {
        processes: 4,
        server: "listen 0.0.0.0:8080 reuseport;".to_owned(),
        ..Lines::default()
    };
    reloads(test, 8080, &lines);
}
