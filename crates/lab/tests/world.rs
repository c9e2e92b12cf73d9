//! Worlds come up, carry packets, and go without a trace, however their makers end.
#![forbid(unsafe_code)]

use lab::{Program, Side, World, skip_without_root};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// After so long it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_two_sides_talk_and_nothing_stays() {
    if skip_without_root("the_two_sides_talk_and_nothing_stays") {
        return;
    }
    let world = World::new().unwrap();
    let namespace = Path::new("/run/netns").join(world.name(Side::Server));
    let scratch = world.scratch().to_owned();
    assert!(namespace.exists() && scratch.exists());
    std::thread::scope(|scope| {
        let world = &world;
        let (listening, port) = std::sync::mpsc::channel();
        scope.spawn(move || {
            world.enter(Side::Server).unwrap();
            let listener = TcpListener::bind((Side::Server.ipv6(), 0)).unwrap();
            listening
                .send(listener.local_addr().unwrap().port())
                .unwrap();
            listener.accept().unwrap().0.write_all(b"hello").unwrap();
        });
        scope.spawn(move || {
            world.enter(Side::Client).unwrap();
            let port = port.recv().unwrap();
            let mut stream = TcpStream::connect((Side::Server.ipv6(), port)).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert_eq!(said, "hello");
        });
    });
    let sleeper = world
        .program(Side::Client, "sleep")
        .arg("60")
        .start()
        .unwrap();
    drop(world);
    assert!(!namespace.exists() && !scratch.exists());
    drop(sleeper);
}

#[test]
fn a_maker_that_is_killed_leaves_nothing() {
    if skip_without_root("a_maker_that_is_killed_leaves_nothing") {
        return;
    }
    if std::env::var_os("OUTBOARD_TEST_MAKER").is_some() {
        let world = World::new().unwrap();
        println!("{}", world.name(Side::Server));
        loop {
            std::thread::park();
        }
    }
    let log = std::env::temp_dir().join(format!("outboard-maker-{}", std::process::id()));
    let mut maker = Program::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_maker_that_is_killed_leaves_nothing",
            "--nocapture",
        ])
        .env("OUTBOARD_TEST_MAKER", "1")
        .log(&log)
        .start()
        .unwrap();
    let mut name = String::new();
    maker
        .wait_until(LIMIT, || {
            let printed = std::fs::read_to_string(&log).unwrap_or_default();
            let line = printed
                .lines()
                .find_map(|line| line.find("outboard-").map(|at| &line[at..]));
            name = line.unwrap_or_default().to_string();
            name.ends_with("-server")
        })
        .unwrap();
    let namespace = Path::new("/run/netns").join(&name);
    assert!(namespace.exists());
    maker.kill().unwrap();
    let started = Instant::now();
    while namespace.exists() {
        assert!(started.elapsed() < LIMIT, "{name} stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(log).unwrap();
}
