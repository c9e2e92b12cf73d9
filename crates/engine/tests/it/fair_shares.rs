//! What cannot be taken away from who holds it: no user has all of it, and who comes late finds some.

use crate::world::{Host, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::{ConnRef, Submission};
use tcp::ConnId;

/// A world with these limits; none where one cannot be several users.
fn world(limit: impl FnOnce(&mut Config)) -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        println!("left out: it takes root to be several users");
        return None;
    }
    let mut config = Config::default();
    limit(&mut config);
    Some(World::with(config, LinkConfig::default()))
}

/// A peer that sends so much to a listener as soon as it is connected; how much of it has a place.
fn early(world: &mut World, port: u16, bytes: usize) -> u64 {
    let peer = world.peer.connect(world.now, port);
    world.settle();
    world.peer.send(world.now, peer, &vec![7; bytes]);
    world.settle();
    world.peer.conns[&peer].update.acked
}

#[test]
fn who_never_accepts_leaves_room_for_what_others_clients_send_first() {
    let Some(mut world) = world(|config| config.limits.unaccepted_bytes = 1 << 18) else {
        return;
    };
    let mut hoards = world.attach_as(1000);
    let (full, _) = world.listen(&mut hoards);
    let came: Vec<u64> = (0..80).map(|_| early(&mut world, full, 12_000)).collect();
    assert!(came.contains(&0), "there is an end: {came:?}");
    // Of 64 chunks an eighth is root's; who is alone has nearly all of the rest.
    assert!(came.iter().sum::<u64>() > 32 * 4096, "{came:?}");
    for uid in [1001, 0] {
        let mut other = world.attach_as(uid);
        let (port, _) = world.listen(&mut other);
        assert_eq!(early(&mut world, port, 4000), 4000, "{uid}");
    }
    assert!(world.worker.counters().dropped(Drop::UnacceptedFull) > 0);
}

/// A connection that a host closes, and whose peer does not.
fn left(world: &mut World, host: &mut Host, port: u16) -> (ConnRef, ConnId) {
    let (conn, peer) = world.connect(host, port);
    host.submit(Submission::Close {
        conn,
        abort: false,
        at: 0,
    });
    world.settle();
    (conn, peer)
}

#[test]
fn who_leaves_many_connections_to_end_by_themselves_has_not_those_of_others_reset() {
    let Some(mut world) = world(|config| config.limits.orphans = 32) else {
        return;
    };
    let serve = |world: &mut World, uid| {
        let mut host = world.attach_as(uid);
        let (port, listener) = world.listen(&mut host);
        host.submit(Submission::Credit {
            listener,
            total: 64,
            waits: false,
        });
        (host, port)
    };
    let is_reset = |world: &World, peer| world.peer.conns[&peer].update.failed.is_some();
    let (mut hoards, full) = serve(&mut world, 1000);
    let peers: Vec<ConnId> = (0..32)
        .map(|_| left(&mut world, &mut hoards, full).1)
        .collect();
    let whole = peers.iter().filter(|peer| !is_reset(&world, **peer));
    let whole = whole.count();
    for uid in [1001, 0] {
        let (mut other, port) = serve(&mut world, uid);
        let (_, peer) = left(&mut world, &mut other, port);
        assert!(!is_reset(&world, peer), "{uid}");
    }
    assert_eq!(whole, 25, "of 28 that are not root's");
    assert_eq!(world.worker.counters().dropped(Drop::OrphansOfUser), 7);
    // Those that end are no longer counted.
    for peer in peers {
        let _ = world
            .peer
            .stack
            .on_request(world.now, peer, tcp::Request::Close);
    }
    world.settle();
    let (_, peer) = left(&mut world, &mut hoards, full);
    assert!(!is_reset(&world, peer));
}
