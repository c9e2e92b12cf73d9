//! When a program that waits for room is woken.

mod fake_engine;

use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fake_engine::waiting::wait;
use fake_engine::{Attached, FakeEngine, HANG, is_asleep, is_readable};
use host::{Errno, Listener, Poller, Readiness, Session, Socket, Source};
use queue_pair::{ConnRef, OptionKind};

/// What one segment acknowledges.
const STEP: u64 = 1448;
/// Of what a program sends at once.
const PIECE: [u8; 16 << 10] = [7; 16 << 10];

struct Scene {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
    socket: Socket,
    conn: ConnRef,
    acked: u64,
}

impl Scene {
    fn new() -> Self {
        Self::of(FakeEngine::start())
    }

    fn of(engine: FakeEngine) -> Self {
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        Self {
            engine,
            session,
            listener,
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

    /// Another thread sleeps by a bell, and waits for data on this connection, until that is dropped.
    fn watched<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Watcher<'s> {
        let (conn, socket) = self.engine.connection(&self.listener);
        let (is_here, here) = mpsc::channel();
        scope.spawn(move || {
            is_here.send(rustix::thread::gettid()).unwrap();
            socket.wait(Readiness::IN, Some(HANG))
        });
        let engine = &self.engine;
        let thread = here.recv().unwrap();
        engine.await_asleep(thread);
        let rings = engine.host(|host| host.rings);
        Watcher {
            engine,
            conn,
            rings,
        }
    }

    /// A thread that waits for this, and sleeps by the word of the connection.
    fn parked<'s>(&'s self, scope: &'s Scope<'s, '_>, wanted: Readiness) -> Parked<'s> {
        let thread = scope.spawn(move || wait(&self.socket, wanted));
        self.await_parked();
        thread
    }

    /// Somebody sleeps by the word, which says for how much room, if the engine is as new as that.
    fn await_parked(&self) {
        self.engine.until(|inner| {
            let says = inner.version.is_none();
            let host = &inner.attached[0];
            let sleeps = match says {
                true => host.is_parked_for_so_much(self.conn),
                false => host.is_parked(self.conn),
            };
            sleeps.then_some(())
        });
    }

    fn is_parked(&self) -> bool {
        self.engine.host(|host| host.is_parked(self.conn))
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
        let most = (2 * self.socket.send_buffer() + 1) / 3;
        self.socket.written().saturating_sub(most)
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

type Parked<'s> = ScopedJoinHandle<'s, Result<Readiness, Errno>>;

struct Watcher<'s> {
    engine: &'s FakeEngine,
    conn: ConnRef,
    /// How often the engine had rung when it had begun.
    rings: u64,
}

impl Watcher<'_> {
    /// It was not rung.
    fn sleeps(&self) -> bool {
        self.engine.host(|host| host.rings) == self.rings
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.engine.host(|host| host.deliver(self.conn, b"data"));
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
            engine.await_armed();
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

/// Of several threads of a process one sleeps by a bell, and the others by the words of their connections.
#[test]
fn a_thread_beside_a_watcher_is_woken_when_a_third_of_the_buffer_is_free() {
    for threads in [1, 2] {
        let mut scene = Scene::new();
        for _ in 0..3 {
            let from = scene.fill();
            let (conn, before) = (scene.conn, scene.acked);
            std::thread::scope(|scope| {
                let watcher = scene.watched(scope);
                let parked = |_| scene.parked(scope, Readiness::OUT);
                let writers: Vec<_> = (0..threads).map(parked).collect();
                for acked in (before + STEP..from).step_by(STEP as usize) {
                    scene.engine.host(|host| host.acknowledge_much(conn, acked));
                    assert!(scene.is_parked() && watcher.sleeps(), "{acked} of {from}");
                }
                scene.engine.host(|host| host.acknowledge(conn, from));
                for writer in writers {
                    assert!(writer.join().unwrap().unwrap().intersects(Readiness::OUT));
                }
                assert!(watcher.sleeps());
            });
            scene.acked = from;
        }
    }
}

/// It says nothing that an engine does not know which came before such words.
#[test]
fn an_older_engine_wakes_a_thread_beside_a_watcher_for_whatever_comes() {
    let engine = FakeEngine::start();
    engine.lock().version = Some(16);
    let scene = Scene::of(engine);
    let from = scene.fill();
    std::thread::scope(|scope| {
        let _watcher = scene.watched(scope);
        let writer = scene.parked(scope, Readiness::OUT);
        for acked in [STEP, from] {
            scene.await_parked();
            let asleep = |host: &mut Attached| host.is_parked_for_so_much(scene.conn);
            assert!(!scene.engine.host(asleep));
            scene
                .engine
                .host(|host| host.acknowledge(scene.conn, acked));
        }
        assert!(writer.join().unwrap().unwrap().intersects(Readiness::OUT));
    });
}

#[test]
fn a_thread_that_waits_for_data_is_woken_for_no_room() {
    let mut scene = Scene::new();
    scene.socket.send(&PIECE, false).unwrap();
    std::thread::scope(|scope| {
        let watcher = scene.watched(scope);
        let reader = scene.parked(scope, Readiness::IN);
        let conn = scene.conn;
        scene
            .engine
            .host(|host| host.acknowledge_much(conn, 16_000));
        assert!(scene.is_parked() && watcher.sleeps());
        scene.engine.host(|host| host.deliver(conn, b"data"));
        assert_eq!(reader.join().unwrap(), Ok(Readiness::IN));
    });
    scene.acked = 16_000;
}

/// Before it has said for how much room somebody waits, too.
#[test]
fn a_thread_that_begins_to_wait_for_data_is_woken_for_no_room() {
    let scene = Scene::new();
    scene.socket.send(&PIECE, false).unwrap();
    let (held, other) = scene.engine.connection(&scene.listener);
    let other = &other;
    std::thread::scope(|scope| {
        let watcher = scene.watched(scope);
        // Whoever takes in what the engine says of the other connection waits until nobody writes there, and whoever goes
        // to sleep waits for him.
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (writes, written) = mpsc::channel();
        scope.spawn(move || {
            other.send_with(1, false, |_| {
                writes.send(()).unwrap();
                goes_on.recv().unwrap();
                Ok(0)
            })
        });
        written.recv().unwrap();
        scene.engine.host(|host| host.acknowledge(held, 0));
        let (is_here, here) = mpsc::channel();
        let session = &scene.session;
        scope.spawn(move || {
            is_here.send(rustix::thread::gettid()).unwrap();
            session.pump();
        });
        let pumps = here.recv().unwrap();
        scene.engine.until(|_| is_asleep(pumps).then_some(()));
        let reader = scope.spawn(|| scene.socket.wait(Readiness::IN, Some(HANG)));
        scene.engine.await_parked(scene.conn);
        scene
            .engine
            .host(|host| host.acknowledge(scene.conn, 16_000));
        let sleeps = scene.is_parked();
        go_on.send(()).unwrap();
        scene.engine.host(|host| host.deliver(scene.conn, b"data"));
        assert_eq!(reader.join().unwrap(), Ok(Readiness::IN));
        assert!(sleeps && watcher.sleeps());
    });
}

#[test]
fn who_comes_and_goes_leaves_it_at_the_room_that_others_wait_for() {
    let scene = Scene::new();
    let conn = scene.conn;
    for (stays, goes) in [
        (Readiness::OUT, Readiness::IN),
        (Readiness::IN, Readiness::OUT),
    ] {
        let before = scene.socket.written();
        let from = scene.fill();
        std::thread::scope(|scope| {
            let watcher = scene.watched(scope);
            let parked = scene.parked(scope, stays);
            let left = scene.socket.wait(goes, Some(Duration::from_millis(10)));
            assert_eq!(left, Err(Errno::TIMEDOUT));
            for acked in [before + STEP, from - 1] {
                scene.engine.host(|host| host.acknowledge_much(conn, acked));
                assert!(scene.is_parked() && watcher.sleeps(), "{acked} of {from}");
            }
            scene.engine.host(|host| host.acknowledge(conn, from));
            if stays == Readiness::IN {
                scene.engine.host(|host| host.deliver(conn, b"data"));
            }
            assert!(parked.join().unwrap().unwrap().intersects(stays));
        });
        let all = scene.socket.written();
        scene.engine.host(|host| host.acknowledge(conn, all));
        scene.session.pump();
    }
}

/// The buffer grows while the engine goes on acknowledging: nobody sleeps on room that is there by then.
#[test]
fn a_thread_whose_buffer_grows_looks_once_more() {
    let scene = Scene::new();
    scene.socket.set_send_buffer(60_000);
    let from = scene.fill();
    std::thread::scope(|scope| {
        let watcher = scene.watched(scope);
        let writer = scene.parked(scope, Readiness::OUT);
        let acked = from - 2_000;
        scene
            .engine
            .host(|host| host.acknowledge(scene.conn, acked));
        assert!(scene.is_parked() && watcher.sleeps());
        scene.socket.set_send_buffer(75_000);
        assert!(writer.join().unwrap().unwrap().intersects(Readiness::OUT));
    });
}

/// A program that wants little to wait before it leaves (TCP_NOTSENT_LOWAT).
#[test]
fn who_is_held_back_is_woken_when_little_enough_has_not_left() {
    const LOW: u64 = 40_000;
    for leaves in [false, true] {
        let mut scene = Scene::new();
        let low = OptionKind::NotSentLow;
        scene.socket.set_option(low, LOW as u32).unwrap();
        let mut poller = scene.set_for(Readiness::OUT);
        let mut ready = Vec::new();
        poller.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        scene.fill();
        let from = scene.socket.written() - (LOW - 1) / 2;
        assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
        if leaves {
            for total in (STEP..from).step_by(STEP as usize) {
                scene
                    .engine
                    .host(|host| host.depart(scene.conn, total, true));
                assert!(!is_readable(poller.fd()), "{total} of {from}");
            }
        }
        scene.acknowledge_before(from, |_| !is_readable(poller.fd()));
        match leaves {
            true => scene
                .engine
                .host(|host| host.depart(scene.conn, from, false)),
            false => scene.acknowledge(from),
        }
        assert!(is_readable(poller.fd()));
        poller.disarm();
        poller.wait(&mut ready, Some(HANG)).unwrap();
        assert!(ready[0].readiness.intersects(Readiness::OUT));
    }
}

#[test]
fn a_thread_beside_a_watcher_that_is_held_back_is_woken_then() {
    const LOW: u64 = 40_000;
    let scene = Scene::new();
    let (conn, low) = (scene.conn, OptionKind::NotSentLow);
    scene.socket.set_option(low, LOW as u32).unwrap();
    for leaves in [false, true] {
        let before = scene.socket.written();
        scene.fill();
        let from = scene.socket.written() - (LOW - 1) / 2;
        std::thread::scope(|scope| {
            let watcher = scene.watched(scope);
            let writer = scene.parked(scope, Readiness::OUT);
            scene.engine.host(|host| {
                host.acknowledge_much(conn, before + STEP);
                host.depart(conn, from - 1, true);
                host.acknowledge_much(conn, from - 1);
            });
            assert!(scene.is_parked() && watcher.sleeps());
            scene.engine.host(|host| match leaves {
                true => host.depart(conn, from, false),
                false => host.acknowledge(conn, from),
            });
            assert!(writer.join().unwrap().unwrap().intersects(Readiness::OUT));
        });
        let all = scene.socket.written();
        scene.engine.host(|host| host.acknowledge(conn, all));
        scene.session.pump();
    }
}

/// The engine says in its own time what a program has asked for that is less than all.
#[test]
fn who_is_held_back_and_asks_what_has_left_hears_of_all() {
    let scene = Scene::new();
    let low = OptionKind::NotSentLow;
    scene.socket.set_option(low, 40_000).unwrap();
    scene.socket.tell_when_departed(Some(1));
    scene.socket.tell_when_departed(None);
    scene.fill();
    let mut poller = scene.set_for(Readiness::OUT);
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    let total = scene.socket.written() - 1_000;
    scene
        .engine
        .host(|host| host.depart(scene.conn, total, true));
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

#[test]
fn room_that_another_thread_takes_in_wakes_who_sleeps_by_the_word() {
    let scene = Scene::new();
    let from = scene.fill();
    std::thread::scope(|scope| {
        let _watcher = scene.watched(scope);
        let writer = scene.parked(scope, Readiness::OUT);
        let session = &scene.session;
        scene.engine.host(|host| {
            host.acknowledge_slowly(scene.conn, from, || session.pump());
        });
        assert!(writer.join().unwrap().unwrap().intersects(Readiness::OUT));
    });
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

/// Whoever takes in what the engine says tells of room, also where a buffer of the program's own is posted and somebody
/// has waited on the connection before.
#[test]
fn room_comes_where_a_buffer_is_posted() {
    let mut scene = Scene::new();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let memory = scene.session.register(4096).unwrap();
        scene.socket.post(&memory, 0, 4096, 1).unwrap();
        let waited = scene
            .socket
            .wait(Readiness::IN, Some(Duration::from_millis(1)));
        assert_eq!(waited, Err(Errno::TIMEDOUT));
        let from = scene.fill();
        scene.acknowledge(from);
        scene.session.pump();
        done.send(scene.socket.readiness()).unwrap();
    });
    let ready = is_done.recv_timeout(HANG).expect("the pump returns");
    assert!(ready.intersects(Readiness::OUT));
}
