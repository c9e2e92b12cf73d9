//! Errors that a TCP survives: a connection of the kernel's that goes on is not told as over because of them.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use lab::{Side, World, skip_without_root, tool};
use native::{Context, Errno, Event, Kind, Mode, Queue};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;
const SENT: u64 = 2;

/// Changes the rules on the client's side.
fn rules(world: &World, line: &str) {
    let nft = tool::find("nft").expect("it was there");
    let nft = world.program(Side::Client, nft).args(line.split(' '));
    nft.output().expect("rules");
}

/// How many messages have come that something cannot be reached. The thread is where they come.
fn unreachable() -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let mut lines = all.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut counters = names.split(' ').zip(values.split(' '));
    let found = counters.find(|(name, _)| *name == "InDestUnreachs");
    found.expect("a counter").1.parse().expect("a number")
}

/// Events up to the first of `kind`.
fn until(queue: &mut Queue, kind: Kind) -> Vec<Event> {
    let mut all = Vec::new();
    while all.last().is_none_or(|last: &Event| last.kind != kind) {
        let mut events = Vec::new();
        queue.wait(&mut events, 1, Some(HANG)).expect("events");
        assert!(!events.is_empty(), "no {kind:?}: {all:?}");
        all.append(&mut events);
    }
    all
}

#[test]
fn a_connection_that_goes_on_is_not_told_as_over() {
    let test = "a_connection_that_goes_on_is_not_told_as_over";
    if skip_without_root(test) || lab::skip_without(test, &["nft"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let at: SocketAddr = (Side::Client.ipv4(), PORT).into();
    let listen = || Ok(TcpListener::bind(at)?);
    let listener = world.on(Side::Client, listen).expect("a port");
    world.enter(Side::Server).expect("the server's side");
    let context = Context::attach("nobody", "test", Mode::Kernel).expect("a context");
    let mut queue = context.queue().expect("a queue");
    let connection = queue.connect(at, &[], 1).expect("begun");
    until(&mut queue, Kind::Open);
    let (mut peer, _) = listener.accept().expect("a connection");
    peer.set_read_timeout(Some(HANG)).expect("a limit");
    // That it is acknowledged is told by what looks like an error, too. Nobody looks at it yet.
    assert_eq!(queue.send_async(connection, b"a", false, SENT), Ok(1));
    peer.read_exact(&mut [0]).expect("a byte");
    // The acknowledgement comes with this.
    peer.write_all(b"z").expect("bytes");

    rules(&world, "add table ip refusing");
    rules(
        &world,
        "add chain ip refusing in { type filter hook input priority 0 ; }",
    );
    rules(
        &world,
        "add rule ip refusing in tcp dport 7000 reject with icmp type host-unreachable",
    );
    let (before, start) = (unreachable(), Instant::now());
    assert_eq!(queue.send(connection, b"b", false), Ok(1));
    while unreachable() == before {
        assert!(start.elapsed() < HANG, "nobody refuses it");
        std::thread::yield_now();
    }
    let mut told = until(&mut queue, Kind::Sent);
    rules(&world, "delete table ip refusing");
    let mut byte = [0];
    peer.read_exact(&mut byte).expect("a byte");
    assert_eq!(&byte, b"b");
    peer.write_all(b"d").expect("bytes");
    let (mut got, mut bytes) = (Vec::<u8>::new(), [0; 4]);
    while got != b"zd" {
        match queue.recv(connection, &mut bytes) {
            Err(Errno::AGAIN) => told.extend(until(&mut queue, Kind::Receive)),
            read => got.extend_from_slice(&bytes[..read.expect("bytes")]),
        }
    }
    let mut events = Vec::new();
    queue.poll(&mut events, 16).expect("events");
    told.append(&mut events);
    assert!(told.iter().all(|event| event.error == 0), "{told:?}");
    assert!(told.iter().all(|event| event.kind != Kind::End), "{told:?}");
}
