//! Buffers of a program's own that connections receive into: what comes is placed there at once, each byte
//! in one place, whatever the network, the family or a hostile host does.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use netdev::faults::Faults;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, Submission};
use tcp::ConnId;

/// Where the buffers lie in the send area: beyond what the harness sends from.
const PLACE: u64 = 1 << 20;

fn post(host: &mut Host, conn: ConnRef, addr: u64, len: u32, from: u64) {
    host.submit(Submission::Post {
        conn,
        addr,
        len,
        from,
    });
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn send(world: &mut World, peer: ConnId, bytes: &[u8]) {
    world.peer.send(world.now, peer, bytes);
    world.settle();
}

/// Bytes that were placed in buffers, and bytes that came in chunks.
fn counts(host: &mut Host, conn: ConnRef) -> (u64, u64) {
    host.collect();
    let mut counts = (0, 0);
    for completion in &host.completions {
        match completion {
            Completion::Placed { conn: c, len, .. } if *c == conn => counts.0 += u64::from(*len),
            Completion::Update { conn: c, len, .. } if *c == conn => counts.1 += u64::from(*len),
            _ => {}
        }
    }
    counts
}

fn at(host: &Host, addr: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    host.region.send.copy_out(addr, &mut bytes).expect("inside");
    bytes
}

#[test]
fn what_comes_is_placed_where_the_program_wants_it() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let bytes = pattern(30_000);
    post(&mut host, conn, PLACE, 10_000, 0);
    post(&mut host, conn, PLACE + 50_000, 15_000, 10_000);
    world.settle();
    send(&mut world, peer, &bytes);
    world.pass(Duration::from_millis(20));
    assert_eq!(counts(&mut host, conn), (25_000, 5_000));
    assert_eq!(at(&host, PLACE, 10_000), bytes[..10_000]);
    assert_eq!(at(&host, PLACE + 50_000, 15_000), bytes[10_000..25_000]);
    // In the order of the stream, whatever it came by.
    assert_eq!(host.received(conn), bytes);
    assert_eq!(world.worker.counters().buffers_posted, 2);
    // What is consumed opens the window as ever.
    for round in 1..=20 {
        host.submit(Submission::Consumed {
            conn,
            total: 30_000 * round,
        });
        post(&mut host, conn, PLACE, 30_000, 30_000 * round);
        world.settle();
        send(&mut world, peer, &bytes);
        world.pass(Duration::from_millis(20));
        assert_eq!(at(&host, PLACE, 30_000), bytes, "{round}");
    }
    assert_eq!(counts(&mut host, conn), (25_000 + 600_000, 5_000));
}

#[test]
fn what_came_before_the_buffer_stays_where_it_is() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let bytes = pattern(9000);
    send(&mut world, peer, &bytes[..3000]);
    // The host does not know of what has come: it asks for all of it.
    post(&mut host, conn, PLACE, 8000, 0);
    world.settle();
    send(&mut world, peer, &bytes[3000..]);
    world.pass(Duration::from_millis(20));
    assert_eq!(counts(&mut host, conn), (5000, 4000));
    assert_eq!(host.received(conn), bytes);
    assert_eq!(at(&host, PLACE + 3000, 5000), bytes[3000..8000]);
}

#[test]
fn loss_and_reordering_leave_each_byte_its_place() {
    for seed in 0..4 {
        let faults = LinkConfig {
            faults: Faults {
                loss: 0.05,
                reorder: 0.2,
                reorder_distance: 8,
                duplication: 0.05,
                ..Faults::NONE
            },
            seed,
            ..LinkConfig::default()
        };
        let mut world = World::with(Config::default(), faults);
        let mut host = world.attach(None);
        let (port, _) = world.listen_with_credit(&mut host);
        let peer = world.peer.connect(world.now, port);
        world.pass(Duration::from_secs(8));
        host.collect_and_accept();
        let conn = *host.accepted().last().expect("handed over");
        let bytes = pattern(200_000);
        let mut from = 0;
        // Buffers and chunks take turns.
        for len in [7000, 1, 40_000, 300, 90_000] {
            post(&mut host, conn, PLACE + from, len, from);
            from += u64::from(len) + 5000;
        }
        world.settle();
        send(&mut world, peer, &bytes);
        for _ in 0..200 {
            world.pass(Duration::from_millis(100));
            host.collect();
            let total = host.received(conn).len() as u64;
            host.submit(Submission::Consumed { conn, total });
            if total == bytes.len() as u64 {
                break;
            }
        }
        let (placed, _) = counts(&mut host, conn);
        assert!(placed > 100_000, "{placed} of seed {seed}");
        for (begin, len) in [(0, 7000), (12_000, 1), (17_001, 40_000), (62_001, 300)] {
            let begin = begin as usize;
            assert_eq!(
                at(&host, PLACE + begin as u64, len),
                bytes[begin..begin + len],
                "{begin} of seed {seed}"
            );
        }
    }
}

#[test]
fn a_buffer_that_makes_no_sense_is_not_used_and_harms_nobody() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let bytes = pattern(5000);
    post(&mut host, conn, PLACE, 1000, u64::MAX - 10);
    post(&mut host, conn, PLACE, 1000, 4000);
    // Before the one that is there, and over it.
    post(&mut host, conn, PLACE + 9000, 1000, 0);
    post(&mut host, conn, PLACE + 9000, 1000, 4500);
    world.settle();
    send(&mut world, peer, &bytes);
    assert_eq!(counts(&mut host, conn), (1000, 4000));
    assert_eq!(host.received(conn), bytes);
    assert_eq!(world.worker.sessions(), 1);
    // More than there may be.
    for n in 0..200 {
        post(&mut host, conn, PLACE + 2000 + n, 1, 5000 + n);
    }
    world.settle();
    send(&mut world, peer, &bytes);
    assert_eq!(host.received(conn)[..5000], bytes);
    // The first is not consumed.
    assert_eq!(counts(&mut host, conn).0, 1000 + 63);
    assert_eq!(host.received(conn)[5000..], bytes);
}

#[test]
fn a_buffer_outside_of_the_send_area_ends_the_session() {
    for (addr, len) in [
        (1 << 22, 1),
        ((1 << 22) - 1, 2),
        (u64::MAX, 1),
        (0, u32::MAX),
    ] {
        let mut world = World::new();
        let (mut host, conn, peer) = world.connected();
        let (victim, _, _) = world.connected();
        post(&mut host, conn, addr, len, 0);
        world.pass(Duration::from_secs(1));
        assert_eq!(world.worker.counters().violations, 1);
        assert_eq!(world.worker.sessions(), 1, "its memory is free");
        let failed = world.peer.conns[&peer].update.failed;
        assert_eq!(failed, Some(tcp::Failure::Reset));
        drop(victim);
    }
}

#[test]
fn what_nobody_read_is_another_process_s_to_read() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    let bytes = pattern(6000);
    post(&mut parent, conn, PLACE, 5000, 0);
    world.settle();
    send(&mut world, peer, &bytes[..4000]);
    assert_eq!(counts(&mut parent, conn), (4000, 0));
    // The parent has taken note of some of it.
    assert_eq!(parent.read(conn, 0, 1500).as_deref(), Some(&bytes[..1500]));
    child.submit(Submission::Acquire { conn });
    world.settle();
    child.collect();
    assert_eq!(child.pushed(conn), bytes[1500..4000]);
    // The buffer is the parent's again: nothing comes there.
    parent
        .region
        .send
        .copy_in(PLACE, &[7; 5000])
        .expect("inside");
    send(&mut world, peer, &bytes[4000..]);
    assert_eq!(at(&parent, PLACE, 5000), [7; 5000]);
    child.collect();
    assert_eq!(child.pushed(conn), bytes[1500..]);
}

#[test]
fn a_program_that_dies_with_buffers_posted_leaves_nothing() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    let (_victim, _, _) = world.connected();
    post(&mut host, conn, PLACE, 5000, 0);
    world.settle();
    send(&mut world, peer, &pattern(3000));
    drop(host);
    world.attend();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.worker.sessions(), 1, "its memory is free");
    // What it had not read is lost, and the peer is told.
    let failed = world.peer.conns[&peer].update.failed;
    assert_eq!(failed, Some(tcp::Failure::Reset));
    assert_eq!(world.worker.counters().violations, 0);
}
