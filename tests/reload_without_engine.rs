//! The engine is killed and started at any moment of reloads and upgrades of nginx, under load: the master and its
//! workers live, the port is served all the time by whoever is there, and by the engine again once it is back.
//!
//! `OUTBOARD_TEST_RELOADS` says how many of each kind; `OUTBOARD_TEST_SEED` at which moments.
#![forbid(unsafe_code)]

mod on_drop;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::nginx::{BODY_64, Lines, Nginx};
use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use on_drop::OnDrop;
use rustix::process::{Pid, Signal, kill_process};

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

/// An engine that comes and goes.
struct Engine<'a> {
    outboard: &'a Outboard,
    world: &'a World,
    running: Option<Process>,
    random: Random,
}

impl<'a> Engine<'a> {
    fn start(outboard: &'a Outboard, world: &'a World) -> Self {
        Self {
            outboard,
            world,
            running: Some(outboard.start_engine(world, None).expect("an engine")),
            random: Random(number("OUTBOARD_TEST_SEED", 8_272_025)),
        }
    }

    /// Kills it, or starts it, in a moment.
    fn comes_or_goes(&mut self) {
        std::thread::sleep(Duration::from_micros(self.random.below(60_000)));
        match self.running.take() {
            Some(running) => drop(running.kill().expect("killed")),
            None => self.comes(),
        }
    }

    fn comes(&mut self) {
        let start = || self.outboard.start_engine(self.world, None);
        self.running
            .get_or_insert_with(|| start().expect("an engine"));
    }

    /// What it says of all that are called nginx.
    fn explained(&self) -> String {
        let command = self.outboard.command(self.world, "explain").arg("nginx");
        command.output().unwrap_or_else(|error| error.to_string())
    }

    /// Waits until it serves a port, once it is back.
    fn takes(&mut self, port: u16) {
        self.comes();
        let begin = Instant::now();
        let counters = || self.outboard.stats().expect("counters");
        let accepted = || total(&counters(), "tcp_passive_opens");
        let from = accepted();
        while accepted() < from + 5.0 {
            assert!(
                begin.elapsed() < PATIENCE,
                "the port is not the engine's again: {}",
                self.explained()
            );
            let fetched = self.world.on(Side::Client, || Ok(fetch(port)?));
            assert!(fetched.expect("served"), "cut short");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Clients, of which some are served as long as somebody serves at all.
struct Clients {
    served: AtomicUsize,
    over: AtomicBool,
}

impl Clients {
    /// Does `work` while they ask, again and again.
    fn with<R>(world: &World, port: u16, work: impl FnOnce(&Self) -> R) -> R {
        let clients = Self {
            served: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    world.enter(Side::Client).expect("its namespace");
                    while !clients.over.load(Ordering::Relaxed) {
                        if fetch(port).is_ok_and(|right| right) {
                            clients.served.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let _end = OnDrop(|| clients.over.store(true, Ordering::Relaxed));
            work(&clients)
        })
    }

    /// Waits until some more are served.
    fn are_served(&self, when: &str) {
        let from = self.served.load(Ordering::Relaxed);
        until(&format!("{when}: nobody is served"), || {
            self.served.load(Ordering::Relaxed) >= from + 5
        });
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(signal: Signal, process: u32) {
    let process = Pid::from_raw(process.cast_signed()).expect("a process");
    kill_process(process, signal).expect("it takes signals");
}

fn reloads(test: &str, port: u16, lines: &Lines) {
    if lab::skip_without(test, &["nginx"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = world.site(&[]).expect("a site");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let mut engine = Engine::start(&outboard, &world);
    let mut nginx = Nginx::start_with(&world, Some(&outboard), &site, None, lines).expect("nginx");
    let master = nginx.master().id();
    Clients::with(&world, port, |clients| {
        for _ in 0..number("OUTBOARD_TEST_RELOADS", 3) {
            for (signal, name) in [(Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
                send(signal, master);
                engine.comes_or_goes();
                clients.are_served(name);
                assert!(
                    nginx.master().ended().expect("known").is_none(),
                    "nginx ended"
                );
            }
        }
    });
    engine.takes(port);
    nginx.stop().expect("an end");
}

/// An nginx that is a daemon: any other ignores USR2, because its parent is the one that has started it.
struct Daemon {
    directory: PathBuf,
}

impl Daemon {
    fn start(world: &World, outboard: &Outboard, processes: usize, listen: &str) -> Self {
        let directory = world.scratch().join("daemon");
        std::fs::create_dir_all(&directory).expect("a directory");
        let here = directory.display();
        let parts = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let places: String = parts
            .map(|part| format!("{part}_temp_path {here}/{part}; "))
            .concat();
        let configuration = format!(
            "user root; worker_processes {processes}; pid {here}/pid; error_log {here}/error.log notice;
             events {{ worker_connections 1024; }}
             http {{ access_log off; {places}
             server {{ listen {listen}; location = /64 {{ return 200 \"{BODY_64}\"; }} }} }}\n"
        );
        let file = directory.join("nginx.conf");
        std::fs::write(&file, configuration).expect("a configuration");
        // It executes itself again by the path that it was started with.
        let nginx = lab::tool::find("nginx").expect("it is installed");
        let started = outboard.on_engine(world, nginx).arg("-c").arg(&file);
        started.output().expect("nginx starts");
        let daemon = Self { directory };
        until("no daemon", || daemon.master().is_some());
        daemon
    }

    /// The one that serves, or the newer of two.
    fn master(&self) -> Option<u32> {
        let written = std::fs::read_to_string(self.directory.join("pid")).ok()?;
        written.trim().parse().ok()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.directory.join("error.log")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for name in ["pid", "pid.oldbin"] {
            let written = std::fs::read_to_string(self.directory.join(name)).unwrap_or_default();
            if let Some(master) = written.trim().parse().ok().and_then(Pid::from_raw) {
                // Its workers end with it.
                let _ = kill_process(master, Signal::TERM);
            }
        }
    }
}

fn upgrades(test: &str, processes: usize, listen: &str) {
    if lab::skip_without(test, &["nginx"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let mut engine = Engine::start(&outboard, &world);
    let daemon = Daemon::start(&world, &outboard, processes, listen);
    let is_there = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    Clients::with(&world, 80, |clients| {
        clients.are_served("at first");
        for _ in 0..number("OUTBOARD_TEST_RELOADS", 3) {
            let old = daemon.master().expect("a process");
            send(Signal::USR2, old);
            engine.comes_or_goes();
            let mut new = old;
            until("no new one starts", || {
                new = daemon.master().unwrap_or(old);
                new != old
            });
            clients.are_served("by both");
            send(Signal::QUIT, old);
            engine.comes_or_goes();
            until("the old one stays", || !is_there(old));
            clients.are_served("by the new one");
            assert!(is_there(new), "the new one has ended:\n{}", daemon.said());
        }
    });
    engine.takes(80);
    let last = daemon.master().expect("a process");
    send(Signal::QUIT, last);
    until("the last one stays", || !is_there(last));
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

#[test]
fn an_nginx_of_one_worker_is_upgraded_while_engines_come_and_go() {
    let test = "an_nginx_of_one_worker_is_upgraded_while_engines_come_and_go";
    upgrades(test, 1, "80");
}

#[test]
fn an_nginx_of_four_workers_is_upgraded_while_engines_come_and_go() {
    let test = "an_nginx_of_four_workers_is_upgraded_while_engines_come_and_go";
    upgrades(test, 4, "80");
}

#[test]
fn an_nginx_with_four_queues_is_upgraded_while_engines_come_and_go() {
    let test = "an_nginx_with_four_queues_is_upgraded_while_engines_come_and_go";
    upgrades(test, 4, "80 reuseport");
}
