//! Two processes that write to one connection after a fork.

mod world;

use std::time::Duration;

use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, Submission};
use world::{Host, World};

/// A parent that has written `before ` on a connection which its child has then taken over, with
/// the child, and the peer's name of the connection.
fn family(world: &mut World) -> (Host, Host, ConnRef, tcp::ConnId) {
    let (mut parent, conn, peer) = world.connected();
    parent.send(conn, b"before ", 0);
    world.settle();
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    let (reply, _) = world.request(&mut child, &Request::Adopt { conn }, Fds::new());
    assert!(matches!(reply, Reply::Adopted { sent: 7, .. }), "{reply:?}");
    (parent, child, conn, peer)
}

/// The bytes up to which a host was told that they are acknowledged.
fn acknowledged(host: &mut Host, conn: ConnRef) -> Option<u64> {
    host.collect();
    host.completions.iter().rev().find_map(|it| match it {
        Completion::Update {
            conn: it, acked, ..
        } if *it == conn => Some(*acked),
        _ => None,
    })
}

/// What a host was told of bytes that are not read any more, in order.
fn released(host: &mut Host, conn: ConnRef) -> Vec<u64> {
    host.collect();
    let sent = host.completions.iter().filter_map(|it| match it {
        Completion::Released { conn: it, sent } if *it == conn => Some(*sent),
        _ => None,
    });
    sent.collect()
}

#[test]
fn what_the_former_owner_still_writes_is_sent() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    child.send(conn, b"child ", 0);
    world.settle();
    parent.send(conn, b"late ", 0);
    world.settle();
    child.send(conn, b"child again", 0);
    world.pass(Duration::from_millis(100));
    assert_eq!(
        world.peer.conns[&peer].bytes,
        b"before child late child again",
        "{}",
        String::from_utf8_lossy(&world.peer.conns[&peer].bytes)
    );
    // Each is told of its own bytes: the child resumed after the seven that were sent before.
    assert_eq!(acknowledged(&mut child, conn), Some(7 + 6 + 11));
    assert_eq!(released(&mut parent, conn).last(), Some(&(7 + 5)));
}

#[test]
fn late_words_are_sent_although_their_writer_closes() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    parent.send(conn, b"late", 0);
    parent.submit(Submission::Close { conn, abort: false });
    world.settle();
    child.submit(Submission::Close { conn, abort: false });
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"before late");
    assert!(world.peer.conns[&peer].update.peer_closed);
    assert_eq!(released(&mut parent, conn).last(), Some(&(7 + 4)));
    assert!(child.is_released(conn) || released(&mut child, conn).len() == 1);
}

#[test]
fn a_former_owner_ends_the_direction_for_both() {
    let mut world = World::new();
    let (mut parent, _child, conn, peer) = family(&mut world);
    parent.submit(Submission::Shutdown { conn });
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}
