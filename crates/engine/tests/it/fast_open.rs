//! TCP Fast Open of connections that programs open (RFC 7413): what their SYNs do, and what is told of them.

use std::net::SocketAddr;
use std::time::Duration;

use crate::world::{ENGINE, Host, PEER, World};
use engine::config::{Config, FastOpen as Setting};
use netdev::sim::LinkConfig;
use queue_pair::{Completion, ConnRef, ConnectBlock, FastOpen, Submission};
use tcp::ConnOptions;

const PORT: u16 = 7_000;
/// Where connect blocks lie: beyond what the harness sends from.
const PLACE: u64 = 1 << 20;

/// An engine that is set to that, a host, and a peer that gives and takes cookies.
fn world(setting: Setting) -> (World, Host) {
    let mut config = Config::default();
    config.tcp.fast_open = setting;
    let mut world = World::with(config, LinkConfig::default());
    let serves = tcp::Config {
        fast_open_server: true,
        ..tcp::Config::default()
    };
    world.peer.stack = tcp::Stack::new(serves, [9; 32]);
    let options = ConnOptions {
        fast_open: 16,
        ..ConnOptions::default()
    };
    world.peer.listen_with(PORT, options);
    let host = world.attach(None);
    (world, host)
}

/// A host asks for a connection from that port, which is its token, too. What it is told at once, and by the
/// end of the handshake.
fn connect(world: &mut World, host: &mut Host, from: u16, fast_open: FastOpen) -> Vec<Completion> {
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, from),
        fast_open,
        ..ConnectBlock::new(SocketAddr::new(PEER, PORT))
    };
    let bytes = block.encode();
    host.region.send.copy_in(PLACE, &bytes).expect("inside");
    host.completions.clear();
    host.submit(Submission::Connect {
        token: from.into(),
        addr: PLACE,
    });
    world.pass(Duration::from_millis(50));
    host.collect();
    std::mem::take(&mut host.completions)
}

/// How many cookies the peer has given, and how many connections it has opened by a SYN alone.
fn at_peer(world: &World) -> (u64, u64) {
    let counters = world.peer.stack.counters();
    (counters.fast_open_cookies, counters.fast_opens_in)
}

fn is_opened(told: &[Completion]) -> bool {
    matches!(told, [Completion::Opened { .. }])
}

#[test]
fn a_syn_that_is_not_to_wait_asks_for_a_cookie_and_then_brings_it() {
    let (mut world, mut host) = world(Setting::Connect);
    let told = connect(&mut world, &mut host, 20_000, FastOpen::No);
    assert!(is_opened(&told), "{told:?}");
    assert_eq!(at_peer(&world), (0, 0));
    for (from, expected) in [(20_001, (1, 0)), (20_002, (1, 1)), (20_003, (1, 2))] {
        let told = connect(&mut world, &mut host, from, FastOpen::Ask);
        // Nothing of its SYN: nobody waits for that.
        assert!(is_opened(&told), "{told:?}");
        assert_eq!(at_peer(&world), expected);
    }
    // Whoever does not ask does not use it.
    connect(&mut world, &mut host, 20_004, FastOpen::No);
    assert_eq!(at_peer(&world), (1, 2));
}

/// A host whose SYN waits for data: the first has asked for a cookie.
fn holding() -> (World, Host, ConnRef) {
    let (mut world, mut host) = world(Setting::Connect);
    let told = connect(&mut world, &mut host, 20_000, FastOpen::Hold);
    let [Completion::Syn { room: 0, .. }, Completion::Opened { .. }] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(at_peer(&world), (1, 0));
    let told = connect(&mut world, &mut host, 20_001, FastOpen::Hold);
    let [
        Completion::Syn {
            token: 20_001,
            conn,
            room: 1..,
        },
    ] = told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(at_peer(&world), (1, 0));
    (world, host, conn)
}

/// The connections that a host was told are open.
fn opened(host: &mut Host) -> usize {
    host.collect();
    let opened = |it: &&Completion| matches!(it, Completion::Opened { .. });
    host.completions.iter().filter(opened).count()
}

#[test]
fn a_syn_that_is_to_wait_does_so_where_a_cookie_is_known() {
    let (mut world, mut host, conn) = holding();
    host.send(conn, b"with the SYN", 0);
    world.settle();
    assert_eq!(at_peer(&world), (1, 1));
    assert_eq!(world.peer.stack.counters().bytes_in, 12);
    assert_eq!(opened(&mut host), 1);
}

#[test]
fn a_syn_that_waits_leaves_without_data_when_it_is_let_go() {
    let (mut world, mut host, conn) = holding();
    host.submit(Submission::LetSynGo { conn });
    world.settle();
    // The cookie is with it.
    assert_eq!(at_peer(&world), (1, 1));
    assert_eq!(opened(&mut host), 1);
    // Nobody is harmed by another, nor by one on a connection that is open.
    host.submit(Submission::LetSynGo { conn });
    host.send(conn, b"later", 0);
    world.settle();
    assert_eq!(world.peer.stack.counters().bytes_in, 5);
    assert_eq!(opened(&mut host), 1);
}

#[test]
fn an_engine_that_is_not_set_to_it_sends_ordinary_syns() {
    let (mut world, mut host) = world(Setting::Accept);
    for (from, fast_open) in [(20_000, FastOpen::Ask), (20_001, FastOpen::Ask)] {
        let told = connect(&mut world, &mut host, from, fast_open);
        assert!(is_opened(&told), "{told:?}");
    }
    assert_eq!(at_peer(&world), (0, 0));
}
