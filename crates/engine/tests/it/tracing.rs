//! The engine follows sends for who may ask, from the submission to what the host is told, and nothing else.

use crate::world::World;
use queue_pair::control::{Channel, Fds, Moment, Reply, Request, Traced};
use queue_pair::{OptionKind, Submission};
use std::time::Duration;

fn traced(world: &mut World) -> Vec<Traced> {
    let mut all = Vec::new();
    let mut channel = world.dial();
    loop {
        match world.ask(&mut channel, &Request::Traced, Fds::new()).0 {
            Reply::Traced { moments, more } => {
                all.extend(moments);
                if !more {
                    return all;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn kept(world: &mut World) -> Vec<(Moment, u64)> {
    let all = traced(world);
    all.iter().map(|it| (it.moment, it.bytes)).collect()
}

/// What becomes of a send, in its order.
const EACH: [Moment; 5] = [
    Moment::Taken,
    Moment::Built,
    Moment::Handed,
    Moment::Acknowledged,
    Moment::ToldAcknowledged,
];

#[test]
fn a_send_is_followed_to_its_end() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    host.send(conn, &[7; 100], 0);
    world.pass(Duration::from_millis(50));
    assert!(traced(&mut world).is_empty(), "nobody has asked");
    assert_eq!(world.ask_once(&Request::Trace { sends: 2 }), Reply::Done);
    for _ in 0..3 {
        host.send(conn, &[7; 64], 0);
        world.pass(Duration::from_millis(50));
    }
    let all = traced(&mut world);
    let found: Vec<_> = all.iter().map(|it| (it.moment, it.bytes)).collect();
    let expected: Vec<_> = [64, 128]
        .iter()
        .flat_map(|bytes| EACH.map(|moment| (moment, *bytes)))
        .collect();
    assert_eq!(found, expected, "two, and not the third");
    assert!(all.is_sorted_by_key(|it| it.at));
    assert!(traced(&mut world).is_empty(), "it was told once");
}

#[test]
fn a_send_that_waits_for_the_wire_is_told_that_it_has_left() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    host.submit(Submission::SetOption {
        conn,
        option: OptionKind::NotSentLow,
        value: 1,
    });
    world.settle();
    assert_eq!(world.ask_once(&Request::Trace { sends: 1 }), Reply::Done);
    // It sleeps until then.
    host.region.armed.arm(0);
    host.send(conn, &[7; 64], 0);
    world.pass(Duration::from_millis(50));
    let found = kept(&mut world);
    let at = |moment| found.iter().position(|it| *it == (moment, 64));
    let left = at(Moment::ToldLeft).expect("told");
    assert!(at(Moment::Built) < Some(left), "{found:?}");
    let rung = at(Moment::Rung);
    assert!(
        Some(left) < rung && rung < at(Moment::Acknowledged),
        "{found:?}"
    );
    assert!(Some(left) < at(Moment::ToldAcknowledged), "{found:?}");
}

#[test]
fn more_than_one_message_holds_is_told_in_several() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    assert_eq!(world.ask_once(&Request::Trace { sends: 120 }), Reply::Done);
    for _ in 0..120 {
        host.send(conn, &[7; 8], 0);
        world.pass(Duration::from_millis(50));
    }
    let all = traced(&mut world);
    assert_eq!(all.len(), 5 * 120);
    assert_eq!(all.last().map(|it| it.bytes), Some(8 * 120));
}

#[test]
fn what_the_connection_had_not_sent_before_is_not_of_them() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    // More than leaves at once.
    let before = [7; 60_000];
    host.send(conn, &before, 0);
    world.worker.turn(world.now);
    assert_eq!(world.ask_once(&Request::Trace { sends: 1 }), Reply::Done);
    host.send(conn, &[7; 64], 0);
    world.pass(Duration::from_millis(500));
    assert_eq!(kept(&mut world), EACH.map(|moment| (moment, 64)));
}

#[test]
fn nobody_takes_what_was_kept_for_another() {
    let mut world = World::new();
    let (mut host, conn, _) = world.connected();
    let (mut first, mut second) = (world.dial(), world.dial());
    let begin = Request::Trace { sends: 120 };
    let ask = |world: &mut World, who: &mut Channel, request| {
        let (reply, _) = world.ask(who, request, Fds::new());
        reply
    };
    assert_eq!(ask(&mut world, &mut first, &begin), Reply::Done);
    for _ in 0..120 {
        host.send(conn, &[7; 8], 0);
        world.pass(Duration::from_millis(50));
        let reply = ask(&mut world, &mut second, &begin);
        assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    }
    let told = ask(&mut world, &mut first, &Request::Traced);
    let Reply::Traced { moments, more } = told else {
        panic!("{told:?}");
    };
    assert!(moments.len() < 5 * 120 && more);
    // What is left of it is the first one's.
    let nothing = Reply::Traced {
        moments: Vec::new(),
        more: false,
    };
    assert_eq!(ask(&mut world, &mut second, &Request::Traced), nothing);
    assert_eq!(ask(&mut world, &mut second, &begin), Reply::Done);
    let told = ask(&mut world, &mut first, &Request::Traced);
    let Reply::Traced {
        moments: rest,
        more: false,
    } = told
    else {
        panic!("{told:?}");
    };
    assert_eq!(moments.len() + rest.len(), 5 * 120);
}

#[test]
fn strangers_do_not_follow_what_others_send() {
    let mut world = World::new();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut stranger = world.attach_as(4_711);
    let asked = [Request::Trace { sends: 1 }, Request::Traced];
    for request in asked {
        let (reply, _) = world.request(&mut stranger, &request, Fds::new());
        assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    }
    for sends in [0, u32::MAX] {
        let reply = world.ask_once(&Request::Trace { sends });
        assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
    }
    let mut several = World::of_workers(2);
    let reply = several.ask_once(&Request::Trace { sends: 1 });
    assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
}
