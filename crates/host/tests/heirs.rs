//! Forks beside threads that wait for an engine which does not run: none waits for longer than anybody waits for that.

mod fake_engine;

use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG, is_asleep};
use host::{Errno, Listener, Session, Socket};
use queue_pair::ConnRef;
use queue_pair::control::Request;

/// A process that has come out of a fork with a connection, and has not attached.
struct Heir {
    engine: FakeEngine,
    session: Session,
    _listener: Listener,
    socket: Socket,
}

impl Heir {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        let (_, socket) = engine.connection(&listener);
        let token = session.before_fork();
        session.after_fork_child(token);
        assert!(session.is_heir());
        Self {
            engine,
            session,
            _listener: listener,
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
