//! When a program that waits for room is woken.

mod fake_engine;

use std::time::Duration;

use fake_engine::{FakeEngine, HANG, is_readable};
use host::{Errno, Listener, Poller, Readiness, Session, Socket, Source};
use queue_pair::ConnRef;

/// What one segment acknowledges.
const STEP: u64 = 1448;
/// Of what a program sends at once.
const PIECE: [u8; 16 << 10] = [7; 16 << 10];

struct Scene {
    engine: FakeEngine,
    session: Session,
    _listener: Listener,
    socket: Socket,
    conn: ConnRef,
    acked: u64,
}

impl Scene {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        Self {
            engine,
            session,
            _listener: listener,
            socket,
            conn,
            acked: 0,
        }
    }

    /// A set that waits for news of this kind.
    fn set_for(&self, wanted: Readiness) -> Poller {
        let mut poller = Poller::new(&self.session).unwrap();
        let source = Source::Socket(&self.socket);
        poller.add(source, 5, wanted | Readiness::EDGE).unwrap();
        poller
    }

    /// Sends until there is no room. From which count on there is some again: a third of the buffer is free.
    fn fill(&self) -> u64 {
        let errno = loop {
            if let Err(errno) = self.socket.send(&PIECE, false) {
                break errno;
            }
        };
        assert_eq!(errno, Errno::AGAIN);
        self.engine.host(|host| host.forget_sent());
        self.socket.written() - (2 * self.socket.send_buffer() + 1) / 3
    }

    fn acknowledge(&mut self, count: u64) {
        self.acked = count;
        self.engine.host(|host| host.acknowledge(self.conn, count));
    }

    /// Acknowledges segment by segment as many as end before `count`, each of which leaves whoever sleeps asleep.
    fn acknowledge_before(&mut self, count: u64, asleep: impl Fn(&Self) -> bool) {
        let steps = (self.acked + STEP..count).step_by(STEP as usize);
        assert!(steps.clone().count() > 1);
        for acked in steps {
            self.acknowledge(acked);
            assert!(asleep(self), "{acked} of {count}");
        }
    }
}

#[test]
fn a_set_is_woken_when_a_third_of_the_buffer_is_free() {
    let mut scene = Scene::new();
    let mut poller = scene.set_for(Readiness::OUT);
    let mut ready = Vec::new();
    for _ in 0..3 {
        let from = scene.fill();
        while poller.arm().unwrap() == Some(Duration::ZERO) {
            poller.disarm();
            // What was ready before.
            let _ = poller.wait(&mut ready, Some(Duration::ZERO));
            ready.clear();
        }
        scene.acknowledge_before(from, |_| !is_readable(poller.fd()));
        scene.acknowledge(from);
        assert!(is_readable(poller.fd()));
        poller.disarm();
        poller.wait(&mut ready, Some(HANG)).unwrap();
        assert!(
            ready
                .drain(..)
                .any(|event| event.readiness.intersects(Readiness::OUT))
        );
    }
}

/// A buffer of the program's own counts, of which the engine does not know.
#[test]
fn a_thread_is_woken_when_a_third_of_the_buffer_is_free() {
    for own in [None, Some(20_000)] {
        let scene = Scene::new();
        if let Some(bytes) = own {
            scene.socket.set_send_buffer(bytes);
        }
        let from = scene.fill();
        std::thread::scope(|scope| {
            let (wake, woken) = std::sync::mpsc::channel();
            let Scene {
                engine,
                socket,
                conn,
                ..
            } = &scene;
            scope.spawn(move || wake.send(socket.wait(Readiness::OUT, Some(HANG))));
            engine.until(|inner| inner.attached[0].is_armed().then_some(()));
            let rings = |acked: u64| {
                engine.host(|host| {
                    host.acknowledge(*conn, acked);
                    host.rings
                })
            };
            let before = engine.host(|host| host.rings);
            for acked in (STEP..from).step_by(STEP as usize) {
                assert_eq!(rings(acked), before, "rung at {acked} of {from}");
            }
            rings(from);
            let found = woken.recv().unwrap();
            assert!(found.unwrap().intersects(Readiness::OUT));
        });
    }
}

#[test]
fn who_waits_until_a_send_is_acknowledged_is_woken_when_it_is() {
    let mut scene = Scene::new();
    scene.socket.waits_for_room(false);
    let mut poller = scene.set_for(Readiness::ACKED);
    scene.socket.send(&PIECE, false).unwrap();
    scene.socket.send(&PIECE, false).unwrap();
    for mark in [10_000, 20_000] {
        scene.socket.tell_when_acknowledged(Some(mark));
        assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
        scene.acknowledge_before(mark, |_| !is_readable(poller.fd()));
        scene.acknowledge(mark);
        assert!(is_readable(poller.fd()));
        poller.disarm();
        let mut ready = Vec::new();
        poller.wait(&mut ready, Some(HANG)).unwrap();
        assert!(ready[0].readiness.intersects(Readiness::ACKED));
    }
}

/// Less than before is asked for while the engine goes on acknowledging: nobody sleeps on what is there.
#[test]
fn who_asks_for_less_than_before_looks_once_more() {
    let mut scene = Scene::new();
    scene.socket.waits_for_room(false);
    let mut poller = scene.set_for(Readiness::ACKED);
    scene.socket.send(&PIECE, false).unwrap();
    scene.socket.tell_when_acknowledged(Some(15_000));
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    scene.acknowledge(12_000);
    assert!(!is_readable(poller.fd()));
    // By another thread.
    scene.socket.tell_when_acknowledged(Some(12_000));
    assert!(is_readable(poller.fd()));
    poller.disarm();
}

/// By the time the engine looks for whom it has to wake, another thread has taken in what it has published.
#[test]
fn room_that_another_thread_takes_in_wakes_who_waits_for_it_in_a_set() {
    let scene = Scene::new();
    let mut poller = scene.set_for(Readiness::OUT);
    let mut ready = Vec::new();
    poller.wait(&mut ready, Some(Duration::ZERO)).unwrap();
    let from = scene.fill();
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    let session = &scene.session;
    scene.engine.host(|host| {
        host.acknowledge_slowly(scene.conn, from, || session.pump());
    });
    assert!(is_readable(poller.fd()));
    poller.disarm();
    poller.wait(&mut ready, Some(HANG)).unwrap();
    assert!(ready[0].readiness.intersects(Readiness::OUT));
}

/// The engine rings nobody for that: who waits is told of what is acknowledged.
#[test]
fn a_larger_buffer_that_another_thread_hears_of_wakes_who_waits_for_room() {
    let scene = Scene::new();
    let mut poller = scene.set_for(Readiness::OUT);
    let mut ready = Vec::new();
    poller.wait(&mut ready, Some(Duration::ZERO)).unwrap();
    scene.fill();
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    scene.engine.host(|host| host.advise(scene.conn, 1 << 20));
    assert!(!is_readable(poller.fd()));
    scene.session.pump();
    assert!(is_readable(poller.fd()));
    poller.disarm();
    poller.wait(&mut ready, Some(HANG)).unwrap();
    assert!(ready[0].readiness.intersects(Readiness::OUT));
}
