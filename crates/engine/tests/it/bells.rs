//! Which of a process's doorbells are rung for what, over a simulated link.

use std::time::Duration;

use crate::world::{Host, World};
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::doorbell::{Bell, Rung};
use queue_pair::{ConnRef, Submission, bells};

/// A process with two threads, each with a bell of its own.
struct Threads {
    host: Host,
    bells: [(u32, Bell); 2],
}

impl Threads {
    fn of(world: &mut World, mut host: Host) -> Self {
        let bells = [0, 1].map(|_| {
            let (reply, mut fds) = world.request(&mut host, &Request::Waker, Fds::new());
            let Reply::Waker { waker } = reply else {
                panic!("{reply:?}");
            };
            (waker, Bell::from(fds.pop().expect("a bell")))
        });
        Self { host, bells }
    }

    /// For this connection the bell of this thread is to be rung; `None`: each that is armed.
    fn name(&self, conn: ConnRef, thread: Option<usize>) {
        let word = self.host.region.positions.bell(conn.index);
        bells::name(
            word.expect("a place"),
            thread.map(|thread| self.bells[thread].0),
        );
    }

    /// Both sleep.
    fn sleep(&self) {
        for (bell, _) in &self.bells {
            self.host.region.armed.arm(*bell);
        }
    }

    /// Who was woken.
    fn rung(&self) -> [bool; 2] {
        [0, 1].map(|thread| self.bells[thread].1.drain() == Rung::Yes)
    }
}

#[test]
fn news_ring_the_bell_that_their_connection_names() {
    let mut world = World::new();
    let (host, conn, peer) = world.connected();
    let mut threads = Threads::of(&mut world, host);
    let (other, other_peer) = world.serving(&mut threads.host);
    let mut rung_for = |threads: &Threads, peers: &[tcp::ConnId]| {
        threads.sleep();
        for peer in peers {
            world.peer.send(world.now, *peer, b"news");
        }
        // Nagle's algorithm holds back what comes before the acknowledgement of the last.
        world.pass(Duration::from_millis(100));
        threads.rung()
    };
    assert_eq!(rung_for(&threads, &[peer]), [true, true], "none is named");
    threads.name(conn, Some(1));
    threads.name(other, Some(0));
    assert_eq!(rung_for(&threads, &[peer]), [false, true]);
    assert_eq!(rung_for(&threads, &[other_peer]), [true, false]);
    assert_eq!(rung_for(&threads, &[peer, other_peer]), [true, true]);
    threads.name(conn, None);
    assert_eq!(rung_for(&threads, &[peer]), [true, true]);
}

#[test]
fn a_bell_that_is_not_armed_is_not_rung_and_no_other_is_for_it() {
    let mut world = World::new();
    let (host, conn, peer) = world.connected();
    let threads = Threads::of(&mut world, host);
    threads.name(conn, Some(1));
    threads.sleep();
    threads.host.region.armed.disarm(threads.bells[1].0);
    world.peer.send(world.now, peer, b"news");
    world.settle();
    assert_eq!(threads.rung(), [false, false]);
}

#[test]
fn of_a_new_connection_nobody_has_named_a_bell() {
    let mut world = World::new();
    let (host, conn, _) = world.connected();
    let mut threads = Threads::of(&mut world, host);
    // As the connections that had the places before may have left it.
    for index in 0..16 {
        threads.name(ConnRef { index, ..conn }, Some(1));
    }
    threads.sleep();
    world.serving(&mut threads.host);
    assert_eq!(threads.rung(), [true, true]);
}

#[test]
fn a_new_connection_rings_the_bell_that_its_listener_names() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen_with_credit(&mut host);
    let mut threads = Threads::of(&mut world, host);
    let mut names = |threads: &mut Threads, thread: Option<usize>| {
        let bell = thread.map(|thread| threads.bells[thread].0 as u8);
        let names = Submission::NameListenersBell { listener, bell };
        threads.sleep();
        threads.host.submit(names);
        world.settle();
        let by_the_name = threads.rung();
        threads.sleep();
        world.connect(&mut threads.host, port);
        (by_the_name, threads.rung())
    };
    let (none, all) = ([false, false], [true, true]);
    assert_eq!(names(&mut threads, None), (none, all));
    assert_eq!(names(&mut threads, Some(1)), (none, [false, true]));
    assert_eq!(names(&mut threads, Some(1)), (none, [false, true]));
    // Whoever has begun to wait meanwhile may have missed something.
    assert_eq!(names(&mut threads, Some(0)), (all, [true, false]));
    assert_eq!(names(&mut threads, None), (all, all));
}

#[test]
fn of_a_connection_that_nobody_waits_for_nobody_hears() {
    let mut world = World::new();
    let (host, conn, peer) = world.connected();
    let threads = Threads::of(&mut world, host);
    bells::name_nobody(threads.host.region.positions.bell(conn.index).unwrap());
    threads.sleep();
    world.peer.send(world.now, peer, b"news");
    world.settle();
    assert_eq!(threads.rung(), [false, false]);
}

/// Its credit comes back by that: it may have accepted no more than it was told of.
#[test]
fn who_leaves_an_offer_lying_hears_that_it_was_taken_back() {
    let mut world = World::new();
    let mut late = world.attach(None);
    let mut quick = world.attach(None);
    let (port, listener) = world.listen(&mut late);
    let other = world.join(&mut quick, &late);
    let asks = |listener| Submission::Credit {
        listener,
        total: 1,
        waits: true,
    };
    late.submit(asks(listener));
    world.settle();
    world.peer.connect(world.now, port);
    world.settle();
    late.collect();
    let offered = late.accepted()[0];
    let mut threads = Threads::of(&mut world, late);
    bells::name_nobody(threads.host.region.positions.bell(offered.index).unwrap());
    let bell = Some(threads.bells[1].0 as u8);
    let names = Submission::NameListenersBell { listener, bell };
    threads.host.submit(names);
    world.settle();
    threads.sleep();
    quick.submit(asks(other));
    world.settle();
    quick.collect();
    assert_eq!(quick.accepted().len(), 1);
    // It is not urgent.
    world.attend();
    assert_eq!(threads.rung(), [false, true]);
}

#[test]
fn a_bell_that_is_none_harms_nobody_else() {
    let mut world = World::new();
    let (host, conn, peer) = world.connected();
    let threads = Threads::of(&mut world, host);
    let word = threads.host.region.positions.bell(conn.index).unwrap();
    bells::name(word, Some(63));
    threads.sleep();
    threads.host.region.armed.arm(63);
    world.peer.send(world.now, peer, b"news");
    world.settle();
    assert_eq!(threads.rung(), [false, false], "it hears of nothing");
}
