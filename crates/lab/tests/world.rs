//! Worlds come up, carry packets, and go without a trace, however their makers end.
#![forbid(unsafe_code)]

use lab::{Program, Side, World, receiving, skip_without_root};
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

/// Of one interface only, as its own namespace sees it.
#[test]
fn it_is_chosen_where_and_when_frames_are_taken_in() {
    if skip_without_root("it_is_chosen_where_and_when_frames_are_taken_in") {
        return;
    }
    let world = World::new().unwrap();
    let read = |side: Side, file: &str| {
        let command = std::process::Command::new("ip")
            .args(["netns", "exec", world.name(side), "cat"])
            .arg(format!("/sys/class/net/{}/{file}", side.interface()))
            .output();
        let text = String::from_utf8(command.unwrap().stdout).unwrap();
        text.trim().to_owned()
    };
    receiving::on_core(&world, Side::Server, 1).unwrap();
    receiving::gathered(&world, Side::Server, Duration::from_micros(150)).unwrap();
    let files = [
        ("queues/rx-0/rps_cpus", "2"),
        ("gro_flush_timeout", "150000"),
        ("napi_defer_hard_irqs", "1"),
    ];
    for (file, value) in files {
        assert_eq!(read(Side::Server, file), value, "{file}");
    }
    let other = read(Side::Client, "queues/rx-0/rps_cpus");
    assert_eq!(other.trim_matches(&['0', ','][..]), "", "{other}");
    receiving::gathered(&world, Side::Server, Duration::ZERO).unwrap();
    assert_eq!(read(Side::Server, "gro_flush_timeout"), "0");
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
