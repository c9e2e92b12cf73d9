//! Signals that come while a call is about to wait.
#![cfg(target_arch = "x86_64")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// The last moment at which a handler can run and the kernel does not know that the call waits. The tracer
/// reads the registers of one processor.
#[test]
fn a_signal_just_before_the_sleep_ends_the_call() {
    let test = "a_signal_just_before_the_sleep_ends_the_call";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let program = world.scratch().join("before_a_sleep");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/signals/before_a_sleep.c");
    let built = std::process::Command::new("cc")
        .args(["-O2", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("cc runs").success(), "a program");
    let mut server = outboard
        .on_engine(&world, &program)
        .log(world.scratch().join("server.log"))
        .start()
        .expect("it starts");
    outboard
        .wait_until_taken(&mut server, LIMIT, 7000, || true)
        .expect("it listens");
    let address: SocketAddr = (Side::Server.ipv4(), 7000).into();
    let ask = |what: &str| {
        let mut stream = world
            .on(Side::Client, || {
                let stream = TcpStream::connect_timeout(&address, LIMIT)?;
                stream.set_read_timeout(Some(LIMIT))?;
                Ok(stream)
            })
            .expect("connects");
        stream.write_all(what.as_bytes()).expect("taken");
        stream
    };
    for call in ["read", "poll", "select", "epoll"] {
        let mut answer = String::new();
        let heard = ask(call).read_to_string(&mut answer);
        heard.unwrap_or_else(|error| panic!("{call} has not ended: {error}"));
        assert_eq!(answer, "now -1 EINTR after 1", "{call}");
    }
    // Where the handler lets it go on, a read does.
    let mut stream = ask("read goes on");
    stream.read_exact(&mut [0; 4]).expect("the signal has come");
    let mut answer = String::new();
    let limit = Some(Duration::from_millis(200));
    stream.set_read_timeout(limit).expect("set");
    stream.read_to_string(&mut answer).expect_err("it waits");
    stream.set_read_timeout(Some(LIMIT)).expect("set");
    stream.write_all(b"x").expect("taken");
    stream.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "1 - after 1");
}
