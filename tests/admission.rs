//! Who may connect to a listener of a program over `outboard.h`: the engine refuses the SYN, and the
//! library what the kernel has accepted.

mod native_programs;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Side, World};
use native_programs::{compile, library};

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
