//! An engine that is stopped by a signal, as a debugger does or a defect might, while clients come:
//! none of them is lost, during it or after.
#![forbid(unsafe_code)]

mod on_drop;

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World, skip_without_root};
use on_drop::OnDrop;
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Clients at a time.
const CLIENTS: usize = 4;
/// Answers in each stretch of the test.
const ANSWERS: usize = 20;

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 80).into()
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect_timeout(&address(), PATIENCE).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
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

/// A script on the engine, which it is to stop.
fn start(world: &World, outboard: &Outboard, engine: &Process, script: &str) -> Process {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stopped_engine");
    let mut program = outboard
        .on_engine(world, "python3")
        .arg(scripts.join(script))
        .args([Side::Server.ipv4().to_string(), "80".to_owned()])
        .arg(engine.id().to_string())
        .log(world.scratch().join("program.log"))
        .start()
        .unwrap();
    outboard
        .wait_until_taken(&mut program, PATIENCE, 80, || true)
        .unwrap();
    program
}

/// Clients come again and again while an engine with these settings is stopped, twice: none of them is lost. The second
/// time its port is mixed, since the kernel has one of them.
fn costs_no_client(test: &str, settings: &str) {
    if skip_without_root(test) {
        return;
    }
    let world = World::with_queues(4).unwrap();
    let site = world.site(&[("small", b"hello")]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine_with(&world, settings).unwrap();
    let _serve = outboard.start_serve(&world, &site, address()).unwrap();
    let in_client = |work: &mut (dyn FnMut() + Send)| {
        world.on(Side::Client, || {
            work();
            Ok(())
        })
    };
    let mut before = None;
    in_client(&mut || {
        let mut stream = connect();
        ask(&mut stream);
        before = Some(stream);
    })
    .unwrap();
    let mut before = before.unwrap();

    let (done, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    // New connections that were answered from now on.
    let more = |count: usize| {
        let (begin, from) = (Instant::now(), answers.load(Ordering::Relaxed));
        while answers.load(Ordering::Relaxed) < from + count {
            assert!(begin.elapsed() < PATIENCE, "new clients are answered");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                world.enter(Side::Client).expect("its namespace");
                while !done.load(Ordering::Relaxed) {
                    ask(&mut connect());
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Whatever happens here, the clients must come to an end.
        let _end = OnDrop(|| {
            done.store(true, Ordering::Relaxed);
            let _ = engine.signal(Signal::CONT);
        });
        more(ANSWERS);
        let mut kernels: Vec<TcpStream> = Vec::new();
        for _ in 0..2 {
            engine.signal(Signal::STOP).unwrap();
            // Those that are at the engine wait for it; who comes now is the kernel's.
            let mut meanwhile = None;
            in_client(&mut || {
                let mut stream = connect();
                ask(&mut stream);
                meanwhile = Some(stream);
            })
            .unwrap();
            kernels.extend(meanwhile);
            // It goes on there while the engine is away.
            kernels.iter_mut().for_each(ask);
            engine.signal(Signal::CONT).unwrap();
            more(ANSWERS);
            // What began at the kernel stays there, and what began at the engine is still there.
            kernels.iter_mut().for_each(ask);
            ask(&mut before);
        }
    });
    let counters = outboard.stats().unwrap();
    let stale = counters
        .iter()
        .find(|counter| counter.labels == ["kernel_engine_stale"]);
    assert!(
        stale.is_some_and(|counter| counter.value >= 2.0),
        "{counters:?}"
    );
    // And it takes new ones again.
    let accepted = || total(&outboard.stats().unwrap(), "tcp_passive_opens");
    let (begin, from) = (Instant::now(), accepted());
    while accepted() == from {
        assert!(
            begin.elapsed() < PATIENCE,
            "new clients are the engine's again"
        );
        in_client(&mut || ask(&mut connect())).unwrap();
    }
}

#[test]
fn a_stopped_engine_costs_no_client() {
    costs_no_client("a_stopped_engine_costs_no_client", "");
}

#[test]
fn nor_does_one_with_two_workers() {
    costs_no_client("nor_does_one_with_two_workers", "workers = 2\n");
}

#[test]
fn nor_does_one_that_shares_its_listener_with_the_kernel() {
    let settings = "placement = \"adaptive\"\nplacement_rate = 1\n";
    costs_no_client(
        "nor_does_one_that_shares_its_listener_with_the_kernel",
        settings,
    );
}

/// It answers on each with what it hears.
fn echo(listener: &TcpListener, connections: usize) {
    std::thread::scope(|scope| {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            scope.spawn(move || {
                let mut bytes = [0; 100];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..length]).expect("it listens");
                }
            });
        }
    });
}

#[test]
fn what_a_program_opens_is_opened_whether_or_not_its_engine_is_stopped() {
    let test = "what_a_program_opens_is_opened_whether_or_not_its_engine_is_stopped";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let peer = SocketAddr::from((Side::Client.ipv4(), 7000));
    let listening = world.on(Side::Client, || Ok(TcpListener::bind(peer)?));
    let listener = listening.expect("free");
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&listener, 2));
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stopped_engine");
        let mut program = outboard
            .on_engine(&world, "python3")
            .arg(scripts.join("opens.py"))
            .args([peer.ip().to_string(), peer.port().to_string()])
            .arg(engine.id().to_string())
            .log(world.scratch().join("program.log"))
            .start()
            .unwrap();
        let ended = program.wait(PATIENCE);
        // Whatever became of it, nobody waits for its connections.
        for _ in 0..2 {
            let _ = world.on(Side::Client, || Ok(TcpStream::connect(peer)?));
        }
        assert!(ended.is_ok_and(|it| it.success()), "{}", program.printed());
    });
    let opened = total(&outboard.stats().unwrap(), "tcp_active_opens");
    assert!(opened >= 1.0, "the engine was asked: {opened}");
}

#[test]
fn a_program_keeps_its_connections_while_its_engine_is_stopped() {
    if skip_without_root("a_program_keeps_its_connections_while_its_engine_is_stopped") {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let mut program = start(&world, &outboard, &engine, "holds.py");
    let mut heard = Vec::new();
    world
        .on(Side::Client, || {
            let mut stream = connect();
            stream.write_all(b"hello")?;
            let mut bytes = [0; 10];
            stream.read_exact(&mut bytes)?;
            assert_eq!(&bytes, b"still here");
            stream.write_all(b"and I")?;
            let mut second = connect();
            let mut bytes = [0; 9];
            second.read_exact(&mut bytes)?;
            second.shutdown(std::net::Shutdown::Both)?;
            heard.extend(bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    assert_eq!(heard, b"as before");
    let ended = program.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{}", program.printed());
    assert_eq!(
        total(&outboard.stats().unwrap(), "tcp_passive_opens"),
        2.0,
        "both on the engine"
    );
}

#[test]
fn a_fork_waits_for_no_stopped_engine_and_its_child_has_what_its_parent_had() {
    if skip_without_root("a_fork_waits_for_no_stopped_engine") {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let mut program = start(&world, &outboard, &engine, "forks.py");
    let mut heard = Vec::new();
    world
        .on(Side::Client, || {
            let (mut first, mut second) = (connect(), connect());
            first.write_all(b"hello")?;
            second.write_all(b"hello")?;
            // To its end: the child has closed it, too.
            let mut bytes = Vec::new();
            second.read_to_end(&mut bytes)?;
            assert_eq!(bytes, b"from the parent");
            let mut bytes = [0; 14];
            first.read_exact(&mut bytes)?;
            assert_eq!(&bytes, b"from the child");
            first.write_all(b"and on")?;
            first.read_to_end(&mut heard)?;
            let mut third = connect();
            let mut bytes = [0; 9];
            third.read_exact(&mut bytes)?;
            assert_eq!(&bytes, b"as before");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    assert_eq!(heard, b"good bye");
    let ended = program.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{}", program.printed());
    assert_eq!(
        total(&outboard.stats().unwrap(), "tcp_passive_opens"),
        3.0,
        "all on the engine"
    );
}

#[test]
fn the_child_of_one_who_only_waits_for_it_has_what_its_parent_had() {
    if skip_without_root("the_child_of_one_who_only_waits_for_it_has_what_its_parent_had") {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let mut program = start(&world, &outboard, &engine, "waits_for_child.py");
    let mut heard = Vec::new();
    world
        .on(Side::Client, || {
            let mut stream = connect();
            stream.write_all(b"hello")?;
            let mut bytes = [0; 14];
            stream.read_exact(&mut bytes)?;
            assert_eq!(&bytes, b"from the child");
            stream.write_all(b"and on")?;
            stream.read_to_end(&mut heard)?;
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    assert_eq!(heard, b"good bye");
    let ended = program.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{}", program.printed());
}

/// It is bounded, and what is lost by that is told of.
#[test]
fn a_message_with_connections_is_received_while_the_engine_is_stopped() {
    if skip_without_root("a_message_with_connections_is_received_while_the_engine_is_stopped") {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).unwrap();
    let mut program = start(&world, &outboard, &engine, "receives.py");
    let mut explained = String::new();
    world
        .on(Side::Client, || {
            let mut streams: Vec<_> = (0..6).map(|_| connect()).collect();
            for stream in &mut streams {
                stream.write_all(b"hello")?;
            }
            for stream in &mut streams[..2] {
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes)?;
                assert_eq!(&bytes, b"late");
                stream.shutdown(std::net::Shutdown::Both)?;
            }
            for stream in &mut streams[2..] {
                let mut bytes = Vec::new();
                if let Err(error) = stream.read_to_end(&mut bytes) {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                }
                assert_eq!(bytes, b"");
            }
            program.signal(Signal::USR1).expect("it lives");
            let mut stream = connect();
            let mut bytes = [0; 9];
            stream.read_exact(&mut bytes)?;
            assert_eq!(&bytes, b"as before");
            let explain = outboard.command(&world, "explain");
            explained = explain.arg(program.id().to_string()).output()?;
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    let why = "it was passed to this program while the engine did not run";
    assert!(explained.contains(why), "{explained}");
    let ended = program.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{}", program.printed());
    let stats = outboard.stats().unwrap();
    assert_eq!(total(&stats, "tcp_passive_opens"), 7.0, "all on the engine");
    assert_eq!(
        total(&stats, "passed_late"),
        1.0,
        "nobody asks for the others"
    );
}
