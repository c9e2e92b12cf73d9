//! The two halves, each driven by itself: what one has begun and the other has not seen yet.

use crate::world::World;
use engine::config::Config;
use engine::stats::Drop;
use netdev::sim::LinkConfig;
use queue_pair::Submission;
use queue_pair::control::{Channel, Fds, Reply, Request, VERSION};

fn attach() -> Request {
    Request::Attach {
        version: VERSION,
        oldest: None,
        program: "test".to_owned(),
        fork_token: None,
    }
}

fn heard(channel: &mut Channel) -> Option<Reply> {
    let reply = channel.try_receive::<Reply>().expect("open");
    reply.map(|(reply, _)| reply)
}

#[test]
fn a_connection_has_one_request_under_way_and_is_answered_in_order() {
    let mut world = World::new();
    let mut channel = world.dial();
    channel.send(&attach(), Fds::new()).expect("sent");
    channel.send(&Request::Waker, Fds::new()).expect("sent");
    channel.send(&Request::Stats, Fds::new()).expect("sent");
    for _ in 0..10 {
        world.desk.attend();
    }
    assert_eq!(heard(&mut channel), None, "the fast half has not seen it");
    world.worker.attend(world.now);
    world.desk.attend();
    assert!(matches!(heard(&mut channel), Some(Reply::Attached { .. })));
    assert_eq!(heard(&mut channel), None, "the next was not asked yet");
    world.attend();
    assert!(matches!(heard(&mut channel), Some(Reply::Waker { .. })));
    assert!(matches!(heard(&mut channel), Some(Reply::Stats(_))));
}

#[test]
fn who_is_gone_before_it_is_attached_leaves_nothing() {
    let mut config = Config::default();
    config.limits.sessions = 1;
    let mut world = World::with(config, LinkConfig::default());
    for _ in 0..3 {
        let mut channel = world.dial();
        channel.send(&attach(), Fds::new()).expect("sent");
        world.desk.attend();
        drop(channel);
        // The slow half knows that it is gone, the fast half takes it in.
        world.desk.attend();
        world.attend();
        assert_eq!(world.worker.sessions(), 0);
    }
    // Its place is free again.
    let _host = world.attach(None);
    assert_eq!(world.desk.counters().dropped(Drop::SessionsFull), 0);
}

#[test]
fn a_place_is_taken_from_the_order_on_until_the_memory_is_back() {
    let mut config = Config::default();
    config.limits.sessions = 1;
    config.limits.sessions_per_user = 1;
    let mut world = World::with(config, LinkConfig::default());
    let mut channels = [world.dial(), world.dial()];
    for channel in &mut channels {
        channel.send(&attach(), Fds::new()).expect("sent");
    }
    // Neither has been taken in when the second asks.
    for _ in 0..4 {
        world.desk.attend();
    }
    let refused = channels.iter_mut().filter_map(heard).count();
    assert_eq!(refused, 1);
    world.attend();
    assert_eq!(world.worker.sessions(), 1);
    drop(channels);
    world.attend();
    let _host = world.attach(None);
}

#[test]
fn what_was_submitted_before_a_request_comes_before_it() {
    let mut world = World::new();
    let (mut host, conn, peer) = world.connected();
    // More than is taken in one go.
    for _ in 0..1000 {
        host.submit(Submission::Consumed { conn, total: 0 });
    }
    host.send(conn, b"before", 0);
    let request = Request::Info { conn };
    host.channel.send(&request, Fds::new()).expect("sent");
    world.desk.attend();
    world.worker.attend(world.now);
    world.desk.attend();
    let Some(Reply::Info(info)) = heard(&mut host.channel) else {
        panic!("no answer");
    };
    assert_eq!(info.unacked, 6, "it is on its way");
    world.settle();
    assert_eq!(world.peer.conns[&peer].bytes, b"before");
}

#[test]
fn users_cannot_take_the_control_connections_of_others_or_of_root() {
    const LIMIT: usize = 32;
    if !rustix::process::geteuid().is_root() {
        println!("left out: it takes root to be several users");
        return;
    }
    let mut config = Config::default();
    config.limits.control_connections = LIMIT as u32;
    let mut world = World::with(config, LinkConfig::default());
    let all_of = |world: &mut World, uid| -> Vec<Channel> {
        let taken: Vec<Channel> = std::iter::from_fn(|| world.dial_as(uid)).collect();
        assert!(taken.len() < LIMIT);
        taken
    };
    let first = all_of(&mut world, 1_000);
    let others = [1_001, 1_002, 1_003].map(|uid| all_of(&mut world, uid));
    assert!(!first.is_empty() && !others[0].is_empty());
    // Root still finds out what goes on, and stops it.
    let reply = world.ask_once(&Request::Stats);
    assert!(matches!(reply, Reply::Stats(_)), "{reply:?}");
    // And what one gives back another can have.
    drop(first);
    world.attend();
    assert!(world.dial_as(1_003).is_some());
}
