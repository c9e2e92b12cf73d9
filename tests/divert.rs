//! A program of the user's in the engine's slot: loaded, counted and taken out again over the control socket.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Program, Side, World};
use netdev::Interface;
use netdev::steering::{Placement, Steering};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with, sockopt,
};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use wire::checksum::Sum;

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the server's address answers a ping in time, with a right sum.
fn ping(limit: Duration) -> std::io::Result<bool> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        flags,
        Some(ipproto::ICMP),
    )?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(limit))?;
    // Echo, its sum, an identifier, a number: an odd mixture, whose sum overflows when the type goes.
    let mut message = [8, 0, 0, 0, 0xff, 0xf0, 0, 7];
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let to = SocketAddr::from((Side::Server.ipv4(), 0));
    sendto(&socket, &message, SendFlags::empty(), &to)?;
    let mut buffer = [0; 256];
    loop {
        let length = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, length)) => length,
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Behind the header of the packet; other messages may come.
        let answer = buffer.get(20..length).unwrap_or_default();
        if answer.first() == Some(&0) && answer.get(4..) == Some(&message[4..]) {
            return Ok(Sum::of(answer).finish() == 0);
        }
    }
}

#[test]
fn pings_are_answered_in_place() {
    if lab::skip_without("pings_are_answered_in_place", &["clang", "setpriv"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let object = world.scratch().join("echo.o");
    Program::new("clang")
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g", "-isystem"])
        .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .args([
            "-c",
            concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/examples/divert/icmp_echo.bpf.c"
            ),
            "-o",
        ])
        .arg(&object)
        .output()
        .expect("the example is compiled");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    // Who answers is not the kernel; and the other end of the veth polls.
    world
        .sysctl(Side::Server, "net.ipv4.icmp_echo_ignore_all", "1")
        .expect("a setting");
    let _polls = world
        .on(Side::Client, || {
            let interface = Interface::find(Side::Client.interface())?;
            Ok(Steering::attach(&interface, Placement::Native)?)
        })
        .expect("a program that passes everything");
    let ping = || world.on(Side::Client, || Ok(ping(Duration::from_secs(5))?));
    let divert = |words: &[&str]| outboard.command(&world, "divert").args(words).output();
    let list = || -> serde_json::Value {
        let text = divert(&["list", "--json"]).expect("a list");
        serde_json::from_str(&text).expect("JSON")
    };
    let file = object.to_str().expect("plain letters");
    let interface = Side::Server.interface();

    assert!(list().is_null());
    assert!(divert(&["unload"]).is_err());
    let other = divert(&["load", "-i", "lo", file])
        .expect_err("another interface")
        .to_string();
    assert!(other.contains("this engine works on"), "{other}");

    let said = divert(&["load", "-i", interface, file]).expect("it is loaded");
    assert!(said.starts_with("loaded answer_echo"), "{said}");
    for _ in 0..3 {
        assert!(ping().expect("a socket"), "{}", list());
    }
    let listed = list();
    assert_eq!(listed["name"], "answer_echo");
    assert_eq!(listed["verdicts"]["answered"], 3, "{listed}");
    assert!(listed["given"].as_f64() >= Some(3.0), "{listed}");

    // Others may look, and not load.
    let nobody = |words: &[&str]| {
        let program = world.program(Side::Server, "setpriv").args([
            "--reuid",
            "65534",
            "--clear-groups",
            "--",
        ]);
        let program = program.arg(BINARY).arg("divert").args(words);
        program.env("OUTBOARD_SOCKET", outboard.socket()).output()
    };
    let refused = nobody(&["unload"]).expect_err("refused").to_string();
    assert!(
        refused.contains("for root and the engine's own user"),
        "{refused}"
    );
    assert_eq!(list()["name"], "answer_echo");

    let said = divert(&["unload"]).expect("it is taken out");
    assert!(said.contains("unloaded"), "{said}");
    assert!(list().is_null());
    let answered = world.on(Side::Client, || Ok(crate::ping(Duration::from_secs(1))?));
    assert!(!answered.expect("a socket"), "nobody answers any more");
    engine.stop(LIMIT).expect("an end");
}
