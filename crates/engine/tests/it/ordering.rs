//! What comes before an order of the control connection: what its process had submitted, and what others had
//! before that.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::forks::family;
use crate::world::World;
use engine::clock::Clock;
use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request};

#[test]
fn an_order_waits_for_what_others_wrote_before_what_precedes_it() {
    // More than there is time for in one go.
    const WRITTEN: u64 = 40;
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = World::of_clock(Clock::told_in_steps(&TIME, 30_000));
    let (mut parent, mut child, conn, peer) = family(&mut world);
    for at in 1..=WRITTEN {
        child.send_at(conn, b"x", at);
    }
    parent.submit(Submission::Close {
        conn,
        abort: false,
        at: WRITTEN + 1,
    });
    let (reply, _) = world.request(&mut parent, &Request::Info { conn }, Fds::new());
    assert!(!matches!(reply, Reply::Info(_)), "it was closed: {reply:?}");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.peer.conns[&peer].bytes.len() as u64, WRITTEN);
}

#[test]
fn an_order_does_not_wait_for_others_without_end() {
    static TIME: AtomicU64 = AtomicU64::new(0);
    let mut world = World::of_clock(Clock::told_in_steps(&TIME, 30_000));
    let (mut parent, mut child, conn, _) = family(&mut world);
    parent.submit(Submission::Close {
        conn,
        abort: false,
        at: u64::MAX,
    });
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
            assert!(matches!(reply, Reply::Info(_)), "{reply:?}");
            return;
        }
    }
    panic!("it waits");
}
