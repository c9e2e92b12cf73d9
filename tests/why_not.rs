//! Why the kernel has a connection that came to a listener of the engine's, or that a program opens beside it.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};
use native::{Context, Errno, Handle, Kind, Mode, Queue};

/// One that not everybody may bind to.
const LOW_PORT: u16 = 703;
/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn accept(queue: &mut Queue, listener: Handle) -> Handle {
    let mut events = Vec::new();
    loop {
        match queue.accept(listener, 0) {
            Err(Errno::AGAIN) => queue.wait(&mut events, 16, Some(HANG)).expect("events"),
            accepted => return accepted.expect("a connection"),
        }
    }
}

#[test]
fn what_comes_by_the_wire_is_told_from_what_comes_from_this_machine() {
    let test = "what_comes_by_the_wire_is_told_from_what_comes_from_this_machine";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let placed = outboard.start_engine_with(&world, "placement = \"kernel\"\n");
    let engine = placed.expect("an engine");
    world.enter(Side::Server).expect("the server's side");
    let context = Context::attach_at(outboard.socket(), "test", Mode::Any).expect("a context");
    let mut queue = context.queue().expect("a queue");
    let at: SocketAddr = (Side::Server.ipv4(), PORT).into();
    let listener = queue.listen(at, 16, 0).expect("a port");
    assert_eq!(queue.is_offloaded(listener), Ok(true));
    let mut why = |from| {
        let connect = || Ok(TcpStream::connect_timeout(&at, HANG)?);
        let _client = world.on(from, connect).expect("a connection");
        let accepted = accept(&mut queue, listener);
        let facts = queue.facts(accepted).expect("facts");
        assert!(!facts.is_offloaded);
        facts.why_not.unwrap_or_default()
    };
    let by_wire = why(Side::Client);
    assert!(by_wire.contains("the engine left it"), "{by_wire}");
    let from_here = why(Side::Server);
    assert!(from_here.contains("from this machine"), "{from_here}");
    drop(queue);
    engine.stop(HANG).expect("an end");
    // So does the kernel give it, where there is no engine.
    let client = IpAddr::from(Side::Client.ipv4());
    let listeners = [PORT + 2, PORT + 3].map(|port| {
        let listen = || Ok(TcpListener::bind((client, port))?);
        world.on(Side::Client, listen).expect("a listener")
    });
    let context = Context::attach_at(outboard.socket(), "test", Mode::Any).expect("a context");
    let mut queue = context.queue().expect("a queue");
    let from = SocketAddr::new(World::address(Side::Server, client), LOW_PORT + 1);
    for listener in &listeners {
        let remote = listener.local_addr().expect("bound");
        let handle = queue
            .connect_from(Some(from), remote, &[], 0)
            .expect("begun");
        let mut events = Vec::new();
        queue.wait(&mut events, 1, Some(HANG)).expect("an event");
        assert_eq!((events[0].kind, events[0].error), (Kind::Open, 0));
        assert_eq!(queue.is_offloaded(handle), Ok(false));
    }
}

/// Addresses that do not go with one interface are usual on the loopback interface.
#[test]
fn what_leaves_from_an_address_of_another_interface_is_the_kernels() {
    let test = "what_leaves_from_an_address_of_another_interface_is_the_kernels";
    if lab::skip_without(test, &["ip"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let ip = |side, words: &str| {
        let ip = world.program(side, "ip").args(words.split_whitespace());
        ip.output().expect("ip");
    };
    let addresses: [(IpAddr, &str, IpAddr); 2] = [
        ([192, 0, 2, 9].into(), "32", Side::Client.ipv4().into()),
        (
            "2001:db8::9".parse().expect("an address"),
            "128",
            Side::Client.ipv6().into(),
        ),
    ];
    for (own, bits, client) in &addresses {
        ip(Side::Server, &format!("addr add {own}/{bits} dev lo"));
        let server = World::address(Side::Server, *client);
        ip(
            Side::Client,
            &format!("route add {own}/{bits} via {server}"),
        );
    }
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    world.enter(Side::Server).expect("the server's side");
    for (own, _, client) in addresses {
        let listen = || Ok(TcpListener::bind((client, PORT))?);
        let listener = world.on(Side::Client, listen).expect("a listener");
        let remote = listener.local_addr().expect("bound");
        let from = Some(SocketAddr::new(own, 0));

        let context = Context::attach_at(outboard.socket(), "test", Mode::Any).expect("a context");
        let mut queue = context.queue().expect("a queue");
        let handle = queue.connect_from(from, remote, &[], 0).expect("begun");
        let mut events = Vec::new();
        queue.wait(&mut events, 1, Some(HANG)).expect("an event");
        assert_eq!((events[0].kind, events[0].error), (Kind::Open, 0), "{own}");
        assert_eq!(queue.local(handle).map(|local| local.ip()), Ok(own));
        let facts = queue.facts(handle).expect("facts");
        let why = facts.why_not.unwrap_or_default();
        assert!(
            !facts.is_offloaded && why.contains("the engine's interface"),
            "{why}"
        );

        // Who wants nothing but the engine is told at once.
        let context =
            Context::attach_at(outboard.socket(), "test", Mode::Engine).expect("a context");
        let mut queue = context.queue().expect("a queue");
        assert_eq!(
            queue.connect_from(from, remote, &[], 0),
            Err(Errno::OPNOTSUPP)
        );
        // The engine may bind no low port itself: the program shows that it may. From one it has several.
        let listen = || Ok(TcpListener::bind((client, PORT + 1))?);
        let another = world.on(Side::Client, listen).expect("a listener");
        let another = another.local_addr().expect("bound");
        let own = World::address(Side::Server, client);
        for (port, remote) in [(0, remote), (LOW_PORT, remote), (LOW_PORT, another)] {
            let from = SocketAddr::new(own, port);
            let handle = queue.connect_from(Some(from), remote, &[], 0);
            let handle = handle.expect("begun");
            queue.wait(&mut events, 1, Some(HANG)).expect("an event");
            let opened = (events[0].kind, events[0].error);
            assert_eq!(opened, (Kind::Open, 0), "{from} to {remote}");
            assert_eq!(queue.is_offloaded(handle), Ok(true));
            let local = queue.local(handle).expect("it is open");
            assert!(port == 0 || local == from, "{local}");
        }
    }
    engine.stop(HANG).expect("an end");
}
