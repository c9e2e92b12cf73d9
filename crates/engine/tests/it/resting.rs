//! Sessions in which nothing happens are not looked at in every turn, where there are many.

use std::time::Duration;

use crate::world::{Host, World};
use queue_pair::{ConnRef, Profile};
use tcp::ConnId;

/// Longer than a session is awake in which nothing happens.
const LONG: Duration = Duration::from_millis(20);

/// A process with a connection, after so many others that nothing happens in.
fn beside(others: usize) -> (World, Vec<Host>, Host, ConnRef, ConnId) {
    let mut world = World::new();
    let idle = (0..others).map(|_| world.attach(None)).collect();
    let (host, conn, peer) = world.connected();
    (world, idle, host, conn, peer)
}

/// So much time that idle sessions rest, if there are many.
fn idle(world: &mut World) {
    world.pass(LONG);
    world.attend();
}

fn received(world: &World, peer: ConnId) -> &[u8] {
    &world.peer.conns[&peer].bytes
}

#[test]
fn what_one_that_rests_submits_is_taken_when_it_rings() {
    let (mut world, _others, mut host, conn, peer) = beside(40);
    idle(&mut world);
    host.send(conn, b"resting", 0);
    world.settle();
    assert_eq!(received(&world, peer), b"", "no turn looks at it");
    assert!(host.ring(), "it is asked for that");
    world.attend();
    assert_eq!(received(&world, peer), b"resting");
    // It is awake now.
    assert!(!host.ring());
    host.send(conn, b", awake", 0);
    // Until the first part is acknowledged.
    world.pass(Duration::from_millis(100));
    assert_eq!(received(&world, peer), b"resting, awake");
}

#[test]
fn what_the_network_brings_for_one_that_rests_wakes_it() {
    let (mut world, _others, mut host, conn, peer) = beside(40);
    idle(&mut world);
    world.peer.send(world.now, peer, b"question");
    world.settle();
    host.collect();
    let told = host.completions.len();
    assert!(told > 0);
    host.send(conn, b"answer", 8);
    world.settle();
    assert_eq!(received(&world, peer), b"answer", "nobody rang");
}

#[test]
fn what_is_submitted_while_it_is_put_to_rest_keeps_it_awake() {
    let (mut world, _others, mut host, conn, peer) = beside(40);
    world.pass(LONG);
    host.send(conn, b"late", 0);
    // It is looked at whether it rests before its ring is, and would not have to ring.
    world.worker.attend(world.now);
    world.settle();
    assert_eq!(received(&world, peer), b"late");
}

#[test]
fn who_wants_the_least_latency_does_not_rest() {
    let (mut world, _others, mut host, conn, peer) = beside(40);
    host.region.core.tell(0, Some(Profile::Latency));
    idle(&mut world);
    host.send(conn, b"unrung", 0);
    world.settle();
    assert_eq!(received(&world, peer), b"unrung");
}

#[test]
fn of_a_few_none_rests() {
    let (mut world, _others, mut host, conn, peer) = beside(20);
    idle(&mut world);
    host.send(conn, b"unrung", 0);
    world.settle();
    assert_eq!(received(&world, peer), b"unrung");
    assert!(!host.ring());
}

#[test]
fn one_that_ends_while_it_rests_leaves_its_slot_to_another() {
    let (mut world, others, host, _, _) = beside(40);
    idle(&mut world);
    let before = world.worker.sessions();
    drop(host);
    drop(others);
    world.attend();
    world.pass(LONG);
    world.attend();
    assert!(world.worker.sessions() < before);
    let (mut host, conn, peer) = world.connected();
    host.send(conn, b"another", 0);
    world.settle();
    assert_eq!(received(&world, peer), b"another");
}
