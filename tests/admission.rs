//! Who may connect to a listener of a program over `outboard.h`: the engine refuses the SYN, and the
//! library what the kernel has accepted.

mod native_programs;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Side, World};
use native_programs::{compile, library};
use rustix::net::{AddressFamily, SocketType};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn connect(at: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, HANG)?;
    stream.set_read_timeout(Some(HANG))?;
    Ok(stream)
}

/// Waits until a program has said a word, as the last one.
fn until(log: &Path, word: &str) {
    let start = Instant::now();
    loop {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        if said.lines().last() == Some(word) {
            return;
        }
        assert!(start.elapsed() < HANG, "{word}: {said}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Plays the clients of a program; at an engine the one too many is refused by the answer to its SYN.
fn play(log: &Path, world: &World, by_engine: bool) {
    world.enter(Side::Client).expect("the client's side");
    let at = SocketAddr::from((Side::Server.ipv4(), PORT));
    until(log, "ready");
    let mut first = connect(at).expect("the first");
    first.write_all(b"first").expect("data");
    until(log, "full");
    let refused = match connect(at) {
        Err(error) => error.kind(),
        Ok(mut second) => {
            assert!(!by_engine, "the engine has made a connection of it");
            second.read(&mut [0; 1]).expect_err("a reset").kind()
        }
    };
    let expected = match by_engine {
        true => ErrorKind::ConnectionRefused,
        false => ErrorKind::ConnectionReset,
    };
    assert_eq!(refused, expected);
    until(log, "free");
    drop(first);
    let start = Instant::now();
    let _second = loop {
        match connect(at) {
            Ok(stream) => break stream,
            // Until the server has heard that the client has heard of the end.
            Err(error) => assert!(start.elapsed() < HANG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    until(log, "as outboard.h says");
}

#[test]
fn a_listener_has_as_many_connections_as_its_program_says() {
    let test = "a_listener_has_as_many_connections_as_its_program_says";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, "tests/admission.c");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let try_it = |mode: &str, by_engine: bool| {
        let log = world.scratch().join(format!("admission-{by_engine}"));
        let mut child = world
            .program(Side::Server, &program)
            .env("OUTBOARD_SOCKET", outboard.socket())
            .args([mode, &Side::Server.ipv4().to_string(), &PORT.to_string()])
            .arg(if by_engine { "1" } else { "0" })
            .log(&log)
            .start()
            .expect("a program");
        std::thread::scope(|scope| {
            scope.spawn(|| play(&log, &world, by_engine));
        });
        assert!(child.wait(HANG).expect("an end").success());
    };
    try_it("any", false);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    try_it("any", true);
    engine.stop(HANG).expect("an end");
}

/// A connection from one of the client's addresses; `None` if it is refused, by the answer to its SYN or by a
/// reset.
fn comes_from(address: Ipv4Addr) -> Option<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).expect("an address");
    let at = SocketAddr::from((Side::Server.ipv4(), PORT));
    match rustix::net::connect(&socket, &at) {
        Err(rustix::io::Errno::CONNREFUSED) => return None,
        connected => connected.expect("a connection"),
    }
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(HANG)).expect("an option");
    match stream.read(&mut [0; 1]) {
        Ok(read) => {
            assert_eq!(read, 1, "an end that nobody has asked for");
            Some(stream)
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            None
        }
    }
}

/// What the program has said last: see `limits.c`.
fn said(log: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last may not be whole.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let numbers = whole.lines().last().unwrap_or_default().split(' ');
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Waits until the program has counted so.
fn until_counted(log: &Path, what: &str, holds: impl Fn(&[u32]) -> bool) {
    let start = Instant::now();
    loop {
        let counts = said(log);
        if counts.len() == 6 && holds(&counts) {
            return;
        }
        assert!(start.elapsed() < HANG, "{what}: {counts:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Three at once, and one a second: until one is refused.
fn too_fast(log: &Path, by_engine: u32) {
    let start = Instant::now();
    let mut admitted = Vec::new();
    while let Some(stream) = comes_from(Side::Client.ipv4()) {
        admitted.push(stream);
        assert!(start.elapsed() < HANG, "nobody is refused");
    }
    let most = 4 + start.elapsed().as_secs();
    let had = admitted.len() as u64;
    assert!((3..=most).contains(&had), "{had}, where {most} may be");
    until_counted(log, "one refused", |counts| {
        counts[0] == by_engine && u64::from(counts[1]) == had && counts[3] >= 1
    });
    assert_eq!(said(log)[4..], [0, 0]);
}

/// One of each prefix. Two prefixes may have one share, but hardly all three.
fn too_many_of_a_prefix(log: &Path, by_engine: u32) {
    let [first, beside, further, furthest] = CLIENTS;
    let one = comes_from(first).expect("the first");
    assert!(comes_from(beside).is_none(), "a second of the prefix");
    let others = [further, furthest].map(comes_from);
    let others = others.iter().flatten().count() as u32;
    assert!(others > 0, "of other prefixes");
    until_counted(log, "one refused", |counts| {
        counts[..3] == [by_engine, 1 + others, 1 + others] && counts[5] >= 1
    });
    assert_eq!(said(log)[3..5], [0, 0]);
    // What it has had is another's when it has ended.
    drop(one);
    let start = Instant::now();
    while comes_from(beside).is_none() {
        assert!(start.elapsed() < HANG, "its place stays taken");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Addresses of the client's: the first two have one prefix of 28 bits.
const CLIENTS: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 77, 0, 2),
    Ipv4Addr::new(10, 77, 0, 3),
    Ipv4Addr::new(10, 77, 0, 17),
    Ipv4Addr::new(10, 77, 0, 33),
];

#[test]
fn limits_of_rate_and_prefix_hold_for_clients_at_several_addresses() {
    let test = "limits_of_rate_and_prefix_hold_for_clients_at_several_addresses";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["cc", "ip"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, "tests/limits.c");
    assert_eq!(CLIENTS[0], Side::Client.ipv4());
    for address in &CLIENTS[1..] {
        let device = Side::Client.interface();
        let add = ["addr", "add", &format!("{address}/24"), "dev", device];
        let added = world.program(Side::Client, "ip").args(add).output();
        added.expect("an address");
    }
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let try_it = |mode: &str, by_engine: u32| {
        type Play = fn(&Path, u32);
        let kinds: [(&str, Play); 2] = [("rate", too_fast), ("prefix", too_many_of_a_prefix)];
        for (kind, play) in kinds {
            let log = world.scratch().join(format!("limits-{kind}-{by_engine}"));
            let child = world
                .program(Side::Server, &program)
                .env("OUTBOARD_SOCKET", outboard.socket())
                .args([
                    mode,
                    &Side::Server.ipv4().to_string(),
                    &PORT.to_string(),
                    kind,
                ])
                .log(&log)
                .start()
                .expect("a program");
            let clients = || {
                until_ready(&log);
                play(&log, by_engine);
                Ok(())
            };
            world.on(Side::Client, clients).expect("clients");
            child.kill().expect("an end");
        }
    };
    try_it("any", 0);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    try_it("any", 1);
    engine.stop(HANG).expect("an end");
}

/// Waits until the program has set its policy.
fn until_ready(log: &Path) {
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.lines().any(|line| line == "ready") {
            return;
        }
        assert!(start.elapsed() < HANG, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
