//! A program that dies with registered memory under way, with buffers posted and places lent, leaves nothing
//! in the engine.

mod native_programs;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Side, World};
use native_programs::{compile, library};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

/// Regions of programs that a process has mapped.
fn regions(process: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("an engine");
    let region = |line: &&str| line.contains("memfd:outboard-region");
    maps.lines().filter(region).count()
}

/// Memory files of programs that a process has open.
fn memory_files(process: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("an engine");
    let links = open
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let is_theirs = |link: &std::path::PathBuf| link.to_string_lossy().contains("memfd:dies");
    links.filter(is_theirs).count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_that_dies_with_memory_in_use_leaves_nothing() {
    let test = "a_program_that_dies_with_memory_in_use_leaves_nothing";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, "tests/dies.c");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    assert_eq!(regions(engine.id()), 0);
    for round in 0..3 {
        let log = world.scratch().join(format!("dies-{round}"));
        let child = world
            .program(Side::Server, &program)
            .env("OUTBOARD_SOCKET", outboard.socket())
            .args([&Side::Server.ipv4().to_string(), &PORT.to_string()])
            .log(&log)
            .start()
            .expect("a program");
        let connect = || -> std::io::Result<TcpStream> {
            TcpStream::connect(SocketAddr::from((Side::Server.ipv4(), PORT)))
        };
        let connect = || world.on(Side::Client, || Ok(connect()?));
        until("a listener", || outboard.takes(PORT));
        let mut first = connect().expect("the first");
        let mut second = connect().expect("the second");
        second.write_all(b"abc, and more").expect("data");
        first.write_all(b"lent when it dies").expect("data");
        until("all of it", || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.trim_end() == "has it all" || {
                assert!(said.is_empty(), "{said}");
                false
            }
        });
        assert_eq!(regions(engine.id()), 1);
        assert_eq!(memory_files(engine.id()), 1);
        child.kill().expect("killed");
        // What it had sent is still delivered, as by the kernel, or the connection is reset; either ends.
        for stream in [&mut first, &mut second] {
            stream.set_read_timeout(Some(HANG)).expect("a limit");
            let mut bytes = [0; 1 << 16];
            while let Ok(1..) = stream.read(&mut bytes) {}
        }
        drop((first, second));
        until("its memory is free", || {
            regions(engine.id()) == 0 && memory_files(engine.id()) == 0
        });
        let left = |name| lab::outboard::total(&outboard.stats().expect("counts"), name);
        assert_eq!(left("attached"), 0.0);
        until("its connections are over", || left("connections") == 0.0);
    }
    engine.stop(HANG).expect("an end");
}
