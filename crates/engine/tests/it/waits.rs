//! What is counted of those who want to connect: how long they wait until they are accepted, and whom the
//! access lists turn away.

use std::time::Duration;

use crate::world::{Host, PEER, World};
use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::control::{Metric, Reply, Request};
use queue_pair::{ConnRef, Submission, position};

/// How many connections have been accepted, and how long they waited, all together, in milliseconds.
fn waits(world: &World) -> (u64, u128) {
    let waits = &world.worker.counters().accept_waits;
    (waits.count(), waits.sum().as_millis())
}

/// Accepts, as a host does that says nothing of it.
fn accept(host: &Host, conn: ConnRef) {
    let word = host.region.positions.word(conn.index).expect("a word");
    let grant = position::look(word).grant();
    assert!(position::accept(word, grant, conn.generation), "offered");
}

fn give_credit(host: &mut Host, listener: u32, total: u32) {
    host.submit(Submission::Credit {
        listener,
        total,
        waits: false,
    });
}

#[test]
fn a_wait_is_from_the_handshake_until_a_process_has_accepted() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    world.peer.connect(world.now, port);
    world.settle();
    // Ten milliseconds in the queue, and seven more in the hands of a process that has not looked.
    world.pass(Duration::from_millis(10));
    give_credit(&mut host, listener, 1);
    world.pass(Duration::from_millis(7));
    host.collect();
    assert_eq!(waits(&world), (0, 0), "it is only offered");
    accept(&host, host.accepted()[0]);
    world.settle();
    assert_eq!(waits(&world), (1, 17));
    world.pass(Duration::from_millis(5));
    assert_eq!(waits(&world), (1, 17), "once");
}

#[test]
fn each_of_several_that_are_accepted_together_counts() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    const MANY: u32 = 20;
    give_credit(&mut host, listener, MANY);
    for _ in 0..MANY {
        world.offer(&mut host, port);
    }
    world.pass(Duration::from_millis(8));
    // One says when; it is one time for all.
    host.region.accepted.tell(world.now.as_nanos());
    for conn in host.accepted() {
        accept(&host, conn);
    }
    // Who asks is told of all, however few turns there were since.
    let Reply::Stats(told) = world.ask_once(&Request::Stats) else {
        panic!("no counts");
    };
    let of_waits = |metric: &&Metric| metric.name == "accept_wait_seconds";
    let told = told.iter().find(of_waits).expect("told of");
    assert_eq!(told.value, f64::from(MANY));
    assert_eq!(waits(&world).0, u64::from(MANY));
}

#[test]
fn one_that_is_offered_again_has_waited_from_its_beginning_on() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    give_credit(&mut host, listener, 1);
    let (conn, _) = world.offer(&mut host, port);
    world.pass(Duration::from_millis(3));
    host.submit(Submission::GiveBack { conn });
    world.pass(Duration::from_millis(2));
    assert_eq!(waits(&world), (0, 0), "it is nobody's");
    give_credit(&mut host, listener, 2);
    world.settle();
    host.collect();
    let again = *host.accepted().last().expect("offered again");
    world.pass(Duration::from_millis(4));
    accept(&host, again);
    // What it does with it first says so, too.
    host.submit(Submission::Close {
        conn: again,
        abort: true,
        at: 0,
    });
    world.settle();
    assert_eq!(waits(&world), (1, 9));
}

#[test]
fn the_time_that_a_process_states_is_believed_where_it_can_be() {
    for (stated, counted) in [
        // It accepted after two milliseconds; the engine looks after six.
        (2, 2),
        // Before there was a connection, and tomorrow.
        (-1, 6),
        (86_400_000, 6),
    ] {
        let mut world = World::new();
        let mut host = world.attach(None);
        let (port, listener) = world.listen(&mut host);
        give_credit(&mut host, listener, 1);
        let began = world.now.as_nanos();
        let (conn, _) = world.offer(&mut host, port);
        // The world's time begins with the machine's.
        let at = began.saturating_add_signed(stated * 1_000_000);
        host.region.accepted.tell(at.max(1));
        accept(&host, conn);
        world.now += Duration::from_millis(6);
        world.settle();
        assert_eq!(waits(&world), (1, counted), "{stated}");
    }
}

#[test]
fn a_peer_that_is_not_admitted_is_counted_at_its_listener() {
    let text = format!("[access]\ndeny = [{{ prefix = \"{PEER}/32\" }}]\n");
    let config = Config::parse("test", &text).expect("a configuration");
    let mut world = World::with(config, LinkConfig::default());
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let (other, _) = world.listen(&mut host);
    world.peer.connect(world.now, port);
    world.settle();
    let Reply::Stats(told) = world.ask_once(&Request::Stats) else {
        panic!("no counts");
    };
    let denied = |port: u16| -> f64 {
        let end = format!(":{port}");
        let of_it = |metric: &&Metric| {
            metric.name == "listener_dropped"
                && metric.labels.iter().any(|(_, value)| value.ends_with(&end))
                && metric.labels.iter().any(|(_, value)| value == "denied")
        };
        told.iter().find(of_it).expect("told of").value
    };
    assert_eq!((denied(port), denied(other)), (1.0, 0.0));
}
