//! What happens while a process with many connections forks, and while its child attaches: between two goes.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::many::{AT_ONCE, busy_with, slow};
use crate::world::{ENGINE, Host, PEER, World, attach_request};
use queue_pair::control::{Channel, Fds, Reply, Request, VERSION};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::fd::OwnedFd;
use tcp::ConnId;

/// One go when it begins, and two in each of some turns.
const MANY: u32 = 4 * AT_ONCE + 10;

/// A process asks for a fork, and the engine has begun with that.
fn begin(world: &mut World, parent: &mut Host) {
    parent
        .channel
        .send(&Request::Fork, Fds::new())
        .expect("sent");
    world.desk.attend();
    world.worker.attend_once(world.now);
    world.desk.attend();
    assert!(!is_answered(parent), "it goes on");
}

fn is_answered(host: &mut Host) -> bool {
    let answer = host.channel.try_receive::<Reply>();
    answer.expect("open").is_some()
}

/// The engine has shared all: the child's token, and its lifeline.
fn end(world: &mut World, parent: &mut Host) -> (u64, OwnedFd) {
    for _ in 0..MANY {
        world.worker.turn(world.now);
        world.desk.attend();
        if let Some((reply, mut fds)) = parent.channel.try_receive::<Reply>().expect("open") {
            let Reply::Forked { token } = reply else {
                panic!("{reply:?}");
            };
            return (token, fds.pop().expect("a lifeline"));
        }
    }
    panic!("it hangs");
}

fn fork(world: &mut World, parent: &mut Host) -> (u64, OwnedFd) {
    begin(world, parent);
    end(world, parent)
}

/// What was just asked for comes to both halves.
fn attend_some(world: &mut World) {
    for _ in 0..3 {
        world.desk.attend();
        world.worker.attend_once(world.now);
    }
    world.desk.attend();
}

/// A child asks to attach, and the engine has begun with that.
fn begin_to_attach(world: &mut World, token: u64) -> Channel {
    let mut channel = world.dial();
    let attach = attach_request(VERSION, Some(token));
    channel.send(&attach, Fds::new()).expect("sent");
    let before = world.worker.sessions();
    attend_some(world);
    assert_eq!(world.worker.sessions(), before + 1, "it has begun");
    let answer = channel.try_receive::<Reply>().expect("open");
    assert!(answer.is_none(), "it goes on");
    channel
}

/// After how many of its forks a host was told that a connection is its alone, each time.
fn alone_since(host: &mut Host, conn: ConnRef) -> Vec<u32> {
    host.collect();
    let told = host.completions.iter().filter_map(|it| match it {
        Completion::Granted {
            conn: it,
            alone_since,
            ..
        } if *it == conn => *alone_since,
        _ => None,
    });
    told.collect()
}

#[test]
fn who_has_a_connection_alone_meanwhile_has_it_since_before_the_fork() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, all) = busy_with(&mut world, MANY);
    let (conn, peer) = *all.last().expect("many");
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut first = world.attach(Some(token));
    begin(&mut world, &mut parent);
    first.close_at(conn, 1);
    let (token, _lifeline) = end(&mut world, &mut parent);
    world.settle();
    // Its second fork is over, and nobody has told it that it shares this with nobody since.
    assert!(!alone_since(&mut parent, conn).contains(&2));
    let mut second = world.attach(Some(token));
    second.send_at(conn, b"first, ", 10);
    parent.send_at(conn, b"then", 20);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"first, then");
    second.close_at(conn, 1);
    world.pass(Duration::from_millis(100));
    assert_eq!(alone_since(&mut parent, conn).last(), Some(&2));
}

#[test]
fn what_is_closed_meanwhile_is_closed() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, all) = busy_with(&mut world, MANY);
    let [(reached, peers_reached), .., (conn, peer)] = all[..] else {
        panic!("many");
    };
    begin(&mut world, &mut parent);
    parent.close_at(conn, 1);
    parent.close_at(reached, 1);
    let (token, _lifeline) = end(&mut world, &mut parent);
    world.settle();
    let closed = |world: &World, peer| world.peer.conns[&peer].update.peer_closed;
    assert!(closed(&world, peer));
    assert!(!closed(&world, peers_reached), "its child has it");
    let mut child = world.attach(Some(token));
    child.close_at(reached, 1);
    world.settle();
    assert!(closed(&world, peers_reached));
}

/// Begins to open so many connections to where nobody listens, with these tokens, and no answer is there yet.
fn open(world: &mut World, host: &mut Host, tokens: core::ops::Range<u16>) {
    for token in tokens.clone() {
        let block = ConnectBlock {
            local: (ENGINE, 20_000 + token).into(),
            ..ConnectBlock::new((PEER, 7000).into())
        };
        let addr = u64::from(token) * 256;
        let place = host.region.send.copy_in(addr, &block.encode());
        place.expect("inside");
        host.submit(Submission::Connect {
            token: token.into(),
            addr,
        });
    }
    for _ in tokens {
        world.worker.turn(world.now);
    }
}

/// The tokens of what a host was told could not be opened.
fn failed(host: &mut Host) -> BTreeSet<u64> {
    host.collect();
    let failed = host.completions.iter().filter_map(|it| match it {
        Completion::OpenFailed { token, .. } => Some(*token),
        _ => None,
    });
    failed.collect()
}

#[test]
fn what_cannot_be_opened_meanwhile_both_are_told() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    // More than is taken in two turns; with the others it is more than a process is remembered to have been told.
    let cancelled = 400..464;
    let mut world = slow(&TIME);
    let mut parent = world.attach(None);
    open(&mut world, &mut parent, 0..MANY as u16);
    assert!(failed(&mut parent).is_empty());
    begin(&mut world, &mut parent);
    // Some that the fork has not come to yet, and then as many that it has.
    for token in cancelled.clone() {
        parent.submit(Submission::Cancel { token });
    }
    world.worker.turn(world.now);
    assert!(!is_answered(&mut parent), "it goes on");
    world.peer.turn(world.now);
    let (token, _lifeline) = end(&mut world, &mut parent);
    let meanwhile = failed(&mut parent);
    assert!(meanwhile.range(cancelled).count() >= 16 && meanwhile.contains(&0));
    assert!(meanwhile.len() > 64, "{}", meanwhile.len());
    let mut child = world.attach(Some(token));
    world.pass(Duration::from_millis(100));
    assert_eq!(failed(&mut child), failed(&mut parent));
}

#[test]
fn what_cannot_be_opened_while_a_child_attaches_it_is_told() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let mut parent = world.attach(None);
    open(&mut world, &mut parent, 0..MANY as u16);
    let (token, _lifeline) = fork(&mut world, &mut parent);
    let mut channel = begin_to_attach(&mut world, token);
    assert!(failed(&mut parent).is_empty());
    world.peer.turn(world.now);
    let mut turns = 0;
    let (reply, fds) = loop {
        world.worker.turn(world.now);
        world.desk.attend();
        if let Some(answer) = channel.try_receive::<Reply>().expect("open") {
            break answer;
        }
        turns += 1;
        assert!(turns < MANY, "it hangs");
    };
    assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
    let mut child = world.host(channel, fds);
    // Some before it had them, some when it did.
    assert!((1..MANY as usize).contains(&failed(&mut parent).len()));
    world.pass(Duration::from_millis(100));
    let told = failed(&mut parent);
    assert_eq!(told.len(), MANY as usize);
    assert_eq!(failed(&mut child), told);
}

/// Of how many the peers have heard that they are closed.
fn closed(world: &World, all: &[(ConnRef, ConnId)]) -> usize {
    let closed = |(_, peer): &&(_, ConnId)| world.peer.conns[peer].update.peer_closed;
    all.iter().filter(closed).count()
}

#[test]
fn what_is_closed_while_a_child_is_forgotten_is_closed() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, all) = busy_with(&mut world, MANY);
    let (_, lifeline) = fork(&mut world, &mut parent);
    drop(lifeline);
    attend_some(&mut world);
    for (conn, _) in &all {
        parent.close_at(*conn, 1);
    }
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    assert!(closed(&world, &all) < all.len(), "the child has some yet");
    world.pass(Duration::from_millis(100));
    assert_eq!(closed(&world, &all), all.len());
}

#[test]
fn a_parent_that_ends_while_it_forks_leaves_nothing_behind() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, all) = busy_with(&mut world, MANY);
    begin(&mut world, &mut parent);
    world.worker.turn(world.now);
    world.desk.attend();
    assert!(!is_answered(&mut parent), "it goes on");
    drop(parent);
    world.attend();
    world.pass(Duration::from_millis(100));
    assert_eq!(closed(&world, &all), all.len());
    assert_eq!(world.worker.sessions(), 0);
}

#[test]
fn a_child_that_ends_while_it_attaches_leaves_all_to_its_parent() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, all) = busy_with(&mut world, MANY);
    let (token, lifeline) = fork(&mut world, &mut parent);
    let channel = begin_to_attach(&mut world, token);
    drop((channel, lifeline));
    // It has them, and then it ends.
    world.attend();
    world.attend();
    assert_eq!(world.worker.sessions(), 1);
    for (conn, _) in &all {
        parent.close_at(*conn, 1);
    }
    world.pass(Duration::from_millis(100));
    assert_eq!(closed(&world, &all), all.len(), "nobody else has them");
}

/// Of connections with much that is unread each may take as long as a hundred without.
#[test]
fn no_more_is_begun_than_there_is_time_for() {
    // Of each turn, and of what is between two looks at the clock, where there is time for two.
    const IN_A_TURN: u32 = 2 * 16;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, _) = busy_with(&mut world, MANY);
    begin(&mut world, &mut parent);
    let mut turns = 1;
    while !is_answered(&mut parent) {
        world.worker.turn(world.now);
        world.desk.attend();
        turns += 1;
        assert!(turns < MANY, "it hangs");
    }
    assert!(turns >= MANY.div_ceil(IN_A_TURN), "{turns}");
}

#[test]
fn as_long_as_there_is_time_it_goes_on() {
    let mut world = World::new();
    let (mut parent, _) = busy_with(&mut world, MANY);
    begin(&mut world, &mut parent);
    world.worker.turn(world.now);
    world.desk.attend();
    assert!(is_answered(&mut parent));
}
