//! What cannot be taken away from who holds it: no user has all of it, and who comes late finds some.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Carried, Fds, Reply, Request};
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
    // Root, too: most listeners are its, and it is strangers who fill them.
    for (hoarder, others) in [(1000, [1001, 0]), (0, [1000, 1001])] {
        let Some(mut world) = world(|config| config.limits.unaccepted_bytes = 1 << 18) else {
            return;
        };
        let mut hoards = world.attach_as(hoarder);
        let (full, _) = world.listen(&mut hoards);
        let came: Vec<u64> = (0..80).map(|_| early(&mut world, full, 12_000)).collect();
        assert!(came.contains(&0), "there is an end: {came:?}");
        // Of 64 chunks an eighth is root's, or all others'; who is alone has nearly all of the rest.
        assert!(came.iter().sum::<u64>() > 32 * 4096, "{came:?}");
        for uid in others {
            let mut other = world.attach_as(uid);
            let (port, _) = world.listen(&mut other);
            assert_eq!(early(&mut world, port, 4000), 4000, "{hoarder}, {uid}");
        }
        assert!(world.worker.counters().dropped(Drop::UnacceptedFull) > 0);
    }
}

#[test]
fn what_one_user_holds_out_of_order_goes_before_what_another_waits_for() {
    let Some(mut world) = world(|config| config.limits.unaccepted_bytes = 1 << 16) else {
        return;
    };
    let mut users = [1000, 1001, 1002].map(|uid| world.attach_as(uid));
    let ports = users.each_mut().map(|host| world.listen(host).0);
    let whole = world.peer.connect(world.now, ports[0]);
    world.peer.hole_in = Some(whole);
    world.settle();
    world.peer.send(world.now, whole, &[7; 8_000]);
    world.settle();
    // Who has a window of nothing is asked now and then.
    let first_byte = |world: &mut World, port| {
        let peer = world.peer.connect(world.now, port);
        world.settle();
        world.peer.send(world.now, peer, &[7]);
        world.pass(Duration::from_secs(5));
        world.peer.conns[&peer].update.acked
    };
    // Two of 16 chunks are root's, two are of what is out of order, and one is what is left.
    for _ in 0..11 {
        assert_eq!(first_byte(&mut world, ports[0]), 1);
    }
    assert_eq!(first_byte(&mut world, ports[1]), 1);
    assert_eq!(world.worker.stack().counters().out_of_order_shed, 0);
    assert_eq!(first_byte(&mut world, ports[2]), 1);
    assert!(world.worker.stack().counters().out_of_order_shed > 0);
}

#[test]
fn what_a_process_leaves_unaccepted_and_has_no_place_is_counted() {
    let mut config = Config::default();
    config.limits.unaccepted_bytes = 1 << 14;
    let mut world = World::with(config, LinkConfig::default());
    let mut host = world.attach(None);
    let (port, _) = world.listen_with_credit(&mut host);
    for _ in 0..3 {
        let (_, peer) = world.offer(&mut host, port);
        world.peer.send(world.now, peer, &[7; 10_000]);
        world.settle();
    }
    drop(host);
    world.attend();
    world.settle();
    // Three of four chunks are the first one's.
    let counters = world.worker.counters();
    assert_eq!(counters.given_back, 1);
    assert_eq!(counters.dropped(Drop::UnacceptedFull), 2);
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

/// A user's program that accepts, and where.
fn serve(world: &mut World, uid: u32) -> (Host, u16) {
    let mut host = world.attach_as(uid);
    let (port, _) = world.listen_with_credit(&mut host);
    (host, port)
}

fn is_reset(world: &World, peer: ConnId) -> bool {
    world.peer.conns[&peer].update.failed.is_some()
}

fn whole(world: &World, peers: &[ConnId]) -> usize {
    let whole = peers.iter().filter(|peer| !is_reset(world, **peer));
    whole.count()
}

#[test]
fn who_leaves_many_connections_to_end_by_themselves_has_not_those_of_others_reset() {
    // Of 28 that are not root's, or all others'.
    for (hoarder, others, share) in [(1000, [1001, 0], 25), (0, [1000, 1001], 28)] {
        let Some(mut world) = world(|config| config.limits.orphans = 32) else {
            return;
        };
        let (mut hoards, full) = serve(&mut world, hoarder);
        let peers: Vec<ConnId> = (0..32)
            .map(|_| left(&mut world, &mut hoards, full).1)
            .collect();
        let first = whole(&world, &peers);
        for uid in others {
            let (mut other, port) = serve(&mut world, uid);
            let (_, peer) = left(&mut world, &mut other, port);
            assert!(!is_reset(&world, peer), "{hoarder}, {uid}");
        }
        assert_eq!(first, share);
        let refused = world.worker.counters().dropped(Drop::OrphansOfUser);
        assert_eq!(refused, 32 - share as u64);
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
}

#[test]
fn what_a_child_or_a_ticket_has_last_is_its_users() {
    let Some(mut world) = world(|config| config.limits.orphans = 32) else {
        return;
    };
    let (mut hoards, full) = serve(&mut world, 1000);
    let made: Vec<(ConnRef, ConnId)> = (0..33).map(|_| world.connect(&mut hoards, full)).collect();
    let peers: Vec<ConnId> = made.iter().map(|(_, peer)| *peer).collect();
    let (passed, _) = made[32];
    let carried = Carried::default();
    let request = Request::Ticket {
        conn: passed,
        carried,
    };
    let (reply, ticket) = world.request(&mut hoards, &request, Fds::new());
    assert!(matches!(reply, Reply::Ticket { .. }), "{reply:?}");
    let (_, lifeline) = crate::forks::fork(&mut world, &mut hoards);
    for (at, (conn, _)) in made.iter().enumerate() {
        hoards.close_at(*conn, at as u64 + 1);
    }
    world.settle();
    assert_eq!(whole(&world, &peers), 33);
    assert_eq!(world.worker.stack().counters().resets_out, 0);
    drop(lifeline);
    world.attend();
    world.settle();
    assert_eq!(whole(&world, &peers), 25 + 1, "and one that is passed");
    drop(ticket);
    world.attend();
    world.settle();
    assert_eq!(whole(&world, &peers), 25);
    assert_eq!(world.worker.counters().dropped(Drop::OrphansOfUser), 8);
}

#[test]
fn what_ends_without_a_reset_is_not_counted_as_one() {
    let Some(mut world) = world(|config| config.limits.orphans = 32) else {
        return;
    };
    let (mut hoards, full) = serve(&mut world, 1000);
    let (over, over_peer) = world.connect(&mut hoards, full);
    let (unread, unread_peer) = world.connect(&mut hoards, full);
    for _ in 0..25 {
        left(&mut world, &mut hoards, full);
    }
    // One that the peer has reset, and one that has bytes which nobody has read.
    world
        .peer
        .request(world.now, over_peer, tcp::Request::Abort);
    world.peer.send(world.now, unread_peer, &[7; 9]);
    world.settle();
    for conn in [over, unread] {
        hoards.close(conn);
    }
    world.settle();
    assert!(is_reset(&world, unread_peer));
    let refused = |world: &World| world.worker.counters().dropped(Drop::OrphansOfUser);
    assert_eq!(refused(&world), 0);
    left(&mut world, &mut hoards, full);
    assert_eq!(refused(&world), 1);
}
