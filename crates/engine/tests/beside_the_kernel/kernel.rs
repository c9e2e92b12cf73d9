//! The engine on a real interface, beside the kernel: a veth pair between two namespaces, AF_XDP,
//! the steering program, the kernel's neighbours, and the kernel's TCP at the other end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::beside::{Engine, LIMIT, connect, listener, on, read};
use lab::{Side, World};
use queue_pair::control::Reply;
use queue_pair::{Completion, ConnectBlock, Submission};

#[test]
fn the_kernels_tcp_is_served_and_an_idle_engine_sleeps() {
    if lab::skip_without_root("the_kernels_tcp_is_served_and_an_idle_engine_sleeps") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let (mut host, _kernel, address) = engine.listening(&world);
    let mut client = connect(&world, address);
    client.write_all(b"from the kernel").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"from the kernel");
    host.send(conn, b"from the engine", 15);
    assert_eq!(read(&mut client, 15), b"from the engine");
    assert_eq!(engine.metric("handed_over"), 1.0);

    // Its connection is idle, and so is it. Who looks for work all the time takes more turns in a
    // few milliseconds than it may take for being asked twice and for what is done each second.
    let before = engine.metric("turns");
    std::thread::sleep(Duration::from_secs(1));
    let turns = engine.metric("turns") - before;
    assert!(turns < 5_000.0, "{turns} turns");
}

#[test]
fn a_program_of_another_network_is_not_let_into_this_one() {
    if lab::skip_without_root("a_program_of_another_network_is_not_let_into_this_one") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let (_channel, reply, _) = engine.ask_to_attach(&world, Side::Client);
    let Reply::Error { message, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(message.contains("another network namespace"), "{message}");
    assert_eq!(engine.metric("sessions"), 0.0);
}

#[test]
fn a_port_is_its_programs_only_while_the_kernels_socket_listens() {
    if lab::skip_without_root("a_port_is_its_programs_only_while_the_kernels_socket_listens") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let (mut first, kernel, address) = engine.listening(&world);
    let _client = connect(&world, address);
    first.accepted();
    // It closes its socket and stays attached, and the port becomes another program's.
    drop(kernel);
    let again = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).expect("it is free");
    let other = on(&world, Side::Server, again);
    other.set_nonblocking(true).expect("a socket");
    let begin = Instant::now();
    loop {
        let _client = connect(&world, address);
        match other.accept() {
            Ok(_) => break,
            Err(_) => assert!(
                begin.elapsed() < LIMIT,
                "its clients reach who closed the port"
            ),
        }
    }
    // If that attaches, too, its clients are its own, and those of nobody else.
    let mut second = engine.attach(&world);
    second.listen(&other);
    let handed = engine.metric("handed_over");
    let mut client = connect(&world, address);
    client.write_all(b"for the second").expect("sent");
    let conn = second.accepted();
    assert_eq!(second.receive(conn), b"for the second");
    assert_eq!(engine.metric("handed_over"), handed + 1.0);
}

#[test]
fn connections_that_the_kernel_has_stay_the_kernels() {
    if lab::skip_without_root("connections_that_the_kernel_has_stay_the_kernels") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let (kernel, address) = listener(&world);
    let mut old = connect(&world, address);
    let (mut old_server, _) = kernel.accept().expect("the kernel's own");
    host.listen(&kernel);
    old.write_all(b"still").expect("sent");
    assert_eq!(read(&mut old_server, 5), b"still");
    old_server.write_all(b"here!").expect("sent");
    assert_eq!(read(&mut old, 5), b"here!");
    // New ones are the engine's, on the same port at the same time.
    let mut new = connect(&world, address);
    new.write_all(b"new").expect("sent");
    let conn = host.accepted();
    assert_eq!(host.receive(conn), b"new");
}

#[test]
fn a_stopping_engine_leaves_new_connections_to_the_kernel_and_ends_its_own() {
    if lab::skip_without_root("a_stopping_engine_leaves_new_connections_to_the_kernel") {
        return;
    }
    let world = World::new().expect("namespaces");
    let mut engine = Engine::start(&world, |_| ());
    let (mut host, kernel, address) = engine.listening(&world);
    let mut client = connect(&world, address);
    let conn = host.accepted();
    // The program has accepted it: an untouched one would end by RST, as in the kernel.
    host.submit(Submission::Consumed { conn, total: 0 });
    let begin = Instant::now();
    engine.signal_stop();
    // The kernel's queue gets the next one, as soon as the engine has heard.
    kernel.set_nonblocking(true).expect("a socket");
    loop {
        let _new = connect(&world, address);
        match kernel.accept() {
            Ok(_) => break,
            Err(_) => assert!(begin.elapsed() < LIMIT, "the kernel takes over"),
        }
    }
    // What is shown to it now is the next engine's.
    let (other, _) = listener(&world);
    let away = rustix::io::Errno::AGAIN.raw_os_error();
    let reply = host.asks_to_listen(&other);
    assert!(
        matches!(reply, Reply::Error { errno, .. } if errno == away),
        "{reply:?}"
    );
    // After the time to drain, the old one ends in good order.
    assert_eq!(client.read(&mut [0; 1]).expect("no reset"), 0);
    drop(client);
    engine.wait();
    assert!(!engine.socket.exists(), "nothing is left behind");
}

#[test]
fn a_next_hop_is_resolved_by_the_kernel_and_a_missing_one_is_said() {
    if lab::skip_without_root("a_next_hop_is_resolved_by_the_kernel") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |_| ());
    let mut host = engine.attach(&world);
    let target = on(&world, Side::Client, || {
        TcpListener::bind((Side::Client.ipv4(), 0)).expect("a port")
    });
    let remote = target.local_addr().expect("bound");
    // Nothing has crossed the link yet: the SYN waits until the kernel has asked who that is.
    let conn = host.open(&ConnectBlock::new(remote), 1).expect("it opens");
    let (mut accepted, peer) = target.accept().expect("accepted");
    assert_eq!(peer.ip(), Side::Server.ipv4());
    host.send(conn, b"hello", 0);
    assert_eq!(read(&mut accepted, 5), b"hello");

    let nobody = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 99), 80));
    let errno = host.open(&ConnectBlock::new(nobody), 2);
    let unreachable = rustix::io::Errno::HOSTUNREACH.raw_os_error();
    assert_eq!(errno, Err(unreachable));
}

#[test]
fn a_host_that_reads_nothing_lets_the_engine_sleep() {
    const RING: u32 = 256;
    if lab::skip_without_root("a_host_that_reads_nothing_lets_the_engine_sleep") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |config| config.limits.ring_entries = RING);
    let mut host = engine.attach(&world);
    // Each is refused, which is a notice: a ring full of them, then more than are kept for later, and
    // what is not taken any more.
    let block = ConnectBlock::new(SocketAddr::from((Side::Server.ipv4(), 80)));
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    let begin = Instant::now();
    for token in 0..u64::from(3 * RING) {
        while !host.try_submit(Submission::Connect { token, addr: 0 }) {
            assert!(
                begin.elapsed() < LIMIT,
                "the engine takes what there is room for"
            );
            std::thread::yield_now();
        }
    }
    let before = engine.metric("sleeps");
    while engine.metric("sleeps") < before + 3.0 {
        assert!(begin.elapsed() < LIMIT, "it looks for work all the time");
        std::thread::sleep(Duration::from_millis(20));
    }
    // And when the host reads, it goes on.
    let last = u64::from(3 * RING - 1);
    host.wait_for(|completion| match completion {
        Completion::OpenFailed { token, .. } if *token == last => Some(()),
        _ => None,
    });
}
