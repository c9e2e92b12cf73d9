//! Processes that do not read what they are told, and share a connection: what they have written comes in its place
//! all the same, and nobody can have them be told without end.

use std::time::Duration;

use crate::forks::family;
use crate::many::busy_with;
use crate::world::{ENGINE, Host, PEER, World};
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};

/// Entries of each ring.
const RING: u32 = 64;

/// A world in which the ring of what is told fills soon.
fn small() -> World {
    with_rings_of(RING)
}

fn with_rings_of(entries: u32) -> World {
    let mut config = Config::default();
    config.limits.ring_entries = entries;
    World::with(config, LinkConfig::default())
}

/// A host asks for what is answered, and reads no answer, until nothing more is taken of it.
fn stop_reading(world: &mut World, host: &mut Host, conn: ConnRef) {
    for _ in 0..1_000 {
        host.submit(Submission::Acquire { conn });
        world.settle();
        let room = host.region.submissions.room().expect("honest");
        if room < host.region.submissions.capacity() {
            return;
        }
    }
    panic!("it is asked on and on");
}

#[test]
fn what_one_wrote_who_reads_nothing_comes_before_what_another_wrote_then() {
    let mut world = small();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    stop_reading(&mut world, &mut child, conn);
    child.send_at(conn, b"first, ", 10);
    parent.send_at(conn, b"then", 20);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"first, then");
    // Stopped for good, it holds nobody up.
    parent.send_at(conn, b", and on", 30);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"first, then, and on");
}

#[test]
fn nor_do_the_last_words_of_another_come_before_it() {
    let mut world = small();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    stop_reading(&mut world, &mut child, conn);
    child.send_at(conn, b"first, ", 10);
    parent.send_at(conn, b"last words", 20);
    drop(parent);
    world.attend();
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"first, last words");
}

#[test]
fn nor_does_what_a_child_writes_come_before_what_its_parent_wrote_before_the_fork() {
    let mut world = small();
    let (mut parent, conn, peer) = world.connected();
    stop_reading(&mut world, &mut parent, conn);
    parent.send(conn, b"parent, ", 0);
    let (reply, _lifeline) = world.request(&mut parent, &Request::Fork, Fds::new());
    let Reply::Forked { token } = reply else {
        panic!("{reply:?}");
    };
    let mut child = world.attach(Some(token));
    child.send_at(conn, b"child", 20);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"parent, child");
}

#[test]
fn who_goes_on_reading_a_little_is_never_passed_over() {
    let mut world = small();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let mut written = Vec::new();
    for round in 0..20u8 {
        stop_reading(&mut world, &mut child, conn);
        // All that it can have submitted since it read.
        while child.region.submissions.room().expect("honest") > 1 {
            child.submit(Submission::Acquire { conn });
        }
        let at = u64::from(round) * 2 + 1;
        child.send_at(conn, &[round], at);
        parent.send_at(conn, &[100 + round], at + 1);
        written.extend([round, 100 + round]);
        world.settle();
        parent.collect();
        child.collect();
        world.settle();
    }
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, written);
}

/// A host reads everything.
fn read_all(world: &mut World, host: &mut Host) {
    let mut before = usize::MAX;
    while host.completions.len() != before {
        before = host.completions.len();
        world.settle();
        host.collect();
    }
}

/// How many requests are taken of a child that reads nothing, because its parent writes after each.
fn taken_before_others(
    world: &mut World,
    (parent, child): (&mut Host, &mut Host),
    conn: ConnRef,
) -> u32 {
    let mut taken = 0;
    for at in 1..100 {
        let ask = Submission::Acquire { conn };
        while child.region.submissions.post(&ask).expect("honest") {}
        child.region.submissions.publish();
        parent.send_at(conn, b"x", at);
        world.settle();
        parent.collect();
        match child.region.submissions.room().expect("honest") {
            0 => return taken,
            room => taken += room,
        }
    }
    panic!("it is asked on and on");
}

#[test]
fn what_is_kept_for_the_processes_of_a_user_that_read_nothing_is_bounded() {
    // As many as may have two rings full each.
    const FULL: usize = 4;
    let mut world = small();
    let mut taken = Vec::new();
    let mut families = Vec::new();
    for _ in 0..FULL + 2 {
        let (mut parent, mut child, conn, _) = family(&mut world);
        stop_reading(&mut world, &mut child, conn);
        taken.push(taken_before_others(
            &mut world,
            (&mut parent, &mut child),
            conn,
        ));
        families.push((parent, child, conn));
    }
    let (first, last) = taken.split_at(FULL);
    assert!(first.iter().all(|taken| *taken > RING), "{taken:?}");
    assert!(taken.iter().sum::<u32>() <= 2 * 4 * RING + 8, "{taken:?}");
    assert_eq!(last, [0, 0]);
    let passed_over = world.worker.counters().dropped(Drop::NotRead);
    assert_eq!(passed_over, families.len() as u64, "once each");
    // One reads, and there is room for another.
    let (_, reads, _) = &mut families[0];
    read_all(&mut world, reads);
    let (parent, child, conn) = families.last_mut().expect("the last");
    let taken = taken_before_others(&mut world, (parent, child), *conn);
    assert_eq!(taken, RING, "the one before it has the other half");
}

#[test]
fn who_shares_nothing_any_more_has_room_again() {
    let mut world = small();
    let (mut parent, mut child, conn, _) = family(&mut world);
    // Or it would be taken in its own turn.
    stop_reading(&mut world, &mut child, conn);
    while child.region.submissions.room().expect("honest") > 1 {
        child.submit(Submission::Acquire { conn });
    }
    child.close_at(conn, 1);
    assert_eq!(child.region.submissions.room().expect("honest"), 0);
    parent.send_at(conn, b"x", 2);
    world.settle();
    let room = child.region.submissions.room().expect("honest");
    assert_eq!(room, RING);
}

/// Asks for connections to where nobody listens until the ring is full. What comes of each is heard a round trip later.
fn open_in_vain(host: &mut Host) {
    for token in 0..RING as u16 {
        let block = ConnectBlock {
            local: (ENGINE, 20_000 + token).into(),
            ..ConnectBlock::new((PEER, 7000).into())
        };
        let addr = u64::from(token) * 256;
        let place = host.region.send.copy_in(addr, &block.encode());
        place.expect("inside");
        let token = token.into();
        let connect = Submission::Connect { token, addr };
        host.region.submissions.post(&connect).expect("honest");
    }
    host.region.submissions.publish();
}

/// Rounds of that, each with an occasion to take what was submitted before it: how many were taken.
fn opened_in_vain(
    world: &mut World,
    host: &mut Host,
    mut occasion: impl FnMut(&mut World, &mut Host, u64),
) -> u32 {
    let mut taken = 0;
    for round in 1..=40 {
        open_in_vain(host);
        occasion(world, host, round);
        world.pass(Duration::from_millis(5));
        taken += host.region.submissions.room().expect("honest");
    }
    taken
}

/// A little more than two rings full, beside what is kept for anybody, and what was under way.
fn is_bounded(world: &World, taken: u32) {
    assert!(taken > RING && taken <= 4 * RING, "{taken}");
    let room = world.worker.room_for_notices();
    assert!(room <= 1024, "{room}");
    assert_eq!(world.worker.counters().dropped(Drop::NotRead), 1);
}

#[test]
fn so_is_what_is_answered_late_where_another_waits_for_it() {
    let mut world = small();
    let (mut parent, mut child, conn, _) = family(&mut world);
    stop_reading(&mut world, &mut child, conn);
    let taken = opened_in_vain(&mut world, &mut child, |world, _, at| {
        parent.send_at(conn, b"x", at);
        world.settle();
        parent.collect();
    });
    is_bounded(&world, taken);
}

#[test]
fn so_is_what_is_answered_late_where_a_request_waits_for_it() {
    let mut world = small();
    let (mut host, conn, _) = world.connected();
    stop_reading(&mut world, &mut host, conn);
    let taken = opened_in_vain(&mut world, &mut host, |world, host, _| {
        let (reply, _lifeline) = world.request(host, &Request::Fork, Fds::new());
        assert!(matches!(reply, Reply::Forked { .. }), "{reply:?}");
    });
    is_bounded(&world, taken);
}

#[test]
fn the_memory_of_what_was_read_late_is_given_back() {
    const ENTRIES: u32 = 512;
    let mut world = with_rings_of(ENTRIES);
    let (mut parent, mut child, conn, _) = family(&mut world);
    stop_reading(&mut world, &mut child, conn);
    taken_before_others(&mut world, (&mut parent, &mut child), conn);
    let before = world.worker.room_for_notices();
    assert!(before > 2 * ENTRIES as usize, "{before}");
    read_all(&mut world, &mut child);
    let after = world.worker.room_for_notices();
    assert!(after <= ENTRIES as usize, "{after}");
}

#[test]
fn a_child_that_has_very_many_flags_to_hear_of_is_heard() {
    // More than one waits for before it is not.
    const MANY: u32 = 400;
    let mut world = small();
    let (mut parent, all) = busy_with(&mut world, MANY);
    let fork = |world: &mut World, parent: &mut Host| {
        let (reply, _lifeline) = world.request(parent, &Request::Fork, Fds::new());
        let Reply::Forked { token } = reply else {
            panic!("{reply:?}");
        };
        world.attach(Some(token))
    };
    let _first = fork(&mut world, &mut parent);
    for (conn, _) in &all {
        let (conn, on) = (*conn, true);
        parent.submit(Submission::NonBlocking { conn, on });
        world.settle();
        parent.collect();
    }
    let mut second = fork(&mut world, &mut parent);
    let (conn, peer) = all[0];
    second.send_at(conn, b"heard", 10);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"heard");
    let told = told_of_mode(&mut world, &mut second);
    assert_eq!(told, vec![true; MANY as usize]);
}

/// What a host was told of O_NONBLOCK, once it has read everything.
fn told_of_mode(world: &mut World, host: &mut Host) -> Vec<bool> {
    read_all(world, host);
    let told = host.completions.iter().filter_map(|it| match it {
        Completion::NonBlocking { on, .. } => Some(*on),
        _ => None,
    });
    told.collect()
}

#[test]
fn who_is_told_again_and_again_of_a_flag_has_the_last_to_read_and_no_more() {
    const TIMES: u32 = 1_000;
    let mut world = small();
    let (mut parent, mut child, conn, _) = family(&mut world);
    for time in 0..=TIMES {
        let on = time % 2 == 1;
        parent.submit(Submission::NonBlocking { conn, on });
        world.settle();
    }
    parent.submit(Submission::NonBlocking { conn, on: true });
    let told = told_of_mode(&mut world, &mut child);
    assert!(told.len() <= RING as usize + 1, "{}", told.len());
    assert_eq!(told.last(), Some(&true));
}

#[test]
fn what_a_flag_is_by_now_is_told_to_who_has_it_alone_since() {
    let mut world = small();
    let (mut parent, mut child, conn, _) = family(&mut world);
    stop_reading(&mut world, &mut child, conn);
    parent.submit(Submission::NonBlocking { conn, on: true });
    world.settle();
    parent.close_at(conn, 1);
    world.settle();
    assert_eq!(told_of_mode(&mut world, &mut child), [true]);
}

#[test]
fn an_end_is_told_once() {
    let mut world = small();
    let (mut parent, mut child, conn, _) = family(&mut world);
    for at in 1..=20 {
        parent.submit(Submission::Shutdown { conn, at });
        parent.submit(Submission::ShutdownRead { conn });
    }
    world.settle();
    child.collect();
    let ends = child
        .completions
        .iter()
        .filter(|it| matches!(it, Completion::Shut { .. } | Completion::ReadShut { .. }));
    assert_eq!(ends.count(), 2);
}
