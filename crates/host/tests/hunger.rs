//! Connections that find no send memory.

mod fake_engine;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use fake_engine::waiting::wait;
use fake_engine::{FakeEngine, HANG, is_readable};
use host::{Errno, Listener, Poller, Readiness, Session, Socket, Source};
use queue_pair::{ConnRef, Sizes};

/// The memory that is given out as one.
const SLAB: u64 = 64 << 10;

struct World {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
}

impl World {
    /// With so many slabs of send memory.
    fn new(slabs: u64) -> Self {
        let engine = FakeEngine::start_with(Some(Sizes {
            send_len: slabs * SLAB,
            ..Sizes::default()
        }));
        let (session, listener) = engine.listening();
        Self {
            engine,
            session,
            listener,
        }
    }

    /// A connection that has sent as much as there was memory for, and how much that is.
    fn full(&self) -> (ConnRef, Socket, u64) {
        let (conn, socket) = self.engine.connection(&self.listener);
        socket.set_send_buffer(1 << 30);
        while socket.send(&[7; 1 << 16], false).is_ok() {
            self.engine.host(|host| host.submissions());
        }
        assert_eq!(socket.send(b"x", false), Err(Errno::AGAIN));
        let written = socket.written();
        (conn, socket, written)
    }

    /// A connection that has sent so many slabs, and has found memory for all of it: it waits for nothing.
    fn holding(&self, slabs: u64) -> (ConnRef, Socket, u64) {
        let (conn, socket) = self.engine.connection(&self.listener);
        socket.set_send_buffer(1 << 30);
        for _ in 0..slabs {
            assert_eq!(socket.send(&[7; 1 << 16], false), Ok(1 << 16));
        }
        (conn, socket, slabs * SLAB)
    }

    fn poller(&self, socket: &Socket) -> Poller {
        let mut poller = Poller::new(&self.session).unwrap();
        let source = Source::Socket(socket);
        poller
            .add(source, 5, Readiness::OUT | Readiness::EDGE)
            .unwrap();
        poller
    }

    fn acknowledge(&self, conn: ConnRef, acked: u64) {
        self.engine.host(|host| host.acknowledge(conn, acked));
    }
}

/// How long it sleeps at most.
#[derive(Debug, PartialEq)]
enum Sleeps {
    Moments,
    /// A tenth of a second.
    UntilItLooks,
    /// Memory that nobody uses is looked for once a second.
    Long,
}

fn sleeps(poller: &mut Poller) -> Sleeps {
    let limit = poller.arm().unwrap();
    assert_ne!(limit, Some(Duration::ZERO), "it is ready");
    let limit = limit.map_or(u128::MAX, |limit| limit.as_millis());
    match limit {
        ..=10 => Sleeps::Moments,
        11..=200 => Sleeps::UntilItLooks,
        _ => Sleeps::Long,
    }
}

/// What it waits for, which it does not find at the end of its time alone.
fn finds(poller: &mut Poller) -> Readiness {
    let begun = Instant::now();
    let mut ready = Vec::new();
    poller.wait(&mut ready, Some(HANG)).unwrap();
    assert!(begun.elapsed() < HANG, "nobody has looked");
    ready[0].readiness
}

fn is_writable(socket: &Socket) -> bool {
    socket.readiness().intersects(Readiness::OUT)
}

#[test]
fn one_that_has_memory_is_woken_when_a_third_of_that_is_back() {
    let world = World::new(16);
    let (conn, socket, written) = world.full();
    assert!(written > 3 * SLAB && written % SLAB == 0);
    let third = written.div_ceil(3).next_multiple_of(SLAB);
    let mut poller = world.poller(&socket);
    assert_eq!(sleeps(&mut poller), Sleeps::UntilItLooks);
    for acked in (1448..third).step_by(1448) {
        world.acknowledge(conn, acked);
        assert!(!is_readable(poller.fd()), "{acked} of {third}");
    }
    world.acknowledge(conn, third);
    assert!(is_readable(poller.fd()));
    poller.disarm();
    assert!(finds(&mut poller).intersects(Readiness::OUT));
    assert!(socket.send(&[7; 1 << 16], false).is_ok());
}

/// Its peer reads no more, and memory comes back by connections that nobody waits for.
#[test]
fn one_that_has_memory_finds_what_others_have_given_back() {
    let world = World::new(16);
    let (other, _other, written) = world.holding(3);
    let (_, socket, own) = world.full();
    assert!(own > 0);
    let mut poller = world.poller(&socket);
    assert_eq!(sleeps(&mut poller), Sleeps::UntilItLooks);
    world.acknowledge(other, written);
    assert!(!is_readable(poller.fd()), "nobody is woken for that");
    poller.disarm();
    assert!(finds(&mut poller).intersects(Readiness::OUT));
    assert!(socket.send(&[7; 1 << 16], false).is_ok());
}

/// Whoever sleeps already when the first one starves looks from then on.
#[test]
fn one_that_sleeps_already_finds_what_others_give_back() {
    for (slabs, held) in [(16, 3), (1, 1)] {
        let world = World::new(slabs);
        let (other, _other, written) = world.holding(held);
        let (_, socket, _) = world.holding(0);
        let mut poller = world.poller(&socket);
        assert!(finds(&mut poller).intersects(Readiness::OUT));
        let (is_here, here) = mpsc::channel();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                is_here.send(rustix::thread::gettid()).unwrap();
                finds(&mut poller)
            });
            let thread = here.recv().unwrap();
            world.engine.await_asleep(thread);
            while socket.send(&[7; 1 << 16], false).is_ok() {
                world.engine.host(|host| host.submissions());
            }
            assert!(!is_writable(&socket));
            world.acknowledge(other, written);
            assert!(sleeper.join().unwrap().intersects(Readiness::OUT));
        });
    }
}

/// Memory of which it has none comes back by connections that nobody waits for.
#[test]
fn one_that_has_none_finds_what_comes_back() {
    let world = World::new(1);
    let (other, _other, written) = world.holding(1);
    let (_, socket, none) = world.full();
    assert_eq!(none, 0);
    let mut poller = world.poller(&socket);
    assert_eq!(sleeps(&mut poller), Sleeps::Moments);
    poller.disarm();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| finds(&mut poller));
        world.engine.await_armed();
        world.acknowledge(other, written);
        assert!(sleeper.join().unwrap().intersects(Readiness::OUT));
    });
    assert_eq!(socket.send(b"x", false), Ok(1));
}

/// The same, of a thread that sleeps by the word of the connection: another one keeps watch, and looks for it.
#[test]
fn threads_find_what_comes_back() {
    for (slabs, held) in [(16, 3), (1, 1)] {
        let world = World::new(slabs);
        let (watched, watcher) = world.engine.connection(&world.listener);
        let (other, _other, written) = world.holding(held);
        let (conn, socket, own) = world.full();
        assert_eq!(own > 0, slabs > 1);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watcher.wait(Readiness::IN, Some(HANG)));
            world.engine.await_armed();
            let sleeper = scope.spawn(|| wait(&socket, Readiness::OUT));
            world.engine.await_parked(conn);
            world.acknowledge(other, written);
            assert_eq!(sleeper.join().unwrap(), Ok(Readiness::OUT));
            world.engine.host(|host| host.deliver(watched, b"data"));
            watcher.join().unwrap().unwrap();
        });
    }
}

/// One that has memory goes on to starve, and is not looked for as often.
#[test]
fn nobody_looks_for_one_that_is_gone() {
    let world = World::new(1);
    let (holds, other, written) = world.full();
    let (_, socket, none) = world.full();
    assert_eq!(none, 0);
    let mut poller = Poller::new(&world.session).unwrap();
    poller
        .add(Source::Socket(&other), 5, Readiness::IN)
        .unwrap();
    assert_eq!(sleeps(&mut poller), Sleeps::Moments);
    poller.disarm();
    drop(socket);
    assert_eq!(sleeps(&mut poller), Sleeps::UntilItLooks);
    poller.disarm();
    world.acknowledge(holds, written);
    world.session.pump();
    assert_eq!(sleeps(&mut poller), Sleeps::Long);
    poller.disarm();
}

/// Who finds room in the ring takes nothing from one that has found none before.
#[test]
fn one_that_found_the_ring_full_is_told_though_others_have_found_room_since() {
    let world = World::new(16);
    let (_, socket) = world.engine.connection(&world.listener);
    let (_, other) = world.engine.connection(&world.listener);
    while socket.send(b"x", false).is_ok() {}
    assert!(!is_writable(&socket));
    world.engine.host(|host| host.submissions());
    assert_eq!(other.send(b"x", false), Ok(1));
    world.session.pump();
    assert!(is_writable(&socket));
}
