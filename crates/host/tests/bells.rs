//! Whom the engine rings where threads of one process wait for different connections.

mod fake_engine;

use std::time::Duration;

use fake_engine::{Attached, FakeEngine, HANG, is_readable};
use host::{Listener, Poller, Readiness, Session, Sleeper, Socket, Source};
use queue_pair::{Completion, ConnRef, Sizes, Submission};

struct Scene {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
}

impl Scene {
    fn new() -> Self {
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

    /// A poller of what comes to a socket, whose bell is known: it has slept once, and news have come after that.
    fn poller(&self, conn: ConnRef, socket: &Socket) -> Poller {
        let mut poller = Poller::new(&self.session).unwrap();
        let wanted = Readiness::IN | Readiness::EDGE;
        poller.add(Source::Socket(socket), 1, wanted).unwrap();
        assert_eq!(sleeps(&mut poller), None);
        self.engine.host(|host| host.deliver(conn, b"first"));
        assert_eq!(wakes(&mut poller), [1]);
        poller
    }

    fn does<R>(&self, act: impl FnOnce(&mut Attached) -> R) -> R {
        self.engine.host(act)
    }
}

/// How long at most, as it says.
fn sleeps(poller: &mut Poller) -> Option<Duration> {
    poller.arm().unwrap()
}

fn is_rung(poller: &Poller) -> bool {
    is_readable(poller.fd())
}

fn is_called(sleeper: &Sleeper) -> bool {
    sleeper.fds().any(is_readable)
}

/// It is awake again, and is told of what has these keys.
fn wakes(poller: &mut Poller) -> Vec<u64> {
    poller.disarm();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    events.iter().map(|event| event.key).collect()
}

#[test]
fn news_ring_the_bell_of_their_own_set_alone() {
    let scene = Scene::new();
    let (one, socket) = scene.connection();
    let (two, other) = scene.connection();
    let mut first = scene.poller(one, &socket);
    let mut second = scene.poller(two, &other);
    for _ in 0..3 {
        sleeps(&mut first);
        sleeps(&mut second);
        scene.does(|host| host.deliver(two, b"more"));
        assert!(!is_rung(&first));
        assert!(is_rung(&second));
        assert_eq!(wakes(&mut second), [1]);
        scene.does(|host| host.deliver(one, b"more"));
        assert!(is_rung(&first));
        assert_eq!(wakes(&mut first), [1]);
    }
}

#[test]
fn what_is_added_to_a_second_set_rings_both() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut first = scene.poller(conn, &socket);
    let mut second = Poller::new(&scene.session).unwrap();
    sleeps(&mut second);
    wakes(&mut second);
    second
        .add(Source::Socket(&socket), 2, Readiness::IN | Readiness::EDGE)
        .unwrap();
    wakes(&mut second);
    sleeps(&mut first);
    sleeps(&mut second);
    scene.does(|host| host.deliver(conn, b"more"));
    assert!(is_rung(&first) && is_rung(&second));
    // Whoever is faster takes the news in for both.
    assert_eq!(wakes(&mut first), [1]);
    assert_eq!(wakes(&mut second), [2]);
}

/// For what was said before it was added only the first was rung, which may have taken it in.
#[test]
fn who_sleeps_already_is_called_for_what_is_added() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let _first = scene.poller(conn, &socket);
    let second = scene.session.ready_set();
    let mut sleeper = scene.session.sleeper().unwrap();
    sleeper.serves(&second);
    sleeper.arm();
    // Nothing is ready: it is called all the same.
    let wanted = Readiness::RDHUP | Readiness::EDGE;
    second.add(&socket, 2, wanted, 2).unwrap();
    assert!(is_called(&sleeper));
}

/// It goes from one set to another, in which a thread sleeps already: what came in between rang the bell of the first.
#[test]
fn who_sleeps_in_the_set_to_which_it_goes_is_called() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut first = scene.poller(conn, &socket);
    assert_eq!(socket.recv(&mut [0; 16]), Ok(5));
    let second = scene.session.ready_set();
    let mut sleeper = scene.session.sleeper().unwrap();
    sleeper.serves(&second);
    sleeper.arm();
    first.remove(Source::Socket(&socket), 1).unwrap();
    scene.does(|host| host.deliver(conn, b"more"));
    let wanted = Readiness::IN | Readiness::EDGE;
    second.add(&socket, 2, wanted, 2).unwrap();
    assert!(is_called(&sleeper));
    sleeper.disarm(true);
    scene.session.pump();
    let mut keys = Vec::new();
    second.collect(8, |event| keys.push(event.key));
    assert_eq!(keys, [2]);
}

#[test]
fn nobody_is_woken_for_what_nobody_waits_for_yet() {
    let scene = Scene::new();
    let (one, socket) = scene.connection();
    let mut first = scene.poller(one, &socket);
    let (conn, accepted) = scene.connection();
    let second = scene.session.ready_set();
    let mut sleeper = scene.session.sleeper().unwrap();
    sleeper.serves(&second);
    sleeper.arm();
    sleeps(&mut first);
    scene.does(|host| host.deliver(conn, b"request"));
    assert!(!is_rung(&first) && !is_called(&sleeper));
    // It goes to a set in which a thread sleeps, and that one is woken alone.
    let wanted = Readiness::IN | Readiness::EDGE;
    second.add(&accepted, 2, wanted, 2).unwrap();
    assert!(is_called(&sleeper) && !is_rung(&first));
    sleeper.disarm(true);
    scene.session.pump();
    let mut keys = Vec::new();
    second.collect(8, |event| keys.push(event.key));
    assert_eq!(keys, [2]);
}

#[test]
fn who_waits_for_what_nobody_has_waited_for_hears_of_what_came_before() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            // By a bell, as `poll` does for several.
            let mut sleeper = scene.session.sleeper().unwrap();
            sleeper.arm();
            scene.does(|host| host.deliver(conn, b"request"));
            sleeper.hears_of(&socket);
            let called = is_called(&sleeper);
            sleeper.hears_no_more_of(&socket);
            sleeper.disarm(true);
            called
        });
        assert!(waits.join().unwrap());
    });
}

#[test]
fn what_a_program_does_to_a_connection_wakes_who_waits_for_that_alone() {
    let scene = Scene::new();
    let (one, socket) = scene.connection();
    let (two, other) = scene.connection();
    let mut first = scene.poller(one, &socket);
    let mut second = scene.poller(two, &other);
    assert_eq!(other.recv(&mut [0; 16]), Ok(5));
    sleeps(&mut first);
    sleeps(&mut second);
    other.shutdown(host::Shutdown::Read).unwrap();
    assert!(is_rung(&second) && !is_rung(&first));
    assert_eq!(wakes(&mut second), [1]);
    sleeps(&mut second);
    second
        .modify(Source::Socket(&other), 1, Readiness::IN)
        .unwrap();
    assert!(is_rung(&second) && !is_rung(&first));
}

#[test]
fn a_new_connection_rings_the_bell_of_its_listeners_set_alone() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut other = scene.poller(conn, &socket);
    let mut accepts = Poller::new(&scene.session).unwrap();
    let source = Source::Listener(&scene.listener);
    accepts.add(source, 7, Readiness::IN).unwrap();
    // The bell is known once its thread has slept, and something has come.
    let offers = |accepts: &mut Poller, other: &mut Poller| {
        sleeps(accepts);
        sleeps(other);
        scene.does(|host| host.hand(1));
        let rung = [is_rung(accepts), is_rung(other)];
        wakes(other);
        assert_eq!(wakes(accepts), [7]);
        scene.listener.accept_offloaded().unwrap();
        rung
    };
    assert_eq!(offers(&mut accepts, &mut other), [true, true]);
    for _ in 0..3 {
        assert_eq!(offers(&mut accepts, &mut other), [true, false]);
    }
    // Somebody else waits, too: who it is the engine says to all when it hears of that.
    sleeps(&mut accepts);
    let source = Source::Listener(&scene.listener);
    other.add(source, 8, Readiness::IN).unwrap();
    scene.does(Attached::submissions);
    assert!(is_rung(&accepts));
    wakes(&mut accepts);
    assert_eq!(offers(&mut accepts, &mut other), [true, true]);
}

/// The engine ends a session that speaks of listeners it has closed.
#[test]
fn of_a_closed_listener_nothing_is_said_that_had_to_wait() {
    let sizes = Sizes {
        submission_entries: 2,
        ..Sizes::default()
    };
    let engine = FakeEngine::start_with(Some(sizes));
    let (session, listener) = engine.listening();
    let set = session.ready_set();
    for _ in 0..4 {
        set.add(&listener, 1, Readiness::IN, 1).unwrap();
        set.remove(&listener, 1).unwrap();
    }
    drop(listener);
    let is_of_it = |it: &Submission| {
        let Submission::Credit { listener, .. } = it else {
            return false;
        };
        *listener == 1
    };
    let posted = engine.host(Attached::submissions);
    assert_eq!(
        posted.iter().filter(|it| is_of_it(it)).count(),
        2,
        "{posted:?}"
    );
    // What could not be posted is, as soon as somebody looks around.
    let mut sleeper = session.sleeper().unwrap();
    sleeper.arm();
    let posted = engine.host(Attached::submissions);
    assert!(!posted.iter().any(is_of_it), "{posted:?}");
}

#[test]
fn who_waits_in_accept_is_rung_beside_a_set() {
    let scene = Scene::new();
    let mut poller = Poller::new(&scene.session).unwrap();
    let source = Source::Listener(&scene.listener);
    poller.add(source, 7, Readiness::IN).unwrap();
    sleeps(&mut poller);
    let first = scene.does(|host| host.hand(1));
    wakes(&mut poller);
    scene.listener.accept_offloaded().unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| scene.listener.wait(Some(HANG)));
        scene.engine.await_armed();
        // The poller's own thread is busy for as long as you like.
        let second = scene.does(|host| host.hand(1));
        assert_ne!(first, second);
        thread.join().unwrap().unwrap();
    });
}

#[test]
fn a_thread_that_waits_for_it_otherwise_is_rung_too() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut poller = scene.poller(conn, &socket);
    assert_eq!(socket.recv(&mut [0; 16]), Ok(5));
    std::thread::scope(|scope| {
        // The first thread that sleeps on a connection alone does so by a bell: it keeps watch.
        let thread = scope.spawn(|| socket.wait(Readiness::IN, Some(HANG)));
        scene.engine.await_armed();
        // The poller's own thread is busy for as long as you like.
        scene.does(|host| host.deliver(conn, b"more"));
        let ready = thread.join().unwrap().unwrap();
        assert!(ready.intersects(Readiness::IN));
    });
    assert_eq!(wakes(&mut poller), [1]);
}

#[test]
fn the_next_connection_in_a_place_has_no_bell_yet() {
    let scene = Scene::new();
    let (conn, socket) = scene.connection();
    let mut first = scene.poller(conn, &socket);
    drop(socket);
    let again = ConnRef {
        generation: conn.generation + 1,
        ..conn
    };
    scene.does(|host| {
        host.submissions();
        host.post(Completion::Released { conn });
        host.forget(conn);
        host.offer(1, again);
    });
    wakes(&mut first);
    let socket = scene.listener.accept_offloaded().unwrap();
    let mut second = Poller::new(&scene.session).unwrap();
    let wanted = Readiness::IN | Readiness::EDGE;
    second.add(Source::Socket(&socket), 2, wanted).unwrap();
    sleeps(&mut first);
    sleeps(&mut second);
    scene.does(|host| host.deliver(again, b"news"));
    assert!(is_rung(&second));
    assert_eq!(wakes(&mut second), [2]);
}
