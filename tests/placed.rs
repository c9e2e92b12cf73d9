//! Listeners whose new connections go to the kernel, or to whichever is the cheaper one, while an unmodified
//! program serves them: nobody is lost at a change.
#![forbid(unsafe_code)]

mod on_drop;

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use on_drop::OnDrop;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(120);

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 80).into()
}

/// A request on a connection, and its answer.
fn ask(stream: &mut TcpStream) {
    write!(stream, "GET /small HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let mut some = [0; 1024];
        let length = stream.read(&mut some).expect("an answer");
        assert_ne!(length, 0, "it ends early");
        answer.extend_from_slice(&some[..length]);
    }
}

/// A connection that was answered, by a thread in the client's network.
fn answered() -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&address(), PATIENCE).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    ask(&mut stream);
    stream
}

/// An engine with a web server on it that knows nothing of it.
struct Stage {
    // Before the world that they are in.
    server: Process,
    engine: Process,
    outboard: Outboard,
    world: World,
}

impl Stage {
    fn new(settings: &str) -> Self {
        let world = World::new().expect("a private network");
        let site: PathBuf = world.site(&[("small", b"hello")]).expect("files");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard
            .start_engine_with(&world, settings)
            .expect("an engine");
        let mut server = outboard
            .on_engine(&world, "python3")
            .args(["-m", "http.server", "--protocol", "HTTP/1.1", "--directory"])
            .arg(site)
            .arg("80")
            .log(world.scratch().join("server.log"))
            .start()
            .expect("a server");
        outboard
            .wait_until_taken(&mut server, PATIENCE, 80, || true)
            .expect("it listens");
        Self {
            server,
            engine,
            outboard,
            world,
        }
    }

    fn connect(&self) -> TcpStream {
        let connected = self.world.on(Side::Client, || Ok(answered()));
        connected.expect("a connection")
    }

    fn ask(&self, stream: &mut TcpStream) {
        ask(stream);
    }

    /// Connections that are open on the engine.
    fn on_engine(&self) -> usize {
        let rows = self.outboard.sockets().expect("sockets");
        let open = |row: &&serde_json::Value| row["state"] == "ESTABLISHED";
        rows.iter().filter(open).count()
    }

    fn total(&self, name: &str) -> f64 {
        total(&self.outboard.stats().expect("counters"), name)
    }

    fn explained(&self) -> String {
        let explain = self.outboard.command(&self.world, "explain");
        let told = explain.arg(self.server.id().to_string()).output();
        told.expect("an explanation")
    }

    fn reload(&self, settings: &str) -> String {
        let file = self.world.scratch().join("engine.toml");
        std::fs::write(file, settings).expect("a file");
        let reload = self.outboard.command(&self.world, "reload");
        reload.output().expect("an answer")
    }

    fn await_that(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}:\n{}", self.explained());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn who_serves_is_configured_and_changes_with_the_configuration() {
    let test = "who_serves_is_configured_and_changes_with_the_configuration";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let mut stage = Stage::new("placement = \"kernel\"\n");
    stage.await_that("it is placed", |stage| {
        stage.total("listener_on_kernel") == 1.0
    });
    let mut first = stage.connect();
    assert_eq!(stage.total("tcp_passive_opens"), 0.0, "the kernel has it");
    assert!(
        stage
            .outboard
            .stats()
            .expect("counters")
            .iter()
            .any(|counter| {
                counter.labels.iter().any(|label| label == "kernel_share") && counter.value >= 3.0
            })
    );
    let told = stage.explained();
    assert!(
        told.contains("kernel      placed there: configured (kernel)"),
        "{told}"
    );

    let changed =
        stage.reload("placement = \"kernel\"\n[placements]\n\"0.0.0.0:80\" = \"engine\"\n");
    assert_eq!(changed, "changed: placements\n");
    let mut second = stage.connect();
    stage.ask(&mut first);
    assert_eq!(
        (stage.total("tcp_passive_opens"), stage.on_engine()),
        (1.0, 1)
    );
    let told = stage.explained();
    assert!(!told.contains("placed there"), "{told}");

    assert_eq!(
        stage.reload("placement = \"kernel\"\n"),
        "changed: placements\n"
    );
    stage.await_that("it is placed", |stage| {
        stage.total("listener_on_kernel") == 1.0
    });
    let mut third = stage.connect();
    for stream in [&mut first, &mut second, &mut third] {
        stage.ask(stream);
    }
    assert_eq!(
        (stage.total("tcp_passive_opens"), stage.on_engine()),
        (1.0, 1)
    );
    drop((first, second, third));
    stage.server.stop(PATIENCE).expect("an end");
    stage.engine.stop(PATIENCE).expect("an end");
}

#[test]
fn a_quiet_listener_is_the_kernels_until_its_rate_rises() {
    let test = "a_quiet_listener_is_the_kernels_until_its_rate_rises";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let mut stage = Stage::new("placement = \"adaptive\"\nplacement_rate = 40\n");
    let mut first = stage.connect();
    assert_eq!(stage.on_engine(), 1, "nothing is known of it yet");
    // Eight a second at most: a connection and a request.
    stage.await_that("quiet", |stage| {
        drop(stage.connect());
        std::thread::sleep(Duration::from_millis(230));
        stage.total("listener_on_kernel") == 1.0
    });
    let told = stage.explained();
    assert!(told.contains("placed there: quiet (adaptive), "), "{told}");
    let engines = stage.total("tcp_passive_opens");
    let mut second = stage.connect();
    stage.ask(&mut first);
    assert_eq!(
        stage.total("tcp_passive_opens"),
        engines,
        "the kernel has it"
    );

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let world = &stage.world;
        for _ in 0..4 {
            scope.spawn(|| {
                world.enter(Side::Client).expect("its namespace");
                while !done.load(Ordering::Relaxed) {
                    drop(answered());
                }
            });
        }
        // Whatever happens here, the clients must come to an end.
        let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
        let (begin, on_kernel) = (Instant::now(), || stage.total("listener_on_kernel"));
        while on_kernel() != 0.0 {
            assert!(begin.elapsed() < PATIENCE, "{}", stage.explained());
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let told = stage.explained();
    assert!(
        told.contains("new connections are the engine's: "),
        "{told}"
    );
    let engines = stage.total("tcp_passive_opens");
    let mut third = stage.connect();
    assert_eq!(stage.total("tcp_passive_opens"), engines + 1.0);
    for stream in [&mut first, &mut second, &mut third] {
        stage.ask(stream);
    }
    let rows = stage
        .outboard
        .command(&stage.world, "ss")
        .args(["-lni"])
        .output();
    let rows = rows.expect("sockets");
    assert!(rows.contains("placed:engine "), "{rows}");
    drop((first, second, third));
    stage.server.stop(PATIENCE).expect("an end");
    stage.engine.stop(PATIENCE).expect("an end");
}
