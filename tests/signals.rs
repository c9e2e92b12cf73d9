//! Signals that come while a call is about to wait.
#![cfg(target_arch = "x86_64")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Side, World};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// The C program of that name, built.
fn build(world: &World, name: &str) -> PathBuf {
    let program = world.scratch().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/signals/{name}.c"));
    let built = std::process::Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("cc runs").success(), "a program");
    program
}

/// A server of a C program, on the engine, with the engine and the network.
struct Scene {
    world: World,
    engine: Process,
    server: Process,
}

impl Scene {
    fn start(name: &str) -> Self {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(BINARY), &world);
        let engine = outboard
            .start_engine(&world, None)
            .expect("the engine starts");
        let mut server = outboard
            .on_engine(&world, build(&world, name))
            .log(world.scratch().join("server.log"))
            .start()
            .expect("it starts");
        outboard
            .wait_until_taken(&mut server, LIMIT, 7000, || true)
            .expect("it listens");
        Self {
            world,
            engine,
            server,
        }
    }

    fn connect(&self) -> TcpStream {
        let address: SocketAddr = (Side::Server.ipv4(), 7000).into();
        self.world
            .on(Side::Client, || {
                let stream = TcpStream::connect_timeout(&address, LIMIT)?;
                stream.set_read_timeout(Some(LIMIT))?;
                Ok(stream)
            })
            .expect("connects")
    }
}

/// The last moment at which a handler can run and the kernel does not know that the call waits. The tracer
/// reads the registers of one processor.
#[test]
fn a_signal_just_before_the_sleep_ends_the_call() {
    let test = "a_signal_just_before_the_sleep_ends_the_call";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("before_a_sleep");
    let ask = |what: &str| {
        let mut stream = scene.connect();
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

#[test]
fn whoever_jumps_out_of_a_call_holds_up_nobody() {
    let test = "whoever_jumps_out_of_a_call_holds_up_nobody";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("jumps_out");
    let ask = |stream: &mut TcpStream, who: &str| {
        let mut byte = [b'x'];
        stream.write_all(&byte).expect("taken");
        let heard = stream.read_exact(&mut byte);
        heard.unwrap_or_else(|error| panic!("{who} does not answer: {error}"));
    };
    let [mut first, mut second] = [scene.connect(), scene.connect()];
    // While the first thread jumps out of poll, and does something else.
    for _ in 0..100 {
        ask(&mut second, "the other");
        std::thread::sleep(Duration::from_millis(15));
    }
    // It has jumped out of accept, too.
    let mut third = scene.connect();
    ask(&mut third, "who was accepted");
    ask(&mut first, "who has jumped");
    ask(&mut second, "the other");
}

#[test]
fn whoever_jumps_out_of_read_hears_by_poll() {
    let test = "whoever_jumps_out_of_read_hears_by_poll";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("jumps_out_of_read");
    let mut stream = scene.connect();
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("it has jumped");
    for _ in 0..20 {
        // It sleeps.
        std::thread::sleep(Duration::from_millis(10));
        stream.write_all(b"x").expect("taken");
        stream.read_exact(&mut byte).expect("it hears");
    }
}

#[test]
fn what_a_splice_has_not_put_into_a_pipe_is_still_there() {
    let test = "what_a_splice_has_not_put_into_a_pipe_is_still_there";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("splices");
    let mut stream = scene.connect();
    for _ in 0..2 {
        stream.read_exact(&mut [0]).expect("it waits for bytes");
        stream.write_all(b"hello").expect("taken");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "-1 1 5, -1 1 5");
}

#[test]
fn whoever_jumps_out_of_read_leaves_nobody_without_news_of_the_engines_end() {
    let test = "whoever_jumps_out_of_read_leaves_nobody_without_news_of_the_engines_end";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let mut scene = Scene::start("jumps_out_for_good");
    let (_first, mut second) = (scene.connect(), scene.connect());
    second.read_exact(&mut [0]).expect("it has jumped");
    // The other sleeps, sooner or later.
    std::thread::sleep(Duration::from_millis(200));
    scene.engine.signal(Signal::KILL).expect("it is there");
    let ended = scene.server.wait(LIMIT).expect("it hears of that");
    assert!(ended.success(), "{ended}");
}

/// What ends a call that a handler makes ends none that the handler has interrupted.
#[test]
fn a_read_goes_on_after_a_handler_whose_own_call_was_interrupted() {
    let test = "a_read_goes_on_after_a_handler_whose_own_call_was_interrupted";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("waits_in_a_handler");
    let mut stream = scene.connect();
    let mut said = [0];
    stream.read_exact(&mut said).expect("both have returned");
    stream.write_all(b"x").expect("taken");
    let mut read = String::new();
    stream.read_to_string(&mut read).expect("the end");
    assert_eq!(read, "read\n");
}

/// Others of the set's family would be told to look for it for ever, and they would find nobody.
#[test]
fn whoever_jumps_out_of_epoll_wait_is_not_looked_for() {
    let test = "whoever_jumps_out_of_epoll_wait_is_not_looked_for";
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let scene = Scene::start("jumps_out_of_epoll");
    let mut used = String::new();
    let heard = scene.connect().read_to_string(&mut used);
    heard.expect("it has waited for a second");
    let used: u64 = used.trim().parse().expect("a number");
    assert!(used < 300, "{used} of 1000 ms");
}
