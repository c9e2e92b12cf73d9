//! Who bounds what waits to leave (TCP_NOTSENT_LOWAT) is told how much has, and nobody else.

use std::time::Duration;

use crate::world::{Host, World};
use queue_pair::{Completion, ConnRef, OptionKind, Submission};
use tcp::ConnId;

fn world() -> (World, Host, ConnRef) {
    let mut world = World::new();
    let (host, conn, _) = world.connected();
    (world, host, conn)
}

fn bound(world: &mut World, host: &mut Host, conn: ConnRef, bytes: u64) {
    host.submit(Submission::SetOption {
        conn,
        option: OptionKind::NotSentLow,
        value: bytes,
    });
    world.settle();
}

/// What the host was told of what has left.
fn told(host: &mut Host, conn: ConnRef) -> Vec<u64> {
    host.collect();
    let departed = |it: &Completion| match it {
        Completion::Departed { conn: it, total } if *it == conn => Some(*total),
        _ => None,
    };
    host.completions.iter().filter_map(departed).collect()
}

/// What of a connection is acknowledged, and what has left.
fn at_engine(world: &World, conn: ConnRef) -> (u64, u64) {
    let id = ConnId {
        index: conn.index,
        generation: conn.generation,
    };
    let info = world.worker.stack().info(world.now, id).expect("it lives");
    (
        info.bytes_acked,
        info.bytes_acked + u64::from(info.in_flight),
    )
}

/// Runs the engine alone: what it sends is not answered.
fn engine_alone(world: &mut World) {
    while world.worker.turn(world.now) {}
}

#[test]
fn who_minds_is_told_what_has_left() {
    let (mut world, mut host, conn) = world();
    bound(&mut world, &mut host, conn, 16_384);
    host.send(conn, &[7; 200_000], 0);
    engine_alone(&mut world);
    let (acked, departed) = at_engine(&world, conn);
    assert!(
        acked == 0 && (10_000..100_000).contains(&departed),
        "{departed}"
    );
    assert_eq!(told(&mut host, conn).last(), Some(&departed));
    // The rest leaves as what was before is acknowledged.
    world.pass(Duration::from_millis(50));
    assert_eq!(at_engine(&world, conn), (200_000, 200_000));
    let told = told(&mut host, conn);
    assert!(
        told.is_sorted() && told.last() <= Some(&200_000),
        "{told:?}"
    );
}

#[test]
fn who_does_not_mind_or_is_not_held_back_is_not_told() {
    let (mut world, mut host, conn) = world();
    host.send(conn, &[7; 200_000], 0);
    world.pass(Duration::from_millis(50));
    assert!(told(&mut host, conn).is_empty());
    // Half of it has not to wait for anything.
    bound(&mut world, &mut host, conn, 100_000);
    host.send(conn, &[7; 49_999], 0);
    world.pass(Duration::from_millis(50));
    assert!(told(&mut host, conn).is_empty());
    // From when it is set on, it is told of what was sent before, too.
    bound(&mut world, &mut host, conn, 0);
    host.send(conn, &[7; 200_000], 0);
    engine_alone(&mut world);
    assert!(told(&mut host, conn).is_empty());
    host.submit(Submission::SetOption {
        conn,
        option: OptionKind::NotSentLow,
        value: 10_000,
    });
    engine_alone(&mut world);
    let (_, departed) = at_engine(&world, conn);
    assert_eq!(told(&mut host, conn), [departed]);
}
