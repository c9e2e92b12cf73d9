//! Processes that do not read what they are told, and share a connection: nobody can have them be told without end.

use crate::forks::family;
use crate::world::{Host, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::{Completion, ConnRef, Submission};

/// Entries of each ring.
const RING: u32 = 64;

/// A world in which the ring of what is told fills soon.
fn small() -> World {
    let mut config = Config::default();
    config.limits.ring_entries = RING;
    World::with(config, LinkConfig::default())
}

/// A host asks for what is answered, and reads no answer, until nothing more is taken of it.
fn stop_reading(world: &mut World, host: &mut Host, conn: ConnRef) {
    for _ in 0..1_000 {
        host.submit(Submission::Acquire { conn });
        world.settle();
        if host.region.submissions.room().expect("honest") < RING {
            return;
        }
    }
    panic!("it is asked on and on");
}

/// What a host was told of O_NONBLOCK, once it has read everything.
fn told_of_mode(world: &mut World, host: &mut Host) -> Vec<bool> {
    let mut before = usize::MAX;
    while host.completions.len() != before {
        before = host.completions.len();
        world.settle();
        host.collect();
    }
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
    parent.submit(Submission::Close {
        conn,
        abort: false,
        at: 1,
    });
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
