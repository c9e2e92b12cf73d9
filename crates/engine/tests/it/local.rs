//! Connections within the machine: both ends are the engine's, and nothing of theirs is on the wire.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::world::{ENGINE, ENGINE_MAC, Host, PEER, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::io::Errno;
use wire::checksum::Sum;
use wire::segment::{Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn local_world() -> World {
    let config = Config {
        local: true,
        ..Config::default()
    };
    World::with(config, LinkConfig::default())
}

/// A host that listens, and is willing to be handed what comes.
fn listening(world: &mut World) -> (Host, u16) {
    let mut host = world.attach(None);
    let (port, _) = world.listen_with_credit(&mut host);
    (host, port)
}

/// A host asks for a connection to `remote` from a port of its choice.
fn connect(world: &mut World, host: &mut Host, remote: SocketAddr, port: u16) -> Completion {
    let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let block = ConnectBlock {
        local: SocketAddr::new(unspecified, port),
        ..ConnectBlock::new(remote)
    };
    // Out of the way of what the host sends.
    let addr = 1 << 20;
    host.region
        .send
        .copy_in(addr, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 9, addr });
    let told = host.completions.len();
    world.settle();
    host.collect();
    *host.completions.get(told).expect("answered")
}

fn opened(completion: Completion) -> (ConnRef, SocketAddr) {
    match completion {
        Completion::Opened { conn, local, .. } => (conn, local),
        other => panic!("not opened: {other:?}"),
    }
}

#[test]
fn two_programs_talk_without_the_wire() {
    let mut world = local_world();
    let (mut server, port) = listening(&mut world);
    let mut client = world.attach(None);
    for (round, address) in [LOOPBACK, ENGINE].into_iter().enumerate() {
        let remote = SocketAddr::new(address, port);
        let (reply, _) = world.request(&mut client, &Request::Local { remote }, Fds::new());
        assert_eq!(reply, Reply::Done);
        let from = 20_000 + round as u16;
        let (ours, local) = opened(connect(&mut world, &mut client, remote, from));
        assert_eq!(local, SocketAddr::new(address, from));
        server.collect_and_accept();
        let theirs = *server.accepted().last().expect("handed over");
        // More than fits into a frame, or the queue.
        let sent: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        client.send(ours, &sent, 0);
        server.send(theirs, b"hello", 0);
        world.settle();
        server.collect();
        client.collect();
        let received = server.received(theirs);
        assert!(!received.is_empty() && sent.starts_with(&received));
        assert_eq!(client.received(ours), b"hello");
    }
    assert_eq!(
        world.worker.counters().frames,
        0,
        "nothing came by the wire"
    );
    assert_eq!(world.worker.counters().sent, 0, "nothing left by it");
    assert!(world.worker.counters().local_frames > 10);
}

#[test]
fn a_program_can_be_both_ends() {
    let mut world = local_world();
    let (mut host, port) = listening(&mut world);
    let remote = SocketAddr::new(LOOPBACK, port);
    let (ours, _) = opened(connect(&mut world, &mut host, remote, 20_000));
    host.collect_and_accept();
    let theirs = *host.accepted().last().expect("handed over");
    assert_ne!(ours, theirs);
    host.send(ours, b"to myself", 0);
    world.settle();
    host.collect();
    assert_eq!(host.received(theirs), b"to myself");
}

#[test]
fn what_the_engine_does_not_listen_on_is_the_kernels() {
    let mut world = local_world();
    let (mut server, port) = listening(&mut world);
    let mut client = world.attach(None);
    let asked = [
        (SocketAddr::new(LOOPBACK, port ^ 1), false),
        (SocketAddr::new(PEER, port), false),
        // The listener is on IPv4 alone.
        (
            SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), port),
            false,
        ),
        // All of 127.0.0.0/8 is this machine's.
        (SocketAddr::new([127, 1, 2, 3].into(), port), true),
    ];
    for (remote, expected) in asked {
        let (reply, _) = world.request(&mut client, &Request::Local { remote }, Fds::new());
        assert_eq!(reply == Reply::Done, expected, "{remote}: {reply:?}");
    }
    // The listener goes between the question and the connection.
    let (_, listener) = world.listen(&mut server);
    let gone = server.kernel[1].local_addr().expect("bound").port();
    let remote = SocketAddr::new(LOOPBACK, gone);
    let ask = Request::Local { remote };
    assert_eq!(world.request(&mut client, &ask, Fds::new()).0, Reply::Done);
    let leave = Request::Unlisten { listener };
    assert_eq!(
        world.request(&mut server, &leave, Fds::new()).0,
        Reply::Done
    );
    let refused = connect(&mut world, &mut client, remote, 20_000);
    let errno = Errno::CONNREFUSED.raw_os_error() as u16;
    assert_eq!(refused, Completion::OpenFailed { token: 9, errno });
}

#[test]
fn by_default_it_is_all_the_kernels() {
    let mut world = World::new();
    let (_server, port) = listening(&mut world);
    let mut client = world.attach(None);
    for address in [LOOPBACK, ENGINE] {
        let remote = SocketAddr::new(address, port);
        let (reply, _) = world.request(&mut client, &Request::Local { remote }, Fds::new());
        assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
        let refused = connect(&mut world, &mut client, remote, 20_000);
        let errno = Errno::OPNOTSUPP.raw_os_error() as u16;
        assert_eq!(refused, Completion::OpenFailed { token: 9, errno });
    }
}

#[test]
fn nobody_on_the_wire_can_speak_for_this_machine() {
    let mut world = local_world();
    let (mut server, port) = listening(&mut world);
    let mut client = world.attach(None);
    let remote = SocketAddr::new(ENGINE, port);
    let (ours, local) = opened(connect(&mut world, &mut client, remote, 20_000));
    server.collect_and_accept();
    // From an own address, from and to loopback; with our own hardware address, and the queue's.
    let lies = [(ENGINE, ENGINE), (LOOPBACK, ENGINE), (PEER, LOOPBACK)];
    let stations = [crate::world::PEER_MAC, ENGINE_MAC, netdev::loopback::MAC];
    let mut told = 0;
    for (src, dst) in lies {
        for station in stations {
            let headers = Headers {
                link: Link {
                    src: station,
                    dst: ENGINE_MAC,
                    ..Link::default()
                },
                src,
                dst,
                hop_limit: 64,
                dscp: 0,
                ecn: wire::ip::Ecn::NotCapable,
                tcp: Repr {
                    src_port: local.port(),
                    dst_port: port,
                    seq: SeqNumber(0),
                    ack: None,
                    flags: Flags::RST,
                    window: 0,
                    options: Options::default(),
                },
            };
            let mut frame = [0; 128];
            headers
                .emit(0, TcpChecksum::Complete(Sum::ZERO), &mut frame)
                .expect("fits");
            world.peer.inject(&frame[..headers.len()]);
            world.settle();
            told += 1;
            assert_eq!(world.worker.counters().dropped(Drop::Martian), told);
        }
    }
    client.send(ours, b"still there", 0);
    world.settle();
    server.collect();
    let theirs = server.accepted()[0];
    assert_eq!(server.received(theirs), b"still there");
}
