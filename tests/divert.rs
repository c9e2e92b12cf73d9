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
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
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

/// An example, compiled as its first lines say.
fn compiled(world: &World, example: &str, defined: &[&str]) -> PathBuf {
    let object = world.scratch().join(format!("{example}.o"));
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/divert");
    Program::new("clang")
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra"])
        .args(["-Werror", "-isystem"])
        .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .args(defined)
        .arg("-c")
        .arg(examples.join(format!("{example}.bpf.c")))
        .arg("-o")
        .arg(&object)
        .output()
        .expect("the example is compiled");
    object
}

/// A program at the client's end that passes everything: only then does that end poll for what the other one
/// transmits.
fn polls(world: &World) -> Steering {
    world
        .on(Side::Client, || {
            let interface = Interface::find(Side::Client.interface())?;
            Ok(Steering::attach(&interface, Placement::Native)?)
        })
        .expect("a program that passes everything")
}

#[test]
fn pings_are_answered_in_place() {
    if lab::skip_without("pings_are_answered_in_place", &["clang", "setpriv"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let object = compiled(&world, "icmp_echo", &[]);
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    // Who answers is not the kernel.
    world
        .sysctl(Side::Server, "net.ipv4.icmp_echo_ignore_all", "1")
        .expect("a setting");
    let _polls = polls(&world);
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

/// What the server's address answers to a question for this name (in wire form) and type; `None`, if nobody
/// listens there (ICMP).
fn asked(name: &[u8], kind: u8, further: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let socket = UdpSocket::bind((Side::Client.ipv4(), 0))?;
    socket.connect((Side::Server.ipv4(), 53))?;
    socket.set_read_timeout(Some(LIMIT))?;
    let mut query = vec![0xab, 0xcd, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
    query[11] = u8::from(!further.is_empty());
    query.extend(name);
    query.extend([0, kind, 0, 1]);
    query.extend(further);
    socket.send(&query)?;
    let mut answer = vec![0; 512];
    match socket.recv(&mut answer) {
        Ok(length) => {
            answer.truncate(length);
            Ok(Some(answer))
        }
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn names_are_answered_in_place() {
    if lab::skip_without("names_are_answered_in_place", &["clang"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let defined = ["-DNAME=\"\\3www\\7example\"", "-DADDRESS=0xc6336407"];
    let object = compiled(&world, "dns", &defined);
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let _polls = polls(&world);
    let divert = |words: &[&str]| outboard.command(&world, "divert").args(words).output();
    let file = object.to_str().expect("plain letters");
    let said = divert(&["load", "-i", Side::Server.interface(), file]).expect("it is loaded");
    assert!(said.starts_with("loaded answer_dns"), "{said}");

    let asked = |name: &[u8], kind, further: &[u8]| {
        let answer = world.on(Side::Client, || asked(name, kind, further));
        answer.expect("a socket")
    };
    // However it is written, and whatever of EDNS comes behind it: longer and shorter than the answer.
    let name = b"\x03wWw\x07Example\0";
    let option = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];
    let padded = [&option[..9], &[0, 24, 0, 12, 0, 20], &[0; 20]].concat();
    for further in [&[][..], &option, &padded] {
        let answer = asked(name, 1, further).expect("an answer");
        assert_eq!(
            answer[..12],
            [0xab, 0xcd, 0x85, 0, 0, 1, 0, 1, 0, 0, 0, 0],
            "{answer:?}"
        );
        let question = 12 + name.len();
        assert_eq!(&answer[12..question], name);
        assert_eq!(answer[question..question + 4], [0, 1, 0, 1]);
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 51, 100, 7];
        assert_eq!(answer[question + 4..], record);
    }
    // What it does not know is the kernel's, where nobody listens.
    assert_eq!(asked(b"\x03wwv\x07example\0", 1, &[]), None);
    assert_eq!(asked(b"\x03www\x07example\0", 28, &[]), None);
    let listed = divert(&["list", "--json"]).expect("a list");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["verdicts"]["answered"], 3, "{listed}");
    engine.stop(LIMIT).expect("an end");
}
