//! What an engine that runs may do, and its opener; and what follows when that is gone.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::{Counter, Outboard, total};
use lab::{Program, Side, World};

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);
/// CAP_NET_ADMIN and CAP_NET_RAW.
const TO_OPEN: u64 = 1 << 12 | 1 << 13;
const IPC_LOCK: u64 = 1 << 14;

fn read(path: String) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A line of /proc/PID/status.
fn line<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{name}: {status}")).trim()
}

fn set(status: &str, name: &str) -> u64 {
    u64::from_str_radix(line(status, name), 16).expect("a set of capabilities")
}

/// The process that an engine has started.
fn opener_of(engine: u32) -> u32 {
    let children = read(format!("/proc/{engine}/task/{engine}/children"));
    let mut children = children.split_whitespace();
    let child = children.next().expect("it has an opener");
    assert_eq!(children.next(), None, "and nobody else");
    child.parse().expect("a number")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(name: &str, pid: u32) {
    let kill = Program::new("kill").args([name, &pid.to_string()]);
    kill.output().expect("kill");
}

fn of<'a>(stats: &'a [Counter], name: &str) -> Vec<&'a Counter> {
    stats.iter().filter(|it| it.name == name).collect()
}

/// What every thread of an engine may do.
fn is_without_privileges(engine: u32) {
    let limits = read(format!("/proc/{engine}/limits"));
    let locked = limits
        .lines()
        .find(|line| line.starts_with("Max locked memory"));
    let any = locked.expect("a limit").contains("unlimited");
    let kept = if any { 0 } else { IPC_LOCK };
    let threads = std::fs::read_dir(format!("/proc/{engine}/task")).expect("it runs");
    let mut names = Vec::new();
    for thread in threads.flatten() {
        let status = read(thread.path().join("status").display().to_string());
        let name = line(&status, "Name").to_owned();
        for of in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(set(&status, of) & !kept, 0, "{name}, {of}");
        }
        names.push(name);
    }
    for name in ["slow", "asking", "stock"] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    let status = read(format!("/proc/{engine}/status"));
    assert_eq!(line(&status, "Seccomp"), "2");
    assert_eq!(line(&status, "NoNewPrivs"), "1");
}

#[test]
fn an_engine_has_no_privileges_and_its_opener_has_two() {
    if lab::skip_without_root("an_engine_has_no_privileges_and_its_opener_has_two") {
        return;
    }
    let world = World::with_queues(4).expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("it starts");
    is_without_privileges(engine.id());
    let opener = opener_of(engine.id());
    let threads = std::fs::read_dir(format!("/proc/{opener}/task")).expect("it runs");
    let mut names = Vec::new();
    for thread in threads.flatten() {
        let status = read(thread.path().join("status").display().to_string());
        for (of, is) in [
            ("CapPrm", TO_OPEN),
            ("CapEff", TO_OPEN),
            ("CapInh", 0),
            ("CapAmb", 0),
        ] {
            assert_eq!(set(&status, of), is, "{of}");
        }
        for (name, value) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
            assert_eq!(line(&status, name), value, "{name}");
        }
        names.push(line(&status, "Name").to_owned());
    }
    names.sort();
    assert_eq!(names, ["neighbours", "opener"]);
    // It has inherited nothing of the engine's: two ways to that, and of its own a socket for neighbours, and one for
    // what a device does with the tags of VLANs.
    let fds = std::fs::read_dir(format!("/proc/{opener}/fd")).expect("it runs");
    let fds = fds
        .flatten()
        // Its errors go where the engine's do, whatever that is.
        .filter(|fd| fd.file_name() != "2")
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let fds: BTreeSet<String> = fds.map(|to| to.display().to_string()).collect();
    let sockets = fds.iter().filter(|to| to.starts_with("socket:"));
    let others = fds.iter().filter(|to| to.starts_with("anon_inode:"));
    assert_eq!((sockets.count(), others.count()), (4, 0), "{fds:?}");
    let words = read(format!("/proc/{opener}/cmdline"));
    assert!(words.starts_with("outboard\0opener\0"), "{words}");

    let stats = outboard.stats().expect("it answers");
    let names = of(&stats, "opener_capability");
    let names: Vec<&str> = names.iter().map(|it| &it.labels[0][..]).collect();
    assert_eq!(names, ["CAP_NET_ADMIN", "CAP_NET_RAW"]);
    assert_eq!(total(&stats, "opener"), 1.0);
    assert_eq!(total(&stats, "confined"), 1.0);
    let kept = of(&stats, "capability");
    assert!(kept.iter().all(|it| it.labels == ["CAP_IPC_LOCK"]));
    let log = read(world.scratch().join("engine.log").display().to_string());
    assert!(log.contains("privileges kept by the opener"), "{log}");

    // It goes with its engine, however that goes.
    engine.kill().expect("killed");
    until("the opener goes with its engine", || is_gone(opener));
}

/// Something of the server's at the other end, over a connection of its own.
fn fetch(world: &World, address: SocketAddr) -> String {
    let fetched = world.on(Side::Client, || {
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    });
    fetched.expect("fetched")
}

#[test]
fn an_engine_whose_opener_is_killed_says_so_and_serves_on() {
    if lab::skip_without_root("an_engine_whose_opener_is_killed_says_so_and_serves_on") {
        return;
    }
    let world = World::with_queues(2).expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("it starts");
    let site = world.scratch().join("site");
    std::fs::create_dir(&site).expect("a directory");
    std::fs::write(site.join("page"), "it is served").expect("a page");
    let address = SocketAddr::new(Side::Server.ipv4().into(), 8080);
    let _server = outboard
        .start_serve(&world, &site, address)
        .expect("it serves");
    let accepted = || total(&outboard.stats().expect("it answers"), "tcp_passive_opens");
    let log = || read(world.scratch().join("engine.log").display().to_string());
    assert!(fetch(&world, address).ends_with("it is served"));
    assert!(!log().contains("the opener is gone"));

    let opener = opener_of(engine.id());
    kill("-KILL", opener);
    until("it says so in its counts", || {
        total(&outboard.stats().expect("it answers"), "opener") == 0.0
    });
    let said = log();
    assert_eq!(said.matches("the opener is gone").count(), 1, "{said}");
    assert!(said.contains("ended by signal 9"), "{said}");
    until("nothing of it stays", || is_gone(opener));
    is_without_privileges(engine.id());
    let before = accepted();
    for _ in 0..10 {
        assert!(fetch(&world, address).ends_with("it is served"));
    }
    assert!(accepted() >= before + 10.0, "by the engine");
    // Addresses come and go on every network: whoever cannot read the rules any more need not.
    let ip = |words: &str| {
        let ip = world.program(Side::Server, "ip").args(words.split(' '));
        ip.output().expect("ip");
    };
    for _ in 0..3 {
        let interface = Side::Server.interface();
        ip(&format!("addr add 192.0.2.77/32 dev {interface}"));
        ip(&format!("addr del 192.0.2.77/32 dev {interface}"));
        let before = accepted();
        assert!(fetch(&world, address).ends_with("it is served"));
        assert!(accepted() > before, "by the engine: {}", log());
    }
    engine.stop(LIMIT).expect("it stops");
}

#[test]
fn an_opener_that_is_stopped_holds_up_nobody_and_then_is_gone() {
    let test = "an_opener_that_is_stopped_holds_up_nobody_and_then_is_gone";
    if lab::skip_without(test, &["nft"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("it starts");
    let site = world.scratch().join("site");
    std::fs::create_dir(&site).expect("a directory");
    std::fs::write(site.join("page"), "it is served").expect("a page");
    let address = SocketAddr::new(Side::Server.ipv4().into(), 8080);
    let _server = outboard
        .start_serve(&world, &site, address)
        .expect("it serves");
    let count = |name: &str| total(&outboard.stats().expect("it answers"), name);
    let log = || read(world.scratch().join("engine.log").display().to_string());
    assert!(fetch(&world, address).ends_with("it is served"));
    let nft = |words: &str| {
        let nft = world.program(Side::Server, "nft").args(words.split(' '));
        nft.output().expect("nft");
    };

    let opener = opener_of(engine.id());
    kill("-STOP", opener);
    // Rules that change cannot be read from now on: what is new is the kernel's, and is served.
    nft("add table ip some");
    let mut asked = 0;
    until("it is given up", || {
        asked += 1;
        count("opener") == 0.0
    });
    assert!(asked > 10, "it answers in between: {asked}\n{}", log());
    let before = count("tcp_passive_opens");
    assert!(fetch(&world, address).ends_with("it is served"));
    assert_eq!(count("tcp_passive_opens"), before, "by the kernel");
    nft("add table ip another");
    assert!(fetch(&world, address).ends_with("it is served"));
    let said = log();
    assert_eq!(said.matches("the opener is gone").count(), 1, "{said}");
    for once in ["which rules there are error=", "until it does"] {
        assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
    }
    kill("-CONT", opener);
    until("it hears that nobody asks it", || is_gone(opener));
    engine.stop(LIMIT).expect("it stops");
}

#[test]
fn what_is_told_to_all_processes_of_an_engine_does_not_end_its_opener() {
    let test = "what_is_told_to_all_processes_of_an_engine_does_not_end_its_opener";
    if lab::skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("it starts");
    let opener = opener_of(engine.id());
    let caught = set(&read(format!("/proc/{opener}/status")), "SigCgt");
    for (name, signal) in [("-HUP", 1), ("-INT", 2), ("-QUIT", 3), ("-TERM", 15)] {
        kill(name, opener);
        assert_ne!(caught & 1 << (signal - 1), 0, "{name}");
    }
    let stats = outboard.stats().expect("it answers");
    assert_eq!(total(&stats, "opener"), 1.0);
    assert!(!is_gone(opener));
    assert_eq!(opener_of(engine.id()), opener);
    let status = read(format!("/proc/{opener}/status"));
    assert!(!line(&status, "State").starts_with('Z'), "{status}");
    // What a terminal tells goes to its group.
    let group = |pid: u32| {
        let stat = read(format!("/proc/{pid}/stat"));
        let behind = stat.rsplit(')').next().expect("its numbers");
        let group = behind.split_whitespace().nth(2).expect("its group");
        group.to_owned()
    };
    assert_ne!(group(opener), group(engine.id()));
    engine.stop(LIMIT).expect("it stops");
    until("it goes with its engine", || is_gone(opener));
}

#[test]
fn an_engine_that_keeps_its_privileges_has_no_opener() {
    if lab::skip_without_root("an_engine_that_keeps_its_privileges_has_no_opener") {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard
        .start_engine_with(&world, "keep_privileges = true\n")
        .expect("it starts");
    let children = read(format!("/proc/{0}/task/{0}/children", engine.id()));
    assert_eq!(children.trim(), "");
    let stats = outboard.stats().expect("it answers");
    assert!(of(&stats, "opener").is_empty());
    assert_eq!(total(&stats, "confined"), 0.0);
    engine.stop(LIMIT).expect("it stops");
}
