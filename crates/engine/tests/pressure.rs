//! Receive memory runs short: windows shrink, then what is out of order goes.

mod world;

use std::time::Duration;

use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::Submission;
use world::{Host, World};

/// Bytes of the session's receive area: sixteen chunks.
const AREA: u32 = 1 << 16;

fn world() -> World {
    let mut config = Config::default();
    config.limits.receive_area = AREA;
    World::with(config, LinkConfig::default())
}

#[test]
fn a_peer_is_slowed_down_before_memory_is_gone() {
    let mut world = world();
    let (mut host, conn, peer) = world.connected();
    // The host reads nothing, and the connection's own buffer is far larger than the area.
    world.peer.send(world.now, peer, &[7; 4 * AREA as usize]);
    world.pass(std::time::Duration::from_secs(2));
    host.collect();
    let received = host.received(conn).len();
    assert!(received > AREA as usize / 2, "{received}");
    let counters = world.worker.stack().counters();
    assert!(counters.windows_limited > 0);
    // It goes on when the host reads.
    let mut total = received as u64;
    for _ in 0..2000 {
        host.completions.clear();
        host.submit(Submission::Consumed { conn, total });
        world.pass(std::time::Duration::from_millis(10));
        host.collect();
        total += host.received(conn).len() as u64;
        if total == 4 * u64::from(AREA) {
            return;
        }
    }
    panic!("{total} bytes arrived");
}

#[test]
fn what_another_connection_holds_out_of_order_goes_first() {
    let mut world = world();
    let (mut host, _, peer) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    world.peer.hole_in = Some(peer);
    world.peer.send(world.now, peer, &[7; 14_000]);
    world.settle();
    let held = |world: &World| {
        let stack = world.worker.stack();
        let held = stack.connections().map(|id| stack.info(world.now, id));
        held.flatten().map(|info| info.out_of_order).sum::<u32>()
    };
    assert!(held(&world) > 10_000, "{}", held(&world));
    // Others need the memory for what is in order.
    let mut received = 0;
    for _ in 0..4 {
        let (conn, other) = world.connect(&mut host, port);
        world.peer.send(world.now, other, &[9; AREA as usize]);
        world.pass(std::time::Duration::from_millis(100));
        host.collect();
        received += host.received(conn).len();
    }
    assert_eq!(held(&world), 0);
    assert!(world.worker.stack().counters().out_of_order_shed > 10_000);
    assert!(received > AREA as usize - 5 * 4096, "{received}");
}

#[test]
fn a_connection_that_finds_no_memory_waits_until_some_is_given_back() {
    let mut world = world();
    let (mut host, first, peer) = world.connected();
    let port = host.kernel[0].local_addr().unwrap().port();
    // A byte that is not read holds a chunk: here on as many connections as there are chunks.
    world.peer.send(world.now, peer, &[1]);
    for _ in 1..AREA / 4096 {
        let (_, peer) = world.connect(&mut host, port);
        world.peer.send(world.now, peer, &[1]);
    }
    world.settle();
    let accepted = host.accepted().len();
    // The last one's handshake comes with its first byte.
    let late = world.peer.connect(world.now, port);
    world.peer.send(world.now, late, &[2]);
    world.settle();
    host.collect();
    assert_eq!(host.accepted().len(), accepted, "there is no memory for it");
    let total = 1;
    host.submit(Submission::Consumed { conn: first, total });
    world.settle();
    host.collect();
    let accepted = host.accepted()[accepted..].to_vec();
    let [conn] = accepted[..] else {
        panic!("{accepted:?}");
    };
    assert_eq!(host.received(conn), [2]);
}

#[test]
fn a_process_without_memory_does_not_hold_up_the_others() {
    let mut world = world();
    let (mut full, _, peer) = world.connected();
    let port = full.kernel[0].local_addr().unwrap().port();
    world.peer.send(world.now, peer, &[1]);
    for _ in 1..AREA / 4096 {
        let (_, peer) = world.connect(&mut full, port);
        world.peer.send(world.now, peer, &[1]);
    }
    world.settle();
    let mut other = world.attach(None);
    let listener = world.join(&mut other, &full);
    other.submit(Submission::Credit {
        listener,
        total: 8,
        waits: false,
    });
    // Both are willing, in turn; only one has room.
    for count in 1..=4 {
        let late = world.peer.connect(world.now, port);
        world.peer.send(world.now, late, &[2]);
        world.settle();
        other.collect();
        assert_eq!(other.accepted().len(), count);
    }
}

#[test]
fn receive_memory_in_use_is_bounded_and_nothing_is_lost() {
    const EACH: usize = 100_000;
    let mut config = Config::default();
    config.limits.receive_memory = 1 << 18;
    let mut world = World::with(config, LinkConfig::default());
    let (mut host, conn, peer) = world.connected();
    let port = host.kernel[0].local_addr().expect("bound").port();
    let mut conns = vec![(conn, peer)];
    conns.extend((0..31).map(|_| world.connect(&mut host, port)));
    for (_, peer) in &conns {
        world.peer.send(world.now, *peer, &[7; EACH]);
    }
    for _ in 0..100 {
        world.pass(Duration::from_millis(50));
    }
    host.collect();
    let held = |host: &Host| {
        conns
            .iter()
            .map(|(conn, _)| host.received(*conn).len())
            .sum()
    };
    let before: usize = held(&host);
    assert!(
        before <= (1 << 20) + (1 << 18),
        "{before} bytes, and 1 MiB is free"
    );
    let mut consumed = vec![0; conns.len()];
    for _ in 0..2_000 {
        world.pass(Duration::from_millis(50));
        host.collect();
        for (at, (conn, _)) in conns.iter().enumerate() {
            consumed[at] += host.received(*conn).len();
            let (conn, total) = (*conn, consumed[at] as u64);
            host.submit(Submission::Consumed { conn, total });
        }
        host.completions.clear();
        if consumed.iter().sum::<usize>() >= conns.len() * EACH {
            break;
        }
    }
    assert_eq!(consumed, vec![EACH; conns.len()]);
}
