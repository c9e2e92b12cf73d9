//! Several threads that wait for one connection, each in its own way.

mod fake_engine;

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fake_engine::waiting::wait;
use fake_engine::{Attached, FakeEngine, HANG, is_asleep, is_readable};
use host::{Errno, Listener, Poller, Readiness, Session, Sleeps, Socket, Source};
use queue_pair::{Completion, ConnRef};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::thread::futex;

thread_local! {
    /// What happens to this thread just before it sleeps by a connection's word.
    static BEFORE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Of the only source in a poller.
const KEY: u64 = 7;

struct Scene {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
}

impl Scene {
    fn new() -> Self {
        host::sleep_by(Sleeps {
            poll: |fds, limit| poll(fds, limit),
            wait: |word, asleep, limit| {
                if let Some(act) = BEFORE.take() {
                    act();
                }
                futex::wait(word, futex::Flags::empty(), asleep, limit)
            },
        });
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        Self {
            engine,
            session,
            listener,
        }
    }

    fn connection(&self) -> (ConnRef, Socket) {
        self.engine.connection(&self.listener)
    }

    /// A thread that waits, and sleeps by a bell, as the first to sleep does.
    fn watching<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        socket: &'s Socket,
        wanted: Readiness,
    ) -> ScopedJoinHandle<'s, Result<Readiness, Errno>> {
        let thread = scope.spawn(move || wait(socket, wanted));
        self.engine.await_armed();
        thread
    }

    /// A thread that waits to read, and sleeps by the connection's word.
    fn parked<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        one: &'s (ConnRef, Socket),
        before: impl FnOnce() + Send + 'static,
    ) -> ScopedJoinHandle<'s, Result<Readiness, Errno>> {
        let thread = reading(scope, &one.1, before);
        self.engine.await_parked(one.0);
        thread
    }
}

/// A thread that waits to read, and to which something happens just before it sleeps.
fn reading<'s>(
    scope: &'s Scope<'s, '_>,
    socket: &'s Socket,
    before: impl FnOnce() + Send + 'static,
) -> ScopedJoinHandle<'s, Result<Readiness, Errno>> {
    scope.spawn(move || {
        BEFORE.set(Some(Box::new(before)));
        wait(socket, Readiness::IN)
    })
}

/// Fills the send buffer: how many bytes went in.
fn fill(scene: &Scene, socket: &Socket) -> u64 {
    let mut len = 0;
    while let Ok(sent) = socket.send(&[0; 1 << 16], false) {
        len += sent as u64;
        scene.engine.host(|host| host.submissions());
    }
    assert!(!socket.readiness().intersects(Readiness::OUT));
    len
}

/// What the engine does wakes a poller, whose thread sleeps.
fn wakes(scene: &Scene, poller: &mut Poller, act: impl FnOnce(&mut Attached)) {
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    scene.engine.host(act);
    let mut fds = [PollFd::from_borrowed_fd(poller.fd(), PollFlags::IN)];
    let limit = Timespec::try_from(HANG).unwrap();
    assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "nobody rings");
    poller.disarm();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events.iter().map(|it| it.key).collect::<Vec<_>>(), [KEY]);
}

#[test]
fn news_wake_who_sleeps_by_the_word_and_who_sleeps_by_a_bell() {
    for ends in [false, true] {
        let scene = Scene::new();
        let one = scene.connection();
        std::thread::scope(|scope| {
            let first = scene.watching(scope, &one.1, Readiness::IN);
            let second = scene.parked(scope, &one, || {});
            scene.engine.host(|host| match ends {
                true => host.peer_closes(one.0),
                false => host.deliver(one.0, b"news"),
            });
            for thread in [first, second] {
                let ready = thread.join().unwrap().unwrap();
                assert!(ready.intersects(Readiness::IN), "{ends}");
            }
        });
    }
}

/// Whether the poller, which is armed, is woken.
fn is_woken(poller: &Poller) -> bool {
    is_readable(poller.fd())
}

/// A poller of everything that happens to a socket, which has told of all that is.
fn poller_of(scene: &Scene, socket: &Socket) -> Poller {
    let mut poller = Poller::new(&scene.session).unwrap();
    let everything = Readiness::IN | Readiness::OUT | Readiness::EDGE;
    poller.add(Source::Socket(socket), KEY, everything).unwrap();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    poller
}

#[test]
fn who_has_room_is_not_woken_for_more_and_who_has_none_is() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut poller = poller_of(&scene, &socket);
    socket.send(b"some", false).unwrap();
    scene.engine.host(|host| host.submissions());
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    scene.engine.host(|host| host.acknowledge(conn, 4));
    assert!(!is_woken(&poller), "there was room before");
    scene.engine.host(|host| host.deliver(conn, b"news"));
    assert!(is_woken(&poller));
    poller.disarm();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    let len = fill(&scene, &socket);
    wakes(&scene, &mut poller, |host| host.acknowledge(conn, 4 + len));
}

#[test]
fn who_says_when_he_waits_for_room_hears_of_it_then_alone() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    socket.waits_for_room(false);
    let mut poller = poller_of(&scene, &socket);
    let len = fill(&scene, &socket);
    assert_ne!(poller.arm().unwrap(), Some(Duration::ZERO));
    scene.engine.host(|host| host.acknowledge(conn, len));
    assert!(!is_woken(&poller));
    // Another thread begins to wait: what was acknowledged before is found.
    socket.waits_for_room(true);
    assert!(is_woken(&poller));
    poller.disarm();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events.len(), 1);
    let more = fill(&scene, &socket);
    wakes(&scene, &mut poller, |host| {
        host.acknowledge(conn, len + more)
    });
}

/// A connection of which it was said that nobody waits for room, and that is gone; the next one in its place.
fn in_the_place_of_another(scene: &Scene) -> ConnRef {
    let (conn, socket) = scene.connection();
    socket.waits_for_room(false);
    drop(socket);
    scene.engine.host(|host| {
        host.submissions();
        host.post(Completion::Released { conn });
        host.forget(conn);
    });
    ConnRef {
        generation: conn.generation + 1,
        ..conn
    }
}

/// Fills it by one call, so that there is no room after the first that could be said of it. Then there is some.
fn hears_of_room(scene: &Scene, (conn, socket): &(ConnRef, Socket)) {
    let len = socket.send(&[0; 1 << 20], false).unwrap() as u64;
    assert!(len < 1 << 20);
    scene.engine.host(|host| host.submissions());
    let mut poller = poller_of(scene, socket);
    wakes(scene, &mut poller, |host| host.acknowledge(*conn, len));
}

/// The next connection in a place is not the one of which something was said.
#[test]
fn a_connection_begins_with_nothing_said_of_it() {
    let scene = Scene::new();
    let conn = in_the_place_of_another(&scene);
    scene.engine.host(|host| host.offer(1, conn));
    let socket = scene.listener.accept_offloaded().unwrap();
    hears_of_room(&scene, &(conn, socket));
}

#[test]
fn so_does_one_that_came_by_a_ticket() {
    let scene = Scene::new();
    let conn = in_the_place_of_another(&scene);
    scene.engine.host(|host| host.know(conn));
    scene.engine.lock().ticketed = Some(conn);
    let shown = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let (socket, _) = scene.session.claim(shown).unwrap();
    hears_of_room(&scene, &(conn, socket));
}

#[test]
fn who_asks_what_was_acknowledged_hears_of_it_while_there_is_room() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    socket.waits_for_room(false);
    let mut poller = Poller::new(&scene.session).unwrap();
    let wanted = Readiness::ACKED | Readiness::EDGE;
    let source = Source::Socket(&socket);
    poller.add(source, KEY, wanted).unwrap();
    socket.send(b"some", false).unwrap();
    scene.engine.host(|host| host.submissions());
    socket.tell_when_acknowledged(Some(4));
    wakes(&scene, &mut poller, |host| host.acknowledge(conn, 4));
}

/// The acknowledgement of a few bytes wakes nobody who waits to read.
#[test]
fn who_waits_for_room_hears_of_it_beside_one_who_reads() {
    let scene = Scene::new();
    let one = scene.connection();
    let len = fill(&scene, &one.1);
    std::thread::scope(|scope| {
        let writer = scene.watching(scope, &one.1, Readiness::OUT);
        let reader = scene.parked(scope, &one, || {});
        scene.engine.host(|host| host.acknowledge(one.0, len));
        let ready = writer.join().unwrap().unwrap();
        assert_eq!(ready, Readiness::OUT);
        scene.engine.host(|host| host.deliver(one.0, b"data"));
        assert_eq!(reader.join().unwrap().unwrap(), Readiness::IN);
    });
}

#[test]
fn so_does_who_comes_later_and_waits_for_several_things() {
    let scene = Scene::new();
    let (other, one) = (scene.connection(), scene.connection());
    let len = fill(&scene, &one.1);
    std::thread::scope(|scope| {
        let watcher = scene.watching(scope, &other.1, Readiness::IN);
        let reader = scene.parked(scope, &one, || {});

        // As poll does.
        let mut sleeper = scene.session.sleeper().unwrap();
        sleeper.arm();
        sleeper.hears_of(&one.1);
        assert!(!one.1.readiness().intersects(Readiness::OUT));
        scene.engine.host(|host| host.acknowledge(one.0, len / 2));
        let mut fds: Vec<_> = sleeper
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let limit = Timespec::try_from(HANG).unwrap();
        assert!(poll(&mut fds, Some(&limit)).unwrap() > 0, "nobody rings");
        sleeper.hears_no_more_of(&one.1);
        sleeper.disarm(true);
        // It may be the one that was rung: arming takes the news in, or waits for who does.
        sleeper.arm();
        assert!(one.1.readiness().intersects(Readiness::OUT));
        sleeper.disarm(false);

        // As epoll does.
        let len = len + fill(&scene, &one.1);
        let mut poller = Poller::new(&scene.session).unwrap();
        poller
            .add(Source::Socket(&one.1), KEY, Readiness::OUT)
            .unwrap();
        wakes(&scene, &mut poller, |host| host.acknowledge(one.0, len));

        scene.engine.host(|host| {
            host.deliver(one.0, b"data");
            host.deliver(other.0, b"data");
        });
        for thread in [watcher, reader] {
            assert!(thread.join().unwrap().is_ok());
        }
    });
}

/// It has looked for news, and not slept yet: what wakes it is not taken back by another who comes, takes the
/// news in, and waits for something else.
#[test]
fn one_that_is_about_to_sleep_misses_no_wake_up() {
    let scene = Scene::new();
    let (other, one) = (scene.connection(), scene.connection());
    std::thread::scope(|scope| {
        let watcher = scene.watching(scope, &other.1, Readiness::IN);
        let (is_about_to, about_to) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let slow = scene.parked(scope, &one, move || {
            is_about_to.send(()).unwrap();
            goes.recv().unwrap();
        });
        about_to.recv().unwrap();
        scene.engine.host(|host| host.deliver(one.0, b"news"));
        let (is_here, here) = mpsc::channel();
        let socket = &one.1;
        let patient = scope.spawn(move || {
            is_here.send(rustix::thread::gettid()).unwrap();
            wait(socket, Readiness::RDHUP)
        });
        let patients = here.recv().unwrap();
        scene.engine.until(|_| {
            let has_taken_in = one.1.readiness().intersects(Readiness::IN);
            (has_taken_in && is_asleep(patients)).then_some(())
        });
        go.send(()).unwrap();
        assert_eq!(slow.join().unwrap(), Ok(Readiness::IN));
        scene.engine.host(|host| {
            host.peer_closes(one.0);
            host.deliver(other.0, b"data");
        });
        for thread in [watcher, patient] {
            assert!(thread.join().unwrap().is_ok());
        }
    });
}

/// The same where both had been there before.
#[test]
fn who_goes_leaves_the_others_their_wake_up() {
    let scene = Scene::new();
    let (other, one) = (scene.connection(), scene.connection());
    std::thread::scope(|scope| {
        let watcher = scene.watching(scope, &other.1, Readiness::IN);
        let (is_about_to, about_to) = mpsc::channel();
        let pause = || {
            let (go, goes) = mpsc::channel::<()>();
            let is_about_to = is_about_to.clone();
            let before = move || {
                is_about_to.send(()).unwrap();
                goes.recv().unwrap();
            };
            (go, before)
        };
        let [(go_slow, slow), (go_quick, quick)] = [pause(), pause()];
        let slow = scene.parked(scope, &one, slow);
        about_to.recv().unwrap();
        let quick = scene.parked(scope, &one, quick);
        about_to.recv().unwrap();
        scene.engine.host(|host| host.deliver(one.0, b"news"));
        go_quick.send(()).unwrap();
        assert_eq!(quick.join().unwrap(), Ok(Readiness::IN));
        go_slow.send(()).unwrap();
        assert_eq!(slow.join().unwrap(), Ok(Readiness::IN));
        scene.engine.host(|host| host.deliver(other.0, b"data"));
        watcher.join().unwrap().unwrap();
    });
}

/// A handler runs as long as it likes: whoever else waits meanwhile is rung.
#[test]
fn one_that_is_interrupted_keeps_no_news_from_others() {
    let scene = Scene::new();
    let (other, one) = (scene.connection(), scene.connection());
    std::thread::scope(|scope| {
        let watcher = scene.watching(scope, &other.1, Readiness::IN);
        let (is_inside, inside) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let interrupted = reading(scope, &one.1, move || {
            host::interrupted();
            is_inside.send(()).unwrap();
            goes.recv().unwrap();
        });
        inside.recv().unwrap();
        assert!(!scene.engine.host(|host| host.is_parked(one.0)));
        let mut poller = Poller::new(&scene.session).unwrap();
        poller
            .add(Source::Socket(&one.1), KEY, Readiness::IN)
            .unwrap();
        for _ in 0..2 {
            wakes(&scene, &mut poller, |host| host.deliver(one.0, b"news"));
            assert_eq!(one.1.recv(&mut [0; 8]), Ok(4));
        }
        go.send(()).unwrap();
        // It is parked anew.
        scene.engine.await_parked(one.0);
        scene.engine.host(|host| {
            host.deliver(one.0, b"data");
            host.deliver(other.0, b"data");
        });
        for thread in [watcher, interrupted] {
            assert!(thread.join().unwrap().is_ok());
        }
    });
}
