//! What a turn sends, by how long the device takes to let it leave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::world::{Host, World};
use netdev::sim::{LinkConfig, Toll};
use queue_pair::{ConnRef, OptionKind, Submission};
use tcp::ConnId;

/// Connections that have something to send.
const MANY: usize = 200;
/// Frames that leave before the clock is looked at again, where it is not known what they take.
const PORTION: u64 = 32;
/// Nanoseconds that a call takes, where it is known.
const PORTION_TAKES: u64 = 50_000;
/// Nanoseconds of a turn for sending.
const BUDGET: u64 = 100_000;
/// What a call takes at least.
const CALL: u64 = 1;

/// A world in which a frame takes so many nanoseconds to leave, and the clock by which it does.
fn world(frame: u64) -> (World, &'static AtomicU64) {
    let clock: &AtomicU64 = Box::leak(Box::default());
    let link = LinkConfig {
        toll: Some(Toll {
            clock,
            call: CALL,
            frame,
        }),
        ..LinkConfig::default()
    };
    (World::with(engine::config::Config::default(), link), clock)
}

/// A host with as many connections, each with both of its names.
fn connected(world: &mut World, count: usize) -> (Host, Vec<(ConnRef, ConnId)>) {
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: count as u32,
        waits: false,
    });
    let all = (0..count).map(|_| world.connect(&mut host, port)).collect();
    (host, all)
}

/// Frames of one turn, and calls by which they left.
fn turn(world: &mut World, clock: &AtomicU64) -> (u64, u64) {
    let (sent, time) = (world.worker.counters().sent, clock.load(Ordering::Relaxed));
    assert!(world.worker.turn(world.now));
    let frames = world.worker.counters().sent - sent;
    let took = clock.load(Ordering::Relaxed) - time;
    (frames, took)
}

#[test]
fn a_turn_ends_in_time_and_the_rest_leaves_in_order() {
    // As on a veth.
    const FRAME: u64 = 5_500;
    let (mut world, clock) = world(FRAME);
    let (mut host, all) = connected(&mut world, MANY);
    for (conn, _) in &all {
        host.send(*conn, b"first", 0);
    }
    // One that has more to send than anybody does not go first for that.
    for _ in 0..20 {
        host.send(all[0].0, &[7; 1_000], 0);
    }
    let mut served = 0;
    let mut turns = 0;
    while served < MANY {
        let (frames, took) = turn(&mut world, clock);
        assert!((1..=2 * PORTION).contains(&frames), "{frames} frames");
        let portion = match turns {
            0 => PORTION * (FRAME + CALL),
            _ => PORTION_TAKES,
        };
        assert!(took < BUDGET + portion, "{took} ns in turn {turns}");
        turns += 1;
        assert!(turns < 20, "{served} were served");
        world.peer.turn(world.now);
        let has = |peer: &ConnId| !world.peer.conns[peer].bytes.is_empty();
        let first_without = all.iter().take_while(|(_, peer)| has(peer)).count();
        assert!(all[first_without..].iter().all(|(_, peer)| !has(peer)));
        assert!(first_without > served, "each turn sends some");
        served = first_without;
    }
    world.settle();
    for (_, peer) in &all {
        assert_eq!(world.peer.conns[peer].bytes[..5], *b"first");
    }
    assert_eq!(world.peer.conns[&all[0].1].bytes.len(), 5 + 20_000);
}

#[test]
fn large_sends_end_a_turn_in_time() {
    const FRAME: u64 = 1_000;
    // Frames that the largest packet is cut into.
    const CUT: u64 = 45;
    let (mut world, clock) = world(FRAME);
    let (mut host, all) = connected(&mut world, 8);
    // As much as makes their sends large, and as much again.
    for _ in 0..2 {
        world.settle();
        for _ in 0..8 {
            for (conn, _) in &all {
                host.send(*conn, &[7; 32_768], 0);
            }
        }
    }
    let large = world.worker.counters().large_sends;
    let (sends, took) = turn(&mut world, clock);
    assert_eq!(world.worker.counters().large_sends - large, sends);
    assert!(took >= BUDGET, "{took} ns, {sends} sends");
    assert!(
        took < BUDGET + CUT * FRAME + CALL,
        "{took} ns, {sends} sends"
    );
    // Nobody waits until others have sent all that their peers take.
    for _ in 0..4 {
        world.peer.turn(world.now);
        turn(&mut world, clock);
    }
    world.peer.turn(world.now);
    for (_, peer) in &all {
        assert!(world.peer.conns[peer].bytes.len() > 8 * 32_768);
    }
    world.settle();
    for (_, peer) in &all {
        assert_eq!(world.peer.conns[peer].bytes.len(), 16 * 32_768);
    }
}

#[test]
fn what_costs_little_leaves_by_few_calls() {
    for (count, frame, calls) in [
        // Few leave by one call, whatever it takes.
        (20, 5_500, 1),
        (20, 0, 1),
        // Of many a portion shows what it takes.
        (MANY, 0, 2),
    ] {
        let (mut world, clock) = world(frame);
        let (mut host, all) = connected(&mut world, count);
        for (conn, _) in &all {
            host.send(*conn, b"first", 0);
        }
        let (frames, took) = turn(&mut world, clock);
        assert_eq!(frames, count as u64);
        assert_eq!(took, calls * CALL + frames * frame);
    }
}

#[test]
fn who_finds_no_room_for_a_large_send_holds_up_nobody_else() {
    let link = LinkConfig {
        large_room: 8,
        ..LinkConfig::default()
    };
    let mut world = World::with(engine::config::Config::default(), link);
    let (mut host, all) = connected(&mut world, 4);
    let much: Vec<u8> = (0..200_000u32).map(|at| (at / 7) as u8).collect();
    // The first leaves no room for the next ones.
    for (conn, _) in &all[..3] {
        host.send(*conn, &much, 0);
    }
    host.send(all[3].0, b"little", 0);
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    let received = |at: usize| &world.peer.conns[&all[at].1].bytes;
    assert!(!received(0).is_empty());
    assert!(received(1).is_empty() && received(2).is_empty());
    assert_eq!(received(3), b"little");
    // As soon as there is room they go on.
    world.pass(Duration::from_secs(1));
    for (_, peer) in &all[..3] {
        assert!(world.peer.conns[peer].bytes == much);
    }
}

#[test]
fn who_waits_for_room_acknowledges_what_comes() {
    let link = LinkConfig {
        large_room: 8,
        ..LinkConfig::default()
    };
    let mut world = World::with(engine::config::Config::default(), link);
    let (mut host, all) = connected(&mut world, 2);
    for (conn, _) in &all {
        host.send(*conn, &[7; 100_000], 0);
    }
    world.worker.turn(world.now);
    // Nobody takes from the wire what leaves.
    world.peer.send(world.now, all[1].1, &[1; 3_000]);
    let sent = world.worker.counters().sent;
    world.peer.only_sends(world.now);
    world.worker.turn(world.now);
    assert!(world.worker.counters().sent > sent);
    assert!(!world.worker.turn(world.now), "nobody turns in vain");
    world.pass(Duration::from_secs(1));
    for (_, peer) in &all {
        assert_eq!(world.peer.conns[peer].bytes.len(), 100_000);
    }
}

#[test]
fn who_waits_for_room_has_it_before_he_resets() {
    // No more than may be under way at first.
    const FILLS: usize = 14_000;
    const FITS: usize = 10_000;
    let link = LinkConfig {
        large_room: 8,
        ..LinkConfig::default()
    };
    let mut world = World::with(engine::config::Config::default(), link);
    let (mut host, all) = connected(&mut world, 3);
    for (conn, _) in &all {
        // The end is no full segment.
        host.submit(Submission::SetOption {
            conn: *conn,
            option: OptionKind::NoDelay,
            value: 1,
        });
    }
    world.settle();
    host.send(all[0].0, &[7; FILLS], 0);
    for (conn, _) in &all[1..] {
        host.send(*conn, &[7; FITS], 0);
    }
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    let received = |world: &World, at: usize| world.peer.conns[&all[at].1].bytes.len();
    assert_eq!(received(&world, 0), FILLS);
    assert_eq!(received(&world, 1), 0);
    assert_eq!(received(&world, 2), 0);
    // There is room now, and another one has waited longer for it.
    host.submit(Submission::Close {
        conn: all[2].0,
        abort: true,
        at: 0,
    });
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    assert_eq!(received(&world, 2), FITS);
    world.pass(Duration::from_secs(1));
    assert_eq!(received(&world, 1), FITS);
}
