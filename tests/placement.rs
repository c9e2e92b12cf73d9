//! The engine's worker goes to the core of the program that it serves, and after it when it is moved.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests between two looks at where the engine is.
const REQUESTS: usize = 50;

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

/// The numbers of all threads of a process.
fn threads(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let number = |task: std::io::Result<std::fs::DirEntry>| {
        let name = task.ok()?.file_name();
        name.to_str()?.parse().ok()
    };
    tasks.filter_map(number).collect()
}

/// Lets a process run on `core` alone.
fn move_to(pid: u32, core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    for thread in threads(pid) {
        sched_setaffinity(Pid::from_raw(thread), &set).expect("moved");
    }
}

/// The cores on which the first thread of a process may run: of an engine that is its worker.
fn cores(pid: u32) -> Vec<usize> {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number of a process"));
    let set = sched_getaffinity(pid).expect("it runs");
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

#[test]
fn the_worker_goes_where_its_program_goes() {
    let test = "the_worker_goes_where_its_program_goes";
    if skip_without_root(test) {
        return;
    }
    let all = cores(std::process::id());
    let &[one, other, ..] = all.as_slice() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: there is one core only, nowhere to go"
        );
        return;
    };
    let world = World::new().unwrap();
    let site = world.site(&[("small", b"hello")]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    // One that long looks keep awake does not care where it is.
    let efficient = "profile = \"efficient\"\n";
    let engine = outboard.start_engine_with(&world, efficient).unwrap();
    assert_eq!(cores(engine.id()), all, "nobody has asked for anything");
    let address: SocketAddr = (Side::Server.ipv4(), 80).into();
    let serve = outboard.start_serve(&world, &site, address).unwrap();
    world
        .on(Side::Client, || {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            for core in [one, other, one] {
                move_to(serve.id(), core);
                let begin = Instant::now();
                while cores(engine.id()) != [core] {
                    assert!(begin.elapsed() < PATIENCE, "it never comes to core {core}");
                    (0..REQUESTS).for_each(|_| ask(&mut stream));
                }
            }
            Ok(())
        })
        .unwrap();
    let stats = outboard.stats().unwrap();
    assert_eq!(total(&stats, "worker_core"), one as f64);
    assert_eq!(total(&stats, "session_core"), one as f64);
    assert!(total(&stats, "worker_moves") >= 3.0, "{stats:?}");
}
