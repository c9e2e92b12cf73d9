//! Processes that have a connection together since a fork: several readers, several writers, and
//! what follows when one of them closes, is stopped or dies.

use std::time::Duration;

use crate::world::{Host, World, attach_request};
use queue_pair::control::{Farewell, Fds, Reply, Request, VERSION};
use queue_pair::{Completion, ConnRef, Submission, position};
use rustix::fd::OwnedFd;

/// A parent forks: the child's token, and its lifeline.
pub fn fork(world: &mut World, parent: &mut Host) -> (u64, OwnedFd) {
    let (reply, mut fds) = world.request(parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    (token, fds.pop().expect("a lifeline"))
}

/// A parent with an open connection, and the child that it has forked, attached.
pub fn family(world: &mut World) -> (Host, Host, ConnRef, tcp::ConnId) {
    let (mut parent, conn, peer) = world.connected();
    let (token, _lifeline) = fork(world, &mut parent);
    let child = world.attach(Some(token));
    (parent, child, conn, peer)
}

fn acquire(world: &mut World, host: &mut Host, conn: ConnRef) {
    host.submit(Submission::Acquire { conn });
    world.settle();
    host.collect();
}

/// The bytes up to which a host was told that they are acknowledged.
fn acknowledged(host: &mut Host, conn: ConnRef) -> Option<u64> {
    host.collect();
    host.completions.iter().rev().find_map(|it| match it {
        Completion::Update {
            conn: it, acked, ..
        }
        | Completion::Elsewhere {
            conn: it, acked, ..
        } if *it == conn => Some(*acked),
        _ => None,
    })
}

/// After how many of its forks a host was last told that a connection is its alone.
fn alone_since(host: &mut Host, conn: ConnRef) -> Option<u32> {
    host.collect();
    host.completions.iter().rev().find_map(|it| match it {
        Completion::Granted {
            conn: it,
            alone_since,
            ..
        } if *it == conn => *alone_since,
        _ => None,
    })
}

fn kill(world: &mut World, host: Host) {
    drop(host);
    world.attend();
}

#[test]
fn what_several_write_is_one_stream_in_the_order_of_time() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    let mut children = Vec::new();
    for _ in 0..3 {
        let (token, _lifeline) = fork(&mut world, &mut parent);
        children.push(world.attach(Some(token)));
    }
    // Posted in one turn, so that the engine finds all of it at once, in whatever order it looks.
    children[2].send_at(conn, b"one ", 10);
    parent.send_at(conn, b"two ", 20);
    children[0].send_at(conn, b"three ", 30);
    children[1].send_at(conn, b"four ", 40);
    parent.send_at(conn, b"five ", 50);
    children[2].send_at(conn, b"six", 60);
    world.pass(Duration::from_millis(100));
    let got = String::from_utf8_lossy(&world.peer.conns[&peer].bytes).into_owned();
    assert_eq!(got, "one two three four five six");
    // Each is told of its own bytes.
    assert_eq!(acknowledged(&mut parent, conn), Some(4 + 5));
    let told: Vec<_> = children
        .iter_mut()
        .map(|child| acknowledged(child, conn))
        .collect();
    assert_eq!(told, [Some(6), Some(5), Some(4 + 3)]);
}

#[test]
fn time_orders_two_connections_as_well() {
    let mut world = World::new();
    let (mut parent, first, first_peer) = world.connected();
    let port = parent.kernel[0].local_addr().expect("bound").port();
    let (second, second_peer) = world.connect(&mut parent, port);
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut child = world.attach(Some(token));
    child.send_at(second, b"b", 15);
    child.send_at(first, b"2", 30);
    parent.send_at(first, b"1", 10);
    parent.send_at(second, b"c", 20);
    parent.send_at(second, b"d", 40);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&first_peer].bytes, b"12");
    assert_eq!(world.peer.conns[&second_peer].bytes, b"bcd");
}

#[test]
fn a_shutdown_comes_after_what_others_wrote_before_it() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    child.send_at(conn, b"written before", 5);
    parent.submit(Submission::Shutdown { conn, at: 6 });
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"written before");
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn a_byte_that_one_has_read_no_other_reads() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    world.peer.send(world.now, peer, b"0123456789");
    world.settle();
    assert_eq!(parent.read(conn, 0, 4).as_deref(), Some(&b"0123"[..]));
    // The parent has told nobody how far it has come: its position does.
    acquire(&mut world, &mut child, conn);
    assert_eq!(child.grant(conn).map(|(_, at)| at), Some(4));
    assert_eq!(child.read(conn, 4, 3).as_deref(), Some(&b"456"[..]));
    // The parent sleeps, or is stopped: it needs to agree to nothing. Awake, it finds that it is not
    // the reader, and asks.
    assert_eq!(parent.read(conn, 4, 3), None);
    acquire(&mut world, &mut parent, conn);
    assert_eq!(parent.read(conn, 7, 9).as_deref(), Some(&b"789"[..]));
    assert_eq!(child.read(conn, 7, 9), None);
    world.peer.send(world.now, peer, b"abc");
    // Nagle's algorithm holds it until the digits are acknowledged.
    world.pass(Duration::from_millis(100));
    assert_eq!(parent.read(conn, 10, 9).as_deref(), Some(&b"abc"[..]));
}

#[test]
fn readers_that_alternate_get_every_byte_once() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let sent: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
    let (mut got, mut at, mut chunks) = (Vec::new(), 0u64, sent.chunks(7777));
    while (at as usize) < sent.len() {
        if let Some(chunk) = chunks.next() {
            world.peer.send(world.now, peer, chunk);
        }
        world.pass(Duration::from_millis(50));
        for (host, limit) in [(&mut parent, 3000), (&mut child, 5010)] {
            acquire(&mut world, host, conn);
            let read = host.read(conn, at, limit).expect("the reader");
            at += read.len() as u64;
            got.extend(read);
        }
    }
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
}

#[test]
fn whoever_waits_is_told_what_waits() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"before");
    world.settle();
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut child = world.attach(Some(token));
    // At once: a child that looks without waiting must see it.
    assert_eq!(child.elsewhere(conn), Some((6, false)));
    world.peer.send(world.now, peer, b" and after");
    world.pass(Duration::from_millis(100));
    assert_eq!(child.elsewhere(conn), Some((16, false)));
    parent.read(conn, 0, 16).expect("the reader");
    parent.submit(Submission::Consumed { conn, total: 16 });
    world.settle();
    assert_eq!(child.elsewhere(conn), Some((0, false)));
    world
        .peer
        .request(world.now, peer, tcp::Request::ShutdownWrite);
    world.settle();
    assert_eq!(child.elsewhere(conn), Some((0, true)));
}

#[test]
fn one_of_several_closing_ends_nothing() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    world.peer.send(world.now, peer, b"for the child");
    world.settle();
    assert_eq!(parent.read(conn, 0, 4).as_deref(), Some(&b"for "[..]));
    parent.send_at(conn, b"last words", 2);
    parent.close_at(conn, 1);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"last words");
    assert!(!world.peer.conns[&peer].update.peer_closed);
    parent.collect();
    assert!(parent.is_released(conn));
    // The child is alone with it now, and reads without asking.
    assert_eq!(child.read(conn, 4, 99).as_deref(), Some(&b"the child"[..]));
    assert_eq!(alone_since(&mut child, conn), Some(0));
    child.send(conn, b", answered", 13);
    child.close_at(conn, 1);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"last words, answered");
    assert!(world.peer.conns[&peer].update.peer_closed);
    assert_eq!(world.peer.conns[&peer].update.failed, None);
    child.collect();
    assert!(child.is_released(conn));
}

#[test]
fn the_last_to_close_resets_if_bytes_are_unread() {
    for read in [9, 5] {
        let mut world = World::new();
        let (mut parent, mut child, conn, peer) = family(&mut world);
        world.peer.send(world.now, peer, b"nine more");
        world.settle();
        parent.read(conn, 0, read).expect("the reader");
        parent.close_at(conn, 1);
        child.close_at(conn, 1);
        world.pass(Duration::from_millis(100));
        let reset = world.peer.conns[&peer].update.failed.is_some();
        assert_eq!(reset, read < 9, "{read} of 9 bytes were read");
    }
}

#[test]
fn a_reader_that_is_killed_takes_along_what_it_has_read_and_no_more() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    world.peer.send(world.now, peer, b"0123456789");
    world.settle();
    parent.read(conn, 0, 6).expect("the reader");
    parent.send_at(conn, b"its last bytes", 3);
    kill(&mut world, parent);
    world.pass(Duration::from_millis(100));
    assert!(!world.peer.conns[&peer].update.peer_closed);
    assert_eq!(child.read(conn, 6, 99).as_deref(), Some(&b"6789"[..]));
    child.send_at(conn, b", and its heir's", 4);
    kill(&mut world, child);
    world.pass(Duration::from_millis(100));
    assert_eq!(
        world.peer.conns[&peer].bytes,
        b"its last bytes, and its heir's"
    );
    assert!(world.peer.conns[&peer].update.peer_closed);
    assert_eq!(world.worker.sessions(), 0, "their memory is free");
}

#[test]
fn a_child_that_ends_untouched_leaves_its_parent_alone() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"abc");
    world.settle();
    parent.read(conn, 0, 1).expect("the reader");
    let (_, lifeline) = fork(&mut world, &mut parent);
    parent.read(conn, 1, 1).expect("still the reader");
    drop(lifeline);
    world.attend();
    assert_eq!(alone_since(&mut parent, conn), Some(1));
    assert_eq!(parent.read(conn, 2, 9).as_deref(), Some(&b"c"[..]));
    parent.submit(Submission::Consumed { conn, total: 3 });
    parent.close_at(conn, 1);
    world.settle();
    assert!(
        world.peer.conns[&peer].update.peer_closed,
        "nobody else has it"
    );
}

#[test]
fn a_child_says_what_it_closes_without_attaching() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    let (token, lifeline) = fork(&mut world, &mut parent);
    let said = Farewell::Connection(conn).encode();
    rustix::net::send(&lifeline, &said, rustix::net::SendFlags::empty()).expect("said");
    rustix::net::send(&lifeline, b"nonsense", rustix::net::SendFlags::empty()).expect("said");
    world.attend();
    parent.close_at(conn, 1);
    world.settle();
    assert!(
        world.peer.conns[&peer].update.peer_closed,
        "nobody else has it"
    );
    let mut child = world.attach(Some(token));
    assert_eq!(child.elsewhere(conn), None, "it has closed that");
}

#[test]
fn what_was_said_before_attaching_counts() {
    let mut world = World::new();
    let (mut parent, conn, _) = world.connected();
    let (token, lifeline) = fork(&mut world, &mut parent);
    let said = Farewell::Connection(conn).encode();
    rustix::net::send(&lifeline, &said, rustix::net::SendFlags::empty()).expect("said");
    let mut child = world.attach(Some(token));
    assert_eq!(child.elsewhere(conn), None);
    assert_eq!(alone_since(&mut parent, conn), Some(1));
}

#[test]
fn a_listener_ends_with_its_last_holder() {
    let mut world = World::new();
    let mut parent = world.attach(None);
    let (_, listener) = world.listen(&mut parent);
    let (token, lifeline) = fork(&mut world, &mut parent);
    kill(&mut world, parent);
    assert_eq!(world.worker.network().steered.len(), 1, "the child has it");
    let said = Farewell::Listener(listener).encode();
    rustix::net::send(&lifeline, &said, rustix::net::SendFlags::empty()).expect("said");
    world.attend();
    assert!(world.worker.network().steered.is_empty());
    drop(world.attach(Some(token)));
}

#[test]
fn children_of_children_share_too() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let (token, _lifeline) = fork(&mut world, &mut child);
    let mut grandchild = world.attach(Some(token));
    parent.close_at(conn, 1);
    child.close_at(conn, 1);
    world.peer.send(world.now, peer, b"hello");
    world.settle();
    assert_eq!(grandchild.read(conn, 0, 9).as_deref(), Some(&b"hello"[..]));
    grandchild.send_at(conn, b"hi", 9);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"hi");
}

#[test]
fn a_failure_reaches_all() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    world.peer.request(world.now, peer, tcp::Request::Abort);
    world.settle();
    let reset = Some(rustix::io::Errno::CONNRESET.raw_os_error() as u16);
    for host in [&mut parent, &mut child] {
        host.collect();
        assert_eq!(host.failure(conn), reset);
        host.close_at(conn, 1);
    }
    world.settle();
    assert_eq!(world.worker.stack().connection_count(), 0);
}

/// What a host was told of whose the error of a connection is to report.
fn told_of_error(host: &mut Host, conn: ConnRef) -> Vec<bool> {
    host.collect();
    let told = host.completions.iter().filter_map(|it| match it {
        Completion::ErrorTaken { conn: it, yours } if *it == conn => Some(*yours),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_failure_is_reported_by_the_first_who_asks() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let (token, _lifeline) = fork(&mut world, &mut parent);
    world.peer.request(world.now, peer, tcp::Request::Abort);
    world.settle();
    assert!(
        told_of_error(&mut child, conn).is_empty(),
        "nobody has asked"
    );
    child.submit(Submission::TakeError { conn });
    world.settle();
    assert_eq!(told_of_error(&mut child, conn), [true]);
    // The others are told without asking, and so is one that comes later.
    assert_eq!(told_of_error(&mut parent, conn), [false]);
    let mut late = world.attach(Some(token));
    world.settle();
    assert_eq!(told_of_error(&mut late, conn), [false]);
    for host in [&mut parent, &mut child] {
        host.submit(Submission::TakeError { conn });
    }
    world.settle();
    assert_eq!(told_of_error(&mut parent, conn), [false, false]);
    assert_eq!(told_of_error(&mut child, conn), [true, false], "once");
}

/// What a host was told of O_NONBLOCK.
fn told_of_mode(host: &mut Host, conn: ConnRef) -> Vec<bool> {
    host.collect();
    let told = host.completions.iter().filter_map(|it| match it {
        Completion::NonBlocking { conn: it, on } if *it == conn => Some(*on),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_flag_that_one_has_set_is_told_to_all() {
    let mut world = World::new();
    let (mut parent, mut child, conn, _) = family(&mut world);
    let (token, _lifeline) = fork(&mut world, &mut parent);
    child.submit(Submission::NonBlocking { conn, on: true });
    world.settle();
    assert_eq!(told_of_mode(&mut parent, conn), [true]);
    assert!(told_of_mode(&mut child, conn).is_empty(), "it knows");
    let mut late = world.attach(Some(token));
    world.settle();
    assert_eq!(told_of_mode(&mut late, conn), [true]);
    // Alone again, nobody says so any more: what it is then children know from their parent.
    for host in [&mut child, &mut late] {
        host.close_at(conn, 1);
    }
    world.settle();
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut later = world.attach(Some(token));
    world.settle();
    assert!(told_of_mode(&mut later, conn).is_empty());
}

#[test]
fn a_failure_of_which_its_reporter_has_died_is_reported() {
    let mut world = World::new();
    let (mut parent, child, conn, peer) = family(&mut world);
    world.peer.request(world.now, peer, tcp::Request::Abort);
    world.settle();
    kill(&mut world, child);
    world.settle();
    parent.submit(Submission::TakeError { conn });
    world.settle();
    assert_eq!(told_of_error(&mut parent, conn), [true]);
}

/// A parent that has begun to open a connection, and the child that it has forked since.
fn opening_family(world: &mut World) -> (Host, Host) {
    let mut parent = world.attach(None);
    let block = queue_pair::ConnectBlock {
        local: std::net::SocketAddr::new(crate::world::ENGINE, 20_002),
        ..queue_pair::ConnectBlock::new(std::net::SocketAddr::new(crate::world::PEER, 7000))
    };
    let place = 1 << 20;
    parent
        .region
        .send
        .copy_in(place, &block.encode())
        .expect("inside");
    parent.submit(Submission::Connect {
        token: 3,
        addr: place,
    });
    // Taken with the request, before the peer can have answered.
    let (token, _lifeline) = fork(world, &mut parent);
    let child = world.attach(Some(token));
    (parent, child)
}

/// The connection that the child was told is open, and its grant.
fn opened(child: &mut Host) -> Option<(ConnRef, u16)> {
    child.collect();
    child.completions.iter().find_map(|it| match it {
        Completion::Opened {
            token: 3,
            conn,
            grant,
            ..
        } => Some((*conn, *grant)),
        _ => None,
    })
}

/// Its child may want it, and could not be told.
#[test]
fn a_connection_that_is_being_opened_and_shared_is_not_cancelled() {
    let mut world = World::new();
    world.peer.listen(7000);
    let (mut parent, mut child) = opening_family(&mut world);
    parent.submit(Submission::Cancel { token: 3 });
    world.pass(Duration::from_secs(3));
    assert!(opened(&mut child).is_some());
}

#[test]
fn a_connection_that_is_being_opened_is_shared_as_well() {
    let mut world = World::new();
    let listener = world.peer.listen(7000);
    let (mut parent, mut child) = opening_family(&mut world);
    world.settle();
    let opened = opened(&mut child);
    let (conn, grant) = opened.expect("the child is told");
    assert_eq!(grant, Completion::NO_GRANT, "its parent reads");
    let accepted = world.peer.stack.accept(listener).expect("at the peer");
    child.send_at(conn, b"from the child", 1);
    world.peer.send(world.now, accepted, b"to anybody");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&accepted].bytes, b"from the child");
    parent.collect();
    assert_eq!(
        parent.read(conn, 0, 99).as_deref(),
        Some(&b"to anybody"[..])
    );
}

#[test]
fn a_process_that_claims_to_have_read_what_it_was_not_given_ends_alone() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    world.peer.send(world.now, peer, b"0123456789");
    world.settle();
    parent.collect();
    let (grant, _) = parent.grant(conn).expect("the reader");
    let word = parent.region.positions.word(conn.index).expect("a place");
    position::grant(word, grant, 11);
    acquire(&mut world, &mut child, conn);
    assert_eq!(world.worker.counters().violations, 1);
    assert_eq!(child.read(conn, 0, 99).as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(world.peer.conns[&peer].update.failed, None);
}

#[test]
fn who_is_no_holder_gets_nothing() {
    let mut world = World::new();
    let (_parent, _child, conn, _) = family(&mut world);
    let mut stranger = world.attach(None);
    acquire(&mut world, &mut stranger, conn);
    assert_eq!(world.worker.counters().violations, 1);
    assert!(stranger.completions.is_empty());
}

#[test]
fn one_user_cannot_take_all_forks() {
    let mut world = World::new();
    let mut parent = world.attach(None);
    let mut lifelines = Vec::new();
    // Root, as which tests run, may take all: there is an end to that, too.
    loop {
        let (reply, mut fds) = world.request(&mut parent, &Request::Fork, Fds::new());
        match reply {
            Reply::Forked { .. } => lifelines.push(fds.pop().expect("a lifeline")),
            Reply::Error { .. } => break,
            other => panic!("{other:?}"),
        }
        assert!(lifelines.len() <= 4096, "no limit");
    }
    drop(lifelines.pop());
    world.attend();
    fork(&mut world, &mut parent);
}

#[test]
fn a_close_without_a_time_that_ends_the_sharing_is_taken_on_the_way() {
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    // The parent's ring is looked at first, and the child's before it, since it may be older.
    parent.send_at(conn, b"alone", u64::MAX);
    child.close(conn);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"alone");
    child.collect();
    assert!(child.is_released(conn));
}

#[test]
fn one_who_reads_nothing_does_not_have_more_taken_from_it() {
    let mut config = engine::config::Config::default();
    config.limits.ring_entries = 64;
    let mut world = World::with(config, netdev::sim::LinkConfig::default());
    let (mut parent, mut child, conn, peer) = family(&mut world);
    for round in 0..40 {
        // Each is answered, and it reads no answer.
        while child.region.submissions.room().expect("honest") > 0 {
            child.submit(Submission::Acquire { conn });
        }
        parent.send_at(conn, b"x", 1000 + round);
        world.settle();
        parent.collect();
    }
    let left = child.region.submissions.room().expect("honest");
    assert_eq!(left, 0, "it was asked on and on");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes.len(), 40, "the other goes on");
    assert_eq!(world.worker.counters().violations, 0);
}

#[test]
fn what_a_reader_says_late_is_no_breach() {
    let mut world = World::new();
    let (mut parent, conn, peer) = world.connected();
    world.peer.send(world.now, peer, &[7; 200]);
    world.settle();
    let (_, lifeline) = fork(&mut world, &mut parent);
    parent.read(conn, 0, 100).expect("the reader");
    parent.submit(Submission::Consumed { conn, total: 100 });
    parent.read(conn, 100, 50).expect("the reader");
    // The child's end comes before what the parent has said: its position has told more by then.
    drop(lifeline);
    world.attend();
    assert_eq!(world.worker.counters().violations, 0);
    assert_eq!(
        parent.read(conn, 150, 99).map(|bytes| bytes.len()),
        Some(50)
    );
    parent.submit(Submission::Consumed { conn, total: 200 });
    world.settle();
    // But it does not take back what it has said.
    parent.submit(Submission::Consumed { conn, total: 199 });
    world.settle();
    assert_eq!(world.worker.counters().violations, 1);
}

#[test]
fn a_child_that_is_refused_holds_nothing() {
    let mut config = engine::config::Config::default();
    config.limits.sessions = 1;
    let mut world = World::with(config, netdev::sim::LinkConfig::default());
    let (mut parent, conn, peer) = world.connected();
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut channel = world.dial();
    let request = attach_request(VERSION, Some(token));
    let (reply, _) = world.ask(&mut channel, &request, Fds::new());
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    parent.close_at(conn, 1);
    world.pass(Duration::from_millis(100));
    assert!(world.peer.conns[&peer].update.peer_closed);
}

#[test]
fn who_has_asked_to_read_is_given_it_though_it_is_his_alone_by_then() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    world.peer.send(world.now, peer, b"data");
    world.settle();
    // It was asked when somebody else had the connection, too.
    host.submit(Submission::Acquire { conn });
    world.settle();
    assert_eq!(host.read(conn, 0, 9).as_deref(), Some(&b"data"[..]));
}
