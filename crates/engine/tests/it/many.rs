//! Many connections: nothing that concerns all of them is done at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::world::{Host, World, attach_request};
use engine::clock::Clock;
use queue_pair::control::{Fds, Reply, Request, VERSION};
use queue_pair::{Completion, ConnRef, Submission};

const MANY: u32 = 1_000;
/// Connections that are ended in one go, of which a turn has two when it finds that a session ends.
pub const AT_ONCE: u32 = 128;
/// How long a look at the clock takes where a turn has time for two such goes.
pub const LOOK: u64 = 30_000;

/// A world in which a look at the clock takes as long as that.
pub fn slow(time: &'static AtomicU64) -> World {
    World::of_clock(Clock::told_in_steps(time, LOOK))
}

#[test]
fn the_end_of_a_process_with_many_connections_takes_many_turns() {
    let mut world = World::new();
    let (mut other, its, peers) = world.connected();
    let (mut host, _) = busy_with(&mut world, MANY);
    assert_eq!(world.worker.stack().connection_count(), MANY + 1);
    // It names what is not its own: all that it has is reset.
    host.close(ConnRef {
        index: 1 << 20,
        generation: 9,
    });
    world.peer.send(world.now, peers, b"meanwhile");
    world.peer.turn(world.now);
    let (mut turns, mut heard_after) = (0, None);
    loop {
        let before = world.worker.stack().connection_count();
        world.worker.turn(world.now);
        world.peer.turn(world.now);
        let after = world.worker.stack().connection_count();
        assert!(
            before - after <= 2 * AT_ONCE,
            "{} connections ended in one turn",
            before - after
        );
        turns += 1;
        other.collect();
        if other.received(its) == b"meanwhile" {
            heard_after.get_or_insert(turns);
        }
        if after == 1 {
            break;
        }
        assert!(turns < 100, "{after} connections are left");
    }
    assert!(turns > MANY / AT_ONCE / 2);
    assert!(
        heard_after.is_some_and(|turn| turn < 3),
        "others are served meanwhile: {heard_after:?}"
    );
    world.attend();
    assert_eq!(world.worker.sessions(), 1);
}

#[test]
fn giving_back_again_and_again_is_not_remembered() {
    const TIMES: usize = 100_000;
    // What is posted in one go, of a ring that has room for more.
    const AT_ONCE: usize = 100;
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 1 << 20,
        waits: false,
    });
    let (_kept, _) = world.offer(&mut host, port);
    let (conn, _) = world.offer(&mut host, port);
    for _ in 0..TIMES / AT_ONCE {
        for _ in 0..AT_ONCE {
            host.submit(Submission::GiveBack { conn });
        }
        world.settle();
        host.collect();
        host.completions.clear();
    }
    assert_eq!(world.worker.counters().given_back, TIMES as u64);
    let remembered = world.worker.offers_remembered();
    assert!(remembered <= 8, "{remembered} offers of two connections");
}

#[test]
fn who_is_willing_all_at_once_is_offered_some_in_each_turn() {
    // Of a queue of 128.
    const WAITING: usize = 120;
    const IN_A_TURN: usize = 64;
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    for _ in 0..WAITING {
        world.peer.connect(world.now, port);
    }
    world.settle();
    host.submit(Submission::Credit {
        listener,
        total: WAITING as u32,
        waits: false,
    });
    let (mut offered, mut turns) = (0, 0);
    while offered < WAITING {
        assert!(world.worker.turn(world.now), "it goes on");
        turns += 1;
        host.collect_and_accept();
        let now = host.accepted().len();
        assert!(
            (1..=IN_A_TURN).contains(&(now - offered)),
            "{offered}, {now}"
        );
        offered = now;
    }
    assert_eq!(turns, 2);
}

#[test]
fn listeners_that_have_much_to_offer_share_the_time_of_a_turn() {
    // Of a queue of 128.
    const WAITING: usize = 120;
    const LISTENERS: usize = 5;
    // What each offers then, and how many there is time for.
    const REST: usize = WAITING - 64;
    const IN_TIME: usize = 2;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let mut host = world.attach(None);
    let listeners: Vec<(u16, u32)> = (0..LISTENERS).map(|_| world.listen(&mut host)).collect();
    for &(port, _) in &listeners {
        for _ in 0..WAITING {
            world.peer.connect(world.now, port);
        }
        world.settle();
    }
    for &(_, listener) in &listeners {
        host.submit(Submission::Credit {
            listener,
            total: WAITING as u32,
            waits: false,
        });
    }
    world.worker.turn(world.now);
    host.collect_and_accept();
    let mut offered = host.accepted().len();
    assert_eq!(offered, 64 * LISTENERS);
    let mut turns = 0;
    while offered < WAITING * LISTENERS {
        assert!(world.worker.turn(world.now), "it goes on");
        turns += 1;
        host.collect_and_accept();
        let now = host.accepted().len();
        assert!(
            (1..=IN_TIME * REST).contains(&(now - offered)),
            "{offered}, {now}"
        );
        offered = now;
    }
    assert!(turns >= LISTENERS.div_ceil(IN_TIME), "{turns}");
}

#[test]
fn a_turn_that_finds_nothing_looks_at_no_clock() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    const SHORT: u64 = 10;
    let mut world = World::of_clock(Clock::told_in_steps(&TIME, SHORT));
    let (_host, _, _) = world.connected();
    world.settle();
    let before = TIME.load(Ordering::Relaxed);
    assert!(!world.worker.turn(world.now));
    // Who drives it has begun its clock.
    assert_eq!(TIME.load(Ordering::Relaxed) - before, SHORT);
}

/// A host with so many connections that it has accepted, the first of which the peer has a name for.
fn busy(world: &mut World, many: u32) -> (Host, ConnRef, tcp::ConnId) {
    let (host, all) = busy_with(world, many);
    let (conn, peer) = all[0];
    (host, conn, peer)
}

/// A host with so many connections that it has accepted.
pub fn busy_with(world: &mut World, many: u32) -> (Host, Vec<(ConnRef, tcp::ConnId)>) {
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: many,
        waits: false,
    });
    let all = (0..many).map(|_| world.connect(&mut host, port)).collect();
    (host, all)
}

/// Connections of a fork that are seen to in a turn, where there is time for two looks at the clock.
const IN_A_TURN: u32 = 2 * 16;

/// Turns until a request of this host's is answered, in each of which the other one is heard.
fn turns_until_answered(
    world: &mut World,
    host: &mut Host,
    request: &Request,
    (other, its, peers): (&mut Host, ConnRef, tcp::ConnId),
) -> (Reply, Fds, u32) {
    // Nothing is under way that would hold the next bytes up.
    world.pass(Duration::from_millis(100));
    host.channel.send(request, Fds::new()).expect("sent");
    world.desk.attend();
    let before = other.received(its).len();
    world.peer.send(world.now, peers, b"meanwhile");
    world.peer.turn(world.now);
    for turns in 0.. {
        world.worker.attend_once(world.now);
        world.desk.attend();
        if let Some((reply, fds)) = host.channel.try_receive::<Reply>().expect("open") {
            return (reply, fds, turns);
        }
        assert!(turns < 2 * MANY / IN_A_TURN, "it hangs");
        world.worker.turn(world.now);
        other.collect();
        assert!(other.received(its).len() > before, "others wait");
    }
    unreachable!("it is asserted above");
}

#[test]
fn a_fork_with_many_connections_takes_many_turns() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut other, its, peers) = world.connected();
    let (mut parent, conn, peer) = busy(&mut world, MANY);
    let third = (&mut other, its, peers);
    let answer = turns_until_answered(&mut world, &mut parent, &Request::Fork, third);
    let (Reply::Forked { token }, mut fds, turns) = answer else {
        panic!("{:?}", answer.0);
    };
    assert!(turns >= MANY / AT_ONCE / 2, "{turns}");
    let _lifeline = fds.pop().expect("a lifeline");
    // And so does it to attach.
    let channel = world.dial();
    let attach = attach_request(VERSION, Some(token));
    let memory = parent.memory.try_clone().expect("descriptors");
    let mut child = Host::of(channel, memory, Vec::new());
    let third = (&mut other, its, peers);
    let answer = turns_until_answered(&mut world, &mut child, &attach, third);
    let (Reply::Attached { .. }, fds, turns) = answer else {
        panic!("{:?}", answer.0);
    };
    assert!(turns >= MANY / AT_ONCE / 2, "{turns}");
    let mut child = world.host(child.channel, fds);
    // It has them all.
    world.peer.send(world.now, peer, b"for both");
    world.settle();
    child.collect();
    assert_eq!(child.elsewhere(conn), Some((8, false)));
    child.send_at(conn, b"child", 1);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"child");
    let known = |it: &Completion| {
        matches!(
            it,
            Completion::SendBuffer { .. } | Completion::Elsewhere { .. }
        )
    };
    assert!(child.completions.iter().any(known));
    drop(parent);
    world.attend();
    drop(child);
    world.attend();
    world.pass(Duration::from_millis(100));
    assert_eq!(world.worker.sessions(), 1, "nothing stays");
}

#[test]
fn a_child_that_never_attaches_leaves_many_connections_in_many_turns() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, conn, peer) = busy(&mut world, MANY);
    let (reply, fds) = world.request(&mut parent, &Request::Fork, Fds::new());
    assert!(matches!(reply, Reply::Forked { .. }), "{reply:?}");
    drop(fds);
    world.desk.attend();
    world.worker.attend_once(world.now);
    let released = |parent: &mut Host| {
        parent.collect();
        let granted = |it: &&Completion| matches!(it, Completion::Granted { .. });
        parent.completions.iter().filter(granted).count() as u32
    };
    let (mut before, mut turns) = (released(&mut parent), 0);
    while before < MANY {
        world.worker.turn(world.now);
        let now = released(&mut parent);
        assert!(now - before <= 2 * AT_ONCE, "{before}, {now}");
        (before, turns) = (now, turns + 1);
        assert!(turns < MANY, "{before}");
    }
    assert!(turns >= MANY / AT_ONCE / 2, "{turns}");
    parent.close_at(conn, 1);
    world.settle();
    assert!(
        world.peer.conns[&peer].update.peer_closed,
        "nobody else has it"
    );
}
