//! Several workers: what another one has, or can take, is never answered by a reset, whatever moves at that
//! moment.

use std::time::Duration;

use crate::world::{Host, World};
use engine::config::Config;
use queue_pair::{ConnRef, Submission};
use tcp::{ConnId, Request};

/// The port that peers connect from here.
const FROM: u16 = 50_000;

/// A listener with a process at each worker, in the order of the workers; the port, and each one's name of it.
fn listener_of(world: &mut World, workers: usize) -> (Vec<Host>, Vec<u32>, u16) {
    let mut hosts: Vec<Host> = (0..workers).map(|_| world.attach(None)).collect();
    let (first, rest) = hosts.split_at_mut(1);
    let (port, name) = world.listen(&mut first[0]);
    let names = rest.iter_mut().map(|host| world.join(host, &first[0]));
    let names = std::iter::once(name).chain(names).collect();
    (hosts, names, port)
}

fn credit(host: &mut Host, listener: u32, total: u32) {
    host.submit(Submission::Credit {
        listener,
        total,
        waits: true,
    });
}

/// Closes a connection at both ends, first here: its pair is in TIME-WAIT.
fn close_both(world: &mut World, (host, conn): (&mut Host, ConnRef), peer: ConnId) {
    host.close(conn);
    world.settle();
    world.peer.request(world.now, peer, Request::Close);
    world.settle();
}

fn failed(world: &World, peer: ConnId) -> Option<tcp::Failure> {
    world.peer.conns[&peer].update.failed
}

#[test]
fn a_pair_in_time_wait_is_taken_over_where_somebody_listens() {
    for queue in [0, 1] {
        let mut world = World::of_workers(2);
        let (mut hosts, names, port) = listener_of(&mut world, 2);
        credit(&mut hosts[0], names[0], 8);
        world.settle();
        let peer = world.peer.connect_from(world.now, FROM, port);
        world.settle();
        hosts[0].collect_and_accept();
        let conn = hosts[0].accepted()[0];
        close_both(&mut world, (&mut hosts[0], conn), peer);
        assert_eq!(world.worker.stack().time_wait_count(), 1);
        // Its worker loses its listener; the same ports come again.
        let mut second = hosts.pop().expect("two");
        let left = core::mem::take(&mut hosts[0].kernel);
        drop(hosts);
        world.attend();
        credit(&mut second, names[1], 8);
        world.pass(Duration::from_millis(20));
        world.peer.sends_to = queue;
        let again = world.peer.connect_from(world.now, FROM, port);
        world.peer.send(world.now, again, b"again");
        world.pass(Duration::from_millis(20));
        second.collect_and_accept();
        assert_eq!(failed(&world, again), None, "queue {queue}");
        let conn = second.accepted()[0];
        assert_eq!(second.received(conn), b"again");
        // The pair went along: there is none of it left.
        assert_eq!(world.worker.stack().time_wait_count(), 0);
        assert_eq!(world.others[0].stack().counters().time_wait_reused, 1);
        drop(left);
    }
}

#[test]
fn a_pair_in_time_wait_of_a_port_where_nobody_listens_is_refused() {
    let mut world = World::of_workers(2);
    let (mut host, conn, peer) = world.connected();
    let port = host.kernel[0].local_addr().expect("bound").port();
    close_both(&mut world, (&mut host, conn), peer);
    drop(host);
    world.attend();
    world.pass(Duration::from_millis(20));
    let again = world.peer.connect_from(world.now, 40_001, port);
    world.pass(Duration::from_millis(20));
    assert_eq!(failed(&world, again), Some(tcp::Failure::Refused));
}

/// Two workers that have room for one handshake each, and one that has taken it: the next is answered by
/// a cookie.
fn by_cookie() -> (World, Vec<Host>, [ConnId; 2]) {
    let mut config = Config::default();
    config.limits.half_open = 1;
    let mut world = World::of_workers_with(2, config);
    let (mut hosts, names, port) = listener_of(&mut world, 2);
    for (host, name) in hosts.iter_mut().zip(names) {
        credit(host, name, 8);
    }
    world.settle();
    let peers = [
        world.peer.connect(world.now, port),
        world.peer.connect(world.now, port),
    ];
    world.peer.turn(world.now);
    world.worker.turn(world.now);
    assert_eq!(world.worker.stack().counters().cookies_sent, 1);
    (world, hosts, peers)
}

#[test]
fn a_cookie_may_come_back_to_any_worker() {
    let (mut world, mut hosts, peers) = by_cookie();
    world.peer.sends_to = 1;
    world.settle();
    for peer in peers {
        assert_eq!(failed(&world, peer), None);
    }
    hosts.iter_mut().for_each(Host::collect_and_accept);
    let accepted: usize = hosts.iter().map(|host| host.accepted().len()).sum();
    assert_eq!(accepted, 2);
}

#[test]
fn what_brings_a_cookie_back_twice_begins_one_connection() {
    for (acks, data) in [(0, 1), (1, 0)] {
        let (mut world, mut hosts, peers) = by_cookie();
        world.peer.sends_to = acks;
        world.peer.turn(world.now);
        world.peer.sends_to = data;
        world.peer.send(world.now, peers[1], b"at once");
        world.peer.turn(world.now);
        world.settle();
        assert_eq!(failed(&world, peers[1]), None);
        let here = world.worker.stack().connection_count();
        let there = world.others[0].stack().connection_count();
        assert_eq!(here + there, 2, "acknowledged at {acks}");
        hosts.iter_mut().for_each(Host::collect_and_accept);
        let received = hosts.iter().flat_map(|host| {
            let accepted = host.accepted().into_iter();
            accepted.map(|conn| host.received(conn))
        });
        let received: Vec<u8> = received.flatten().collect();
        assert_eq!(received, b"at once");
    }
}

#[test]
fn what_waits_for_a_connection_that_goes_on_goes_after_it() {
    let mut world = World::of_workers(2);
    let (mut hosts, names, port) = listener_of(&mut world, 2);
    credit(&mut hosts[1], names[1], 1);
    world.settle();
    let peer = world.peer.connect(world.now, port);
    while world.worker.counters().connections_moved == 0 {
        world.peer.turn(world.now);
        world.worker.turn(world.now);
    }
    // It is on its way to the second, whose process goes; what comes there for it is before it.
    world.peer.sends_to = 1;
    world.peer.send(world.now, peer, b"early");
    world.peer.turn(world.now);
    drop(hosts.pop());
    world.attend();
    assert_eq!(failed(&world, peer), None);
    credit(&mut hosts[0], names[0], 1);
    world.pass(Duration::from_secs(1));
    hosts[0].collect_and_accept();
    let conn = hosts[0].accepted()[0];
    assert_eq!(hosts[0].received(conn), b"early");
}

#[test]
fn a_handshake_that_comes_where_nobody_is_left_goes_on() {
    for goes in [1, 2] {
        let mut world = World::of_workers(3);
        let (mut hosts, names, port) = listener_of(&mut world, 3);
        let peer = world.peer.connect(world.now, port);
        world.peer.turn(world.now);
        world.worker.turn(world.now);
        assert_eq!(world.worker.stack().half_open_count(), 1);
        // The process of its worker goes, and one of the others at the same moment.
        let kernel = core::mem::take(&mut hosts[0].kernel);
        let mut stays = hosts.remove(3 - goes);
        drop(hosts);
        world.attend();
        assert_eq!(failed(&world, peer), None, "worker {goes} goes");
        credit(&mut stays, names[3 - goes], 1);
        world.settle();
        stays.collect();
        assert_eq!(stays.accepted().len(), 1, "worker {goes} goes");
        drop(kernel);
    }
}
