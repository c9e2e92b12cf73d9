//! Processes that read no more (SHUT_RD): what comes when nobody will send any more either resets the
//! connection, whoever has it.

use crate::world::{Host, World};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{ConnRef, Submission};

fn shut_reading(host: &mut Host, conn: ConnRef) {
    host.submit(Submission::ShutdownRead { conn });
}

fn shut_writing(host: &mut Host, conn: ConnRef) {
    host.submit(Submission::Shutdown { conn, at: 0 });
}

fn reset() -> Option<u16> {
    Some(rustix::io::Errno::CONNRESET.raw_os_error() as u16)
}

#[test]
fn data_after_both_directions_were_shut_down_resets() {
    for reading_first in [true, false] {
        let mut world = World::new();
        let (mut host, conn, peer) = world.connected();
        world.peer.send(world.now, peer, b"before");
        world.settle();
        if reading_first {
            shut_reading(&mut host, conn);
        }
        shut_writing(&mut host, conn);
        if !reading_first {
            shut_reading(&mut host, conn);
        }
        world.settle();
        host.collect();
        assert_eq!(host.failure(conn), None);
        assert!(world.peer.conns[&peer].update.peer_closed);
        world.peer.send(world.now, peer, b"after");
        world.settle();
        host.collect();
        assert_eq!(host.failure(conn), reset());
        let failed = world.peer.conns[&peer].update.failed;
        assert_eq!(failed, Some(tcp::Failure::Reset));
        // What came before can still be read.
        assert_eq!(host.received(conn), b"before");
        host.close(conn);
        world.settle();
        host.collect();
        assert!(host.is_released(conn));
    }
}

#[test]
fn data_after_reading_alone_was_shut_down_is_taken() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    shut_reading(&mut host, conn);
    world.settle();
    world.peer.send(world.now, peer, b"after");
    world.settle();
    host.send(conn, b"still here", 0);
    world.settle();
    host.collect();
    assert_eq!(host.failure(conn), None);
    assert_eq!(host.received(conn), b"after");
    assert_eq!(world.peer.conns[&peer].bytes, b"still here");
}

#[test]
fn each_direction_may_be_shut_down_by_another_process() {
    for child_reads in [true, false] {
        let mut world = World::new();
        let (mut parent, conn, peer) = world.connected();
        let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
        let Reply::Forked { token } = reply else {
            panic!("{reply:?}");
        };
        let mut child = world.attach(Some(token));
        let (reads, writes) = if child_reads {
            (&mut child, &mut parent)
        } else {
            (&mut parent, &mut child)
        };
        shut_reading(reads, conn);
        shut_writing(writes, conn);
        world.settle();
        world.peer.send(world.now, peer, b"after");
        world.settle();
        for host in [&mut parent, &mut child] {
            host.collect();
            assert_eq!(host.failure(conn), reset());
        }
        let failed = world.peer.conns[&peer].update.failed;
        assert_eq!(failed, Some(tcp::Failure::Reset));
    }
}
