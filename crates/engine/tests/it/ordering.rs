//! What comes before an order of the control connection: what its process had submitted, and what others had
//! before that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::forks::family;
use crate::many::slow;
use crate::past::{Busy, busy_world};
use crate::world::{Host, World};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{ConnRef, OptionKind, Submission};

#[test]
fn an_order_waits_for_what_others_wrote_before_what_precedes_it() {
    // More than there is time for in one go.
    const WRITTEN: u64 = 40;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    for at in 1..=WRITTEN {
        child.send_at(conn, b"x", at);
    }
    parent.close_at(conn, WRITTEN + 1);
    let (reply, _) = world.request(&mut parent, &Request::Info { conn }, Fds::new());
    assert!(!matches!(reply, Reply::Info(_)), "it was closed: {reply:?}");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes.len() as u64, WRITTEN);
}

#[test]
fn what_a_process_wrote_last_is_sent_though_others_wrote_much_before_that() {
    // More than is taken in a turn of what comes before.
    const WRITTEN: u64 = 6_000;
    let mut world = World::new();
    let (mut parent, mut child, conn, peer) = family(&mut world);
    for at in 1..=WRITTEN {
        parent.send_at(conn, b"x", at);
    }
    child.send_at(conn, b"last ", WRITTEN + 1);
    child.send_at(conn, b"words", WRITTEN + 2);
    drop(child);
    world.attend();
    world.pass(Duration::from_millis(100));
    let bytes = &world.peer.conns[&peer].bytes;
    assert_eq!(bytes.len() as u64, WRITTEN + 10);
    assert!(bytes.ends_with(b"last words"));
}

/// Has the engine hear who has ended, while a host submits without end what comes before everything.
fn end_beside(world: &mut World, host: Host, conn: ConnRef) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut host = host;
            while !done.load(Ordering::Relaxed) {
                // It has no time.
                let posted = host.region.submissions.post(&Submission::SetOption {
                    conn,
                    option: OptionKind::NoDelay,
                    value: 1,
                });
                posted.expect("an honest engine");
                host.region.submissions.publish();
            }
        });
        world.desk.attend();
        world.worker.attend_once(world.now);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_goes_on_making_up_a_past_keeps_back_nobodys_last_words() {
    let mut world = World::new();
    let (mut parent, child, conn, peer) = family(&mut world);
    parent.send_at(conn, b"last words", 9);
    drop(parent);
    end_beside(&mut world, child, conn);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes, b"last words");
}

#[test]
fn who_goes_on_making_up_a_past_puts_nobodys_last_words_before_older_ones() {
    // Who has more to read than some hundred notices is asked for nothing.
    const WRITTEN: u64 = 200;
    let byte = |at: u64| (at % 251) as u8;
    let mut world = World::new();
    // Somebody else's, who is looked at first.
    let (_other, busy, elsewhere, _) = family(&mut world);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    for at in 1..=WRITTEN {
        let host = if at % 2 == 1 { &mut parent } else { &mut child };
        host.send_at(conn, &[byte(at)], at);
    }
    drop(parent);
    end_beside(&mut world, busy, elsewhere);
    world.pass(Duration::from_millis(100));
    let written: Vec<u8> = (1..=WRITTEN).map(byte).collect();
    assert!(world.peer.conns[&peer].bytes == written);
}

/// Submissions of all sessions that are counted.
fn counted(world: &mut World) -> u64 {
    let mut channel = world.dial();
    let (mut sum, mut more) = (0, false);
    loop {
        let (reply, _) = world.ask(&mut channel, &Request::Metrics { more }, Fds::new());
        let Reply::Metrics {
            metrics,
            more: further,
        } = reply
        else {
            panic!("no metrics");
        };
        let of_sessions = metrics.iter().filter(|it| it.name == "session_submissions");
        sum += of_sessions.map(|it| it.value as u64).sum::<u64>();
        more = true;
        if !further {
            return sum;
        }
    }
}

#[test]
fn what_is_taken_before_its_turn_is_counted() {
    let mut world = World::new();
    let (mut parent, mut child, conn, _) = family(&mut world);
    let before = counted(&mut world);
    for at in 1..=40 {
        child.send_at(conn, b"x", at);
    }
    parent.send_at(conn, b"y", 41);
    let (reply, _) = world.request(&mut parent, &Request::Info { conn }, Fds::new());
    assert!(matches!(reply, Reply::Info(_)), "{reply:?}");
    assert_eq!(counted(&mut world) - before, 41);
}

/// One byte of the area, behind the first, after everything else.
fn next(conn: ConnRef, at: u64) -> Submission {
    Submission::SendAt {
        conn,
        addr: 1 + at,
        len: 1,
        more: false,
        at: 101 + at,
    }
}

#[test]
fn a_full_ring_and_what_was_taken_before_is_all_sent() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let capacity = u64::from(child.region.submissions.capacity());
    // The child's first is looked at on behalf of each of the parent's, and comes after them.
    child.send_at(conn, b"y", 100);
    for at in 1..=60 {
        parent.send_at(conn, b"x", at);
    }
    world.worker.turn(world.now);
    // There is room for as many as ever, beside the one that was taken.
    let mut posted = 0;
    while child
        .region
        .submissions
        .post(&next(conn, posted))
        .expect("an honest engine")
    {
        posted += 1;
    }
    child.region.submissions.publish();
    assert_eq!(posted, capacity);
    drop(child);
    world.attend();
    world.pass(Duration::from_millis(100));
    let bytes = &world.peer.conns[&peer].bytes;
    assert_eq!(bytes.len() as u64, 60 + 1 + capacity);
}

#[test]
fn an_order_does_not_wait_for_others_without_end() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, mut child, conn, _) = family(&mut world);
    parent.close_at(conn, u64::MAX);
    let request = Request::Info { conn };
    parent.channel.send(&request, Fds::new()).expect("sent");
    world.desk.attend();
    // The child makes up a past, and goes on with it.
    let capacity = parent.region.submissions.capacity();
    for _ in 0..2 * capacity {
        let mut room = true;
        while room {
            let posted = child.region.submissions.post(&Submission::SendAt {
                conn,
                addr: 0,
                len: 1,
                more: false,
                at: 0,
            });
            room = posted.expect("an honest engine");
        }
        child.region.submissions.publish();
        world.worker.attend_once(world.now);
        world.desk.attend();
        if let Some((reply, _)) = parent.channel.try_receive::<Reply>().expect("open") {
            assert!(!matches!(reply, Reply::Info(_)), "it was closed: {reply:?}");
            return;
        }
    }
    panic!("it waits");
}

#[test]
fn who_makes_up_a_past_takes_nothing_of_what_others_have_before_an_order() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = slow(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    let mut busy = Busy::in_world(&mut world);
    child.send_at(conn, b"older, ", 50);
    parent.send_at(conn, b"then", 60);
    parent.close_at(conn, 61);
    let request = Request::Info { conn };
    parent.channel.send(&request, Fds::new()).expect("sent");
    world.desk.attend();
    for _ in 0..4 * parent.region.submissions.capacity() {
        busy.goes_on();
        world.worker.attend_once(world.now);
        world.desk.attend();
        if let Some((reply, _)) = parent.channel.try_receive::<Reply>().expect("open") {
            assert!(!matches!(reply, Reply::Info(_)), "it was closed: {reply:?}");
            world.pass(Duration::from_millis(100));
            assert_eq!(world.peer.conns[&peer].bytes, b"older, then");
            return;
        }
    }
    panic!("it waits");
}

#[test]
fn an_order_waits_for_one_past_whatever_its_process_has_submitted() {
    const WRITTEN: u64 = 100;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let (mut world, mut busy) = busy_world(&TIME);
    let (mut parent, mut child, conn, peer) = family(&mut world);
    child.send_at(conn, b"older, ", 5);
    for at in 1..=WRITTEN {
        parent.send_at(conn, b"x", 10 + at);
    }
    let request = Request::Info { conn };
    parent.channel.send(&request, Fds::new()).expect("sent");
    world.desk.attend();
    for _ in 0..40 {
        busy.goes_on();
        world.worker.attend_once(world.now);
        world.desk.attend();
        if let Some((reply, _)) = parent.channel.try_receive::<Reply>().expect("open") {
            assert!(matches!(reply, Reply::Info(_)), "{reply:?}");
            world.pass(Duration::from_millis(100));
            let bytes = &world.peer.conns[&peer].bytes;
            assert!(bytes.starts_with(b"older, ") && bytes.ends_with(b"x"));
            assert_eq!(bytes.len() as u64, 7 + WRITTEN);
            return;
        }
    }
    panic!("it waits");
}
