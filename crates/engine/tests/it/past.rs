//! Processes that submit without end in the name of a time that has passed: who shares a connection waits for what is
//! there of them, and for nothing that comes later.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::forks::family;
use crate::many::LOOK;
use crate::world::{Host, World};
use engine::clock::Clock;
use engine::config::Config;
use queue_pair::{ConnRef, OptionKind, Submission};

/// Turns in which what is in a few rings is taken, of which each has time for a part.
const TURNS: u32 = 40;

/// One of another family, who makes up a past.
pub struct Busy {
    host: Host,
    conn: ConnRef,
    _other: Host,
}

impl Busy {
    pub fn in_world(world: &mut World) -> Self {
        let (_other, host, conn, _) = family(world);
        Self { host, conn, _other }
    }

    /// Fills its ring with what has no time, and so comes before everything.
    pub fn goes_on(&mut self) {
        let endless = Submission::SetOption {
            conn: self.conn,
            option: OptionKind::NoDelay,
            value: 1,
        };
        while self.host.region.submissions.post(&endless).expect("honest") {}
        self.host.region.submissions.publish();
    }
}

/// A world of small rings, in which time passes in a turn, and one who is busy.
pub fn busy_world(time: &'static AtomicU64) -> (World, Busy) {
    busy_world_with(time, 128)
}

/// The same with rings of this size.
fn busy_world_with(time: &'static AtomicU64, entries: u32) -> (World, Busy) {
    let mut config = Config::default();
    config.limits.ring_entries = entries;
    let mut world = World::of_clock_with(Clock::told_in_steps(time, LOOK), config);
    let busy = Busy::in_world(&mut world);
    (world, busy)
}

/// A turn, and the past goes on.
fn turn(world: &mut World, busy: &mut Busy) {
    world.worker.turn(world.now);
    world.peer.turn(world.now);
    busy.goes_on();
}

#[test]
fn who_goes_on_making_up_a_past_keeps_nobody_from_writing() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    busy.goes_on();
    child.send_at(conn, b"first, ", 10);
    parent.send_at(conn, b"then", 20);
    for _ in 0..TURNS {
        turn(&mut world, &mut busy);
    }
    assert_eq!(world.peer.conns[&peer].bytes, b"first, then");
}

#[test]
fn what_waits_together_waits_for_one_past() {
    const WRITTEN: usize = 100;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    busy.goes_on();
    child.send_at(conn, b"first, ", 10);
    for at in 0..WRITTEN as u64 {
        parent.send_at(conn, b"x", 20 + at);
    }
    for _ in 0..TURNS {
        turn(&mut world, &mut busy);
    }
    let written = world.worker.counters().shared_sends;
    assert_eq!(written, 1 + WRITTEN as u64);
    world.pass(Duration::from_millis(100));
    let bytes = &world.peer.conns[&peer].bytes;
    assert!(bytes.starts_with(b"first, "));
    assert_eq!(bytes.len(), 7 + WRITTEN);
}

#[test]
fn who_keeps_his_ring_full_goes_before_others_with_a_turns_part_of_it() {
    const ENTRIES: u32 = 1024;
    // What is taken of a session in a turn.
    const ROUND: u64 = 256;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world_with(&TIME, ENTRIES);
    let (mut full, _its_child, its, _) = family(&mut world);
    let (mut other, _child, conn, peer) = family(&mut world);
    let mut at = 1_000;
    let mut fill = |host: &mut Host| {
        while host.region.submissions.room().expect("honest") > 0 {
            host.send_at(its, b"x", at);
            at += 1;
        }
    };
    busy.goes_on();
    let mut turns = 0;
    while world.worker.counters().shared_sends == 0 {
        fill(&mut full);
        turn(&mut world, &mut busy);
        turns += 1;
        assert!(turns < 1_000, "its turn comes");
    }
    // It waits with all that it has, and another one begins to.
    other.send_at(conn, b"y", 10);
    while world.peer.conns[&peer].bytes.is_empty() {
        fill(&mut full);
        turn(&mut world, &mut busy);
        turns += 1;
        assert!(turns < 1_000, "so does the other's");
    }
    let before = world.worker.counters().shared_sends - 1;
    assert!(before <= 2 * ROUND, "{before}");
}

#[test]
fn what_is_written_after_that_waits_for_what_others_have_by_then() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    busy.goes_on();
    parent.send_at(conn, b"a", 10);
    // What has no time waits for nothing, and so follows at once.
    parent.submit(Submission::SetOption {
        conn,
        option: OptionKind::NoDelay,
        value: 1,
    });
    // Its turn comes, it waits, and then for what is there.
    for _ in 0..4 {
        turn(&mut world, &mut busy);
    }
    assert_eq!(world.worker.counters().shared_sends, 0);
    child.send_at(conn, b"b", 20);
    parent.send_at(conn, b"c", 30);
    for _ in 0..2 * TURNS {
        turn(&mut world, &mut busy);
    }
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"abc");
}

#[test]
fn the_end_of_others_moves_nobodys_past() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let mut others: Vec<Host> = (0..TURNS).map(|_| world.attach(None)).collect();
    busy.goes_on();
    child.send_at(conn, b"first, ", 10);
    parent.send_at(conn, b"then", 20);
    while let Some(other) = others.pop() {
        drop(other);
        world.desk.attend();
        world.worker.attend_once(world.now);
        turn(&mut world, &mut busy);
    }
    assert!(world.worker.sessions() < 8, "they have ended");
    assert_eq!(world.peer.conns[&peer].bytes, b"first, then");
}
