//! Buffers follow their path: what peers are offered, and what hosts are told is worth sending.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::slow::control::Control;
use netdev::sim::LinkConfig;
use queue_pair::{Completion, ConnRef, OptionKind, Submission};
use tcp::ConnId;

/// The window that the peer was offered last.
fn offered(world: &World, peer: ConnId) -> u32 {
    let info = world.peer.stack.info(world.now, peer);
    info.expect("it lives").send_window
}

/// The peer sends so much, and the program reads what comes.
fn receive(world: &mut World, host: &mut Host, conn: ConnRef, peer: ConnId, bytes: usize) {
    world.peer.send(world.now, peer, &vec![7; bytes]);
    let mut total = 0;
    while total < bytes {
        world.pass(Duration::from_millis(1));
        host.completions.clear();
        host.collect();
        let read = host.received(conn).len();
        assert!(read > 0, "{total} bytes and no more");
        total += read;
        host.submit(Submission::Consumed {
            conn,
            total: total as u64,
        });
    }
    world.settle();
}

#[test]
fn a_peer_is_offered_more_as_a_program_reads_more() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    assert!(offered(&world, peer) <= 128 << 10);
    receive(&mut world, &mut host, conn, peer, 3 << 20);
    let grown = offered(&world, peer);
    // A quarter of the area, which the world makes small.
    assert!((512 << 10..=(1 << 20) + 1024).contains(&grown), "{grown}");
}

#[test]
fn a_larger_area_lets_one_connection_have_a_window_beyond_16_mib() {
    let mut config = Config::default();
    config.limits.receive_area = 128 << 20;
    let control = Control::without_socket(&config.limits).expect("descriptors");
    // A wire that holds what one window has under way.
    let wire = LinkConfig {
        capacity: 1 << 16,
        ..LinkConfig::default()
    };
    let mut world = World::with_control(config, wire, control);
    let (mut host, conn, peer) = world.connected();
    receive(&mut world, &mut host, conn, peer, 80 << 20);
    let grown = offered(&world, peer);
    // Its own limit, which is a quarter of the area.
    assert!(((16 << 20) + 1..=32 << 20).contains(&grown), "{grown}");
}

#[test]
fn so_rcvbuf_fixes_what_a_peer_is_offered() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    host.submit(Submission::SetOption {
        conn,
        option: OptionKind::ReceiveBuffer,
        value: 65_536,
    });
    world.settle();
    receive(&mut world, &mut host, conn, peer, 1 << 20);
    // What was offered before stays offered.
    assert!(offered(&world, peer) <= 128 << 10);
}

#[test]
fn a_limit_that_is_no_larger_is_for_no_growth() {
    let mut config = Config::default();
    config.tcp.receive_buffer = 100_000;
    config.tcp.receive_buffer_limit = 0;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    receive(&mut world, &mut host, conn, peer, 1 << 20);
    assert!(offered(&world, peer) <= 101_000);
}

#[test]
fn a_host_hears_how_much_is_worth_sending() {
    let told = |limit: u32| {
        let mut config = Config::default();
        config.tcp.send_buffer_limit = limit;
        let mut world = World::with(config, LinkConfig::default());
        let (mut host, conn, _) = world.connected();
        for _ in 0..40 {
            host.send(conn, &[7; 80_000], 0);
            world.pass(Duration::from_millis(1));
        }
        host.collect();
        let told = host.completions.iter().filter_map(|it| match it {
            Completion::SendBuffer { conn: it, bytes } if *it == conn => Some(*bytes),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let grown = told(32 << 20);
    assert!(grown.is_sorted(), "{grown:?}");
    assert!(grown.last() > Some(&300_000), "{grown:?}");
    assert!(grown.len() < 20, "not for every acknowledgement: {grown:?}");
    assert_eq!(told(300_000).last(), Some(&300_000));
    // What a host takes for granted needs no word.
    assert!(told(0).is_empty());
}
