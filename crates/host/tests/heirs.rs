//! Forks beside threads that wait for an engine which does not run: none waits for longer than anybody waits for that.

mod fake_engine;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG, is_asleep};
use host::{Errno, Listener, Readiness, Session, Socket};
use queue_pair::control::Request;
use queue_pair::{ConnRef, Submission};

/// A process that has come out of a fork with a connection, and has not attached.
struct Heir {
    engine: FakeEngine,
    session: Session,
    listener: Listener,
    conn: ConnRef,
    socket: Socket,
}

impl Heir {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        let (conn, socket) = engine.connection(&listener);
        let token = session.before_fork();
        session.after_fork_child(token);
        assert!(session.is_heir());
        Self {
            engine,
            session,
            listener,
            conn,
            socket,
        }
    }

    /// Whether the connection was lost.
    fn is_reset(&self) -> bool {
        self.session.attach_now();
        self.socket.take_error() == Some(Errno::CONNRESET)
    }
}

/// Runs `act` in a thread of its own, and returns when that has slept for a while.
fn sleeping<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    act: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = scope.spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        act()
    });
    let id = told.recv().unwrap();
    let mut looks = 0;
    while looks < 200 && !thread.is_finished() {
        looks = if is_asleep(id) { looks + 1 } else { 0 };
        std::thread::yield_now();
    }
    thread
}

/// It would wait for as long as the engine stands still.
#[test]
fn a_fork_does_not_wait_for_ever_for_one_who_comes_into_what_he_inherits() {
    let heir = Heir::new();
    let stopped = heir.engine.lock();
    std::thread::scope(|scope| {
        let waits = sleeping(scope, || heir.session.attach_now());
        let forks = scope.spawn(|| drop(heir.session.before_fork()));
        let begin = Instant::now();
        while !forks.is_finished() && begin.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(1));
        }
        let in_time = forks.is_finished();
        assert!(!waits.is_finished());
        drop(stopped);
        forks.join().unwrap();
        waits.join().unwrap();
        assert!(in_time, "it hangs");
    });
    // Who waited has what it waited for.
    assert!(heir.session.is_attached());
    assert!(!heir.is_reset());
    let told = |request: &Request| matches!(request, Request::Report { reason, .. } if reason.contains("did not run"));
    heir.engine
        .until(|inner| inner.requests.iter().any(told).then_some(()));
}

/// A program's thread waits for the engine with something locked that another takes in order to fork. `goes_on`: the engine
/// answers while that one waits for it.
fn forks_beside_one_who_has_locked_something(goes_on: bool) {
    let heir = Heir::new();
    let stopped = heir.engine.lock();
    let locked = Arc::new(Mutex::new(()));
    let id = {
        let (session, locked) = (heir.session.clone(), Arc::clone(&locked));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _locked = locked.lock();
            tell.send(rustix::thread::gettid()).unwrap();
            session.attach_now();
        });
        told.recv().unwrap()
    };
    while !is_asleep(id) {
        std::thread::yield_now();
    }
    let forks = {
        let session = heir.session.clone();
        // It would be waited for at the end of the test otherwise, and hang that.
        std::thread::spawn(move || {
            let calm = session.await_calm();
            drop(locked.lock());
            drop(session.before_fork());
            drop(calm);
        })
    };
    let mut stopped = Some(stopped);
    if goes_on {
        std::thread::sleep(Duration::from_millis(200));
        drop(stopped.take());
    }
    let begin = Instant::now();
    while !forks.is_finished() {
        assert!(begin.elapsed() < HANG, "they wait for each other");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stopped);
    // Nothing of it is lost.
    assert!(!heir.is_reset());
    assert!(heir.session.is_attached());
}

#[test]
fn a_fork_does_not_wait_for_ever_for_what_one_has_locked_who_gives_way_to_it() {
    forks_beside_one_who_has_locked_something(false);
}

#[test]
fn who_gives_way_to_a_fork_goes_on_when_that_has_come_into_what_they_inherit() {
    forks_beside_one_who_has_locked_something(true);
}

/// Before it forks it does what others have done in an epoll set, and may be about to show a listener to the engine.
#[test]
fn a_thread_does_not_wait_for_its_own_fork() {
    let heir = Heir::new();
    let stopped = heir.engine.lock();
    let session = heir.session.clone();
    let forks = std::thread::spawn(move || {
        let calm = session.await_calm();
        session.attach_now();
        drop(session.before_fork());
        drop(calm);
    });
    let begin = Instant::now();
    while !forks.is_finished() {
        assert!(begin.elapsed() < HANG, "it hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stopped);
    assert!(!heir.is_reset());
}

/// What it wanted is not forgotten.
#[test]
fn a_listener_that_is_wanted_before_a_fork_is_shown_when_the_engine_is_there() {
    let heir = Heir::new();
    let set = heir.session.ready_set();
    {
        let _stopped = heir.engine.lock();
        let calm = heir.session.await_calm();
        let _ = set.add(&heir.listener, 1, Readiness::IN, 1);
        drop(calm);
    }
    heir.session.attach_now();
    assert!(heir.session.is_attached());
    heir.engine.until(|inner| {
        let submissions = inner.attached.last_mut()?.submissions();
        let is_credit = |it: &Submission| matches!(it, Submission::Credit { total: 1.., .. });
        submissions.iter().any(is_credit).then_some(())
    });
}

/// Where a fork has waited in vain the engine was asked to attach already.
#[test]
fn who_closes_what_he_has_inherited_does_not_wait_for_the_engine() {
    let Heir {
        engine,
        session,
        listener: _listener,
        conn,
        socket,
    } = Heir::new();
    let stopped = engine.lock();
    drop(session.before_fork());
    let closes = std::thread::spawn(|| drop(socket));
    let begin = Instant::now();
    while !closes.is_finished() {
        assert!(begin.elapsed() < HANG, "it hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stopped);
    session.attach_now();
    engine.until(|inner| {
        let submissions = inner.attached.last_mut()?.side_submissions();
        let closes =
            |it: &Submission| matches!(it, Submission::Close { conn: it, .. } if *it == conn);
        submissions.iter().any(closes).then_some(())
    });
}

#[test]
fn the_child_of_a_fork_that_waited_in_vain_has_nothing_and_goes_on() {
    let heir = Heir::new();
    {
        let _stopped = heir.engine.lock();
        let begin = Instant::now();
        for _ in 0..20 {
            drop(heir.session.before_fork());
        }
        assert!(begin.elapsed() < HANG, "each of them waits");
        let token = heir.session.before_fork();
        heir.session.after_fork_child(token);
    }
    assert!(heir.is_reset());
    assert!(heir.session.is_attached(), "it has an engine all the same");
}

/// The engine would give a child a part of what is being claimed. So a fork waits for that; and those who claim then wait
/// for the fork, or it might never be its turn.
#[test]
fn a_fork_waits_for_no_claim_that_begins_later() {
    let engine = FakeEngine::start();
    let (session, _listener) = engine.listening();
    let mut stopped = engine.lock();
    stopped.ticketed = Some(ConnRef {
        index: 7,
        generation: 1,
    });
    let claim = || {
        let shown = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        session.claim(shown).map(drop)
    };
    std::thread::scope(|scope| {
        let first = sleeping(scope, claim);
        let forks = sleeping(scope, || drop(session.before_fork()));
        let second = sleeping(scope, claim);
        drop(stopped);
        assert_eq!(first.join().unwrap(), Ok(()));
        forks.join().unwrap();
        let _ = second.join().unwrap();
    });
    let requests = engine.lock().requests.clone();
    let claims_or_forks = |it: &&Request| matches!(it, Request::Claim | Request::Fork);
    let order: Vec<_> = requests.iter().filter(claims_or_forks).collect();
    assert_eq!(order, [&Request::Claim, &Request::Fork, &Request::Claim]);
}
