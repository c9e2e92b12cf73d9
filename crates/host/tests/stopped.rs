//! An engine that does not run for a while, as one that is stopped by a signal: a program does what it can
//! without, keeps what it has, and goes on with the engine when that does.

mod fake_engine;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, GRANT, HANG, is_asleep};
use host::{Accepted, ConnectOptions, Errno, Listener, Poller, Readiness, Session, Socket, Source};
use queue_pair::control::{AdmissionLimit, AdmissionPolicy, Request};
use queue_pair::{Completion, ConnRef, Submission};
use rustix::event::{PollFd, PollFlags, Timespec};

const ANY_PORT: &str = "127.0.0.1:0";

#[test]
fn a_listener_that_was_shown_in_vain_is_the_engines_when_it_runs() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = {
        // It answers nobody while this is locked.
        let _stopped = engine.lock();
        let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
        assert!(!listener.is_offloaded());
        listener.explain_as(6);
        let _client = TcpStream::connect(listener.local()).unwrap();
        listener.wait(Some(HANG)).unwrap();
        assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));
        // Who asks again does not wait again, which would be for a minute.
        let begin = Instant::now();
        for _ in 0..120 {
            drop(session.listen(ANY_PORT.parse().unwrap(), 16));
        }
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it waits each time"
        );
        listener
    };
    let start = Instant::now();
    while !listener.is_offloaded() {
        let slept = listener.wait(Some(Duration::from_millis(100)));
        assert_eq!(slept, Err(Errno::TIMEDOUT));
        assert!(start.elapsed() < HANG);
    }
    // It is said after it is so, which may be by another thread.
    let is_report = |request: &Request| matches!(request, Request::Report { .. });
    while !engine.lock().requests.iter().any(is_report) {
        assert!(start.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(1));
    }
    let inner = engine.lock();
    let unlistened = |request: &Request| *request == Request::Unlisten { listener: 1 };
    assert!(
        inner.requests.iter().any(unlistened),
        "{:?}",
        inner.requests
    );
    let listens = |request: &&Request| matches!(request, Request::Listen { .. });
    assert_eq!(inner.requests.iter().filter(listens).count(), 2);
    // Nothing is said of it that holds no more.
    let told = inner.requests.iter().filter_map(|request| match request {
        Request::Report { fd, reason, .. } => Some((*fd, reason.as_str())),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(6, "")]);
}

#[test]
fn who_closes_a_listener_waits_for_no_answer() {
    let engine = FakeEngine::start();
    let (session, listener) = engine.listening();
    {
        // It answers nobody while this is locked.
        let _stopped = engine.lock();
        drop(listener);
        // It would be the kernel's if an engine had been waited for in vain.
        let remote = "192.0.2.9:7".parse().unwrap();
        let opened = session.connect(remote, ConnectOptions::default());
        assert!(opened.is_ok(), "{:?}", opened.err());
    }
    let unlisten = Request::Unlisten { listener: 1 };
    engine.until(|inner| inner.requests.contains(&unlisten).then_some(()));
}

#[test]
fn a_connection_outlives_the_time_without_an_answer() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.want();
    let conn = engine.host(|host| host.hand(1));
    let socket = listener.accept_offloaded().unwrap();
    {
        let _stopped = engine.lock();
        assert_eq!(socket.info().err(), Some(Errno::TIMEDOUT));
        assert_eq!(socket.info().err(), Some(Errno::TIMEDOUT));
    }
    assert!(session.is_attached());
    engine.host(|host| host.deliver(conn, b"still here"));
    let mut bytes = [0; 16];
    let read = loop {
        match socket.recv(&mut bytes) {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            read => break read,
        }
    };
    assert_eq!(read, Ok(10));
    assert_eq!(&bytes[..10], b"still here");
    // The answer that came late is not taken for this one.
    let start = Instant::now();
    let answered = loop {
        match socket.info().err() {
            Some(Errno::TIMEDOUT) if start.elapsed() < HANG => {}
            other => break other,
        }
    };
    assert_eq!(answered, Some(Errno::OPNOTSUPP));
}

#[test]
fn a_fork_that_the_engine_hears_of_late_leaves_nothing() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let _listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    {
        let _stopped = engine.lock();
        drop(session.before_fork());
    }
    assert!(session.is_attached());
    let mut sleeper = session.sleeper().unwrap();
    engine.until(|inner| (!inner.lifelines.is_empty()).then_some(()));
    let gone = || {
        let lifeline = &engine.lock().lifelines[0];
        let mut polls = [PollFd::new(lifeline, PollFlags::IN)];
        let now = Timespec::default();
        rustix::event::poll(&mut polls, Some(&now)) == Ok(1)
    };
    let start = Instant::now();
    while !gone() {
        sleeper.arm();
        sleeper.disarm(false);
        assert!(start.elapsed() < HANG, "the references are kept");
    }
}

#[test]
fn what_a_parent_has_stays_as_it_was_at_a_fork_until_the_engine_hears_of_it() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.want();
    let [conn, later] = [(); 2].map(|()| engine.host(|host| host.hand(1)));
    let socket = listener.accept_offloaded().unwrap();
    engine.host(|host| host.submissions());
    let took = {
        let _stopped = engine.lock();
        let begin = Instant::now();
        for _ in 0..6 {
            drop(session.before_fork());
        }
        begin.elapsed()
    };
    assert!(took < Duration::from_secs(5), "each of them waits");
    // The engine has answered by now, and this process has not looked.
    engine.until(|inner| (inner.lifelines.len() == 6).then_some(()));
    assert_eq!(listener.accept_offloaded().err(), Some(Errno::AGAIN));
    assert_eq!(socket.send(b"later", false), Err(Errno::AGAIN));
    drop(socket);
    assert_eq!(engine.host(|host| host.submissions()), []);
    session.pump();
    let told = engine.host(|host| host.submissions());
    let closes = |one: &&Submission| matches!(one, Submission::Close { .. });
    assert_eq!(told.iter().filter(closes).count(), 1, "{told:?}");
    assert!(listener.readiness().intersects(Readiness::IN));
    assert!(listener.accept_offloaded().is_ok());
    assert_ne!(conn, later);
}

#[test]
fn a_thread_that_asked_for_a_bell_in_vain_has_one_later() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let mut sleepers = [session.sleeper().unwrap(), session.sleeper().unwrap()];
    {
        let _stopped = engine.lock();
        sleepers.iter_mut().for_each(host::Sleeper::arm);
        let bells = sleepers.each_ref().map(|sleeper| sleeper.fds().count());
        assert_eq!(bells, [2, 1], "one there was, beside those of the process");
    }
    let start = Instant::now();
    let epoch = sleepers[1].epoch();
    while sleepers[1].fds().count() != 2 {
        sleepers[1].disarm(false);
        sleepers[1].arm();
        assert!(start.elapsed() < HANG);
    }
    assert_ne!(sleepers[1].epoch(), epoch, "it is to be registered");
    let asked = |request: &&Request| matches!(request, Request::Waker);
    let asked = engine.lock().requests.iter().filter(asked).count();
    assert_eq!(asked, 1, "what comes late is used");
}

#[test]
fn a_policy_that_was_told_in_vain_holds_later() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    let policy = AdmissionPolicy {
        reset: true,
        all: AdmissionLimit {
            per_second: 7,
            ..AdmissionLimit::default()
        },
        ..AdmissionPolicy::default()
    };
    {
        let _stopped = engine.lock();
        assert_eq!(listener.set_admission(policy), Ok(false));
    }
    let start = Instant::now();
    while !listener.keeps_admission() {
        let slept = listener.wait(Some(Duration::from_millis(10)));
        assert_eq!(slept, Err(Errno::TIMEDOUT));
        assert!(start.elapsed() < HANG);
    }
}

/// A connection that another process may have, too, of which five bytes wait at the engine.
fn shared(engine: &FakeEngine, session: &Session) -> (Listener, Socket, ConnRef) {
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.want();
    let conn = engine.host(|host| host.hand(1));
    let socket = listener.accept_offloaded().unwrap();
    drop(session.before_fork());
    engine.host(|host| {
        host.revoke(conn);
        host.post(Completion::Elsewhere {
            conn,
            unread: 5,
            received: 5,
            acked: 0,
            peer_closed: false,
        });
    });
    session.pump();
    (listener, socket, conn)
}

#[test]
fn who_asks_in_vain_to_read_is_told_when_the_engine_runs() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let (_listener, socket, conn) = shared(&engine, &session);
    assert!(socket.readiness().intersects(Readiness::IN));
    let begin = Instant::now();
    assert_eq!(socket.recv(&mut [0; 9]), Err(Errno::AGAIN));
    assert!(
        begin.elapsed() < HANG,
        "an event loop has other things to do"
    );
    // Whoever waits does so until it runs, and nothing turns in circles.
    assert!(!socket.readiness().intersects(Readiness::IN));
    assert_eq!(socket.available(), 0);
    assert_eq!(socket.recv(&mut [0; 9]), Err(Errno::AGAIN));
    let wait = Some(Duration::from_millis(50));
    assert_eq!(socket.wait(Readiness::IN, wait), Err(Errno::TIMEDOUT));
    assert!(session.is_attached(), "it is as good as before");
    let asked = engine.host(|host| host.submissions());
    let acquire = Submission::Acquire { conn };
    assert_eq!(asked.iter().filter(|one| **one == acquire).count(), 1);
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            socket.wait(Readiness::IN, Some(HANG))?;
            let mut bytes = [0; 9];
            socket.recv(&mut bytes).map(|read| bytes[..read].to_vec())
        });
        engine.await_armed();
        engine.host(|host| {
            host.begin_grant(conn, GRANT + 1, 0);
            host.post(Completion::Granted {
                conn,
                grant: GRANT + 1,
                consumed: 0,
                alone_since: None,
            });
            host.deliver(conn, b"hello");
        });
        assert_eq!(reads.join().unwrap().as_deref(), Ok(&b"hello"[..]));
    });
}

#[test]
fn who_asks_in_vain_to_read_asks_again_after_a_late_no() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let (_listener, socket, conn) = shared(&engine, &session);
    assert_eq!(socket.recv(&mut [0; 9]), Err(Errno::AGAIN));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| socket.wait(Readiness::IN, Some(HANG)));
        engine.await_armed();
        let errno = Errno::AGAIN.raw_os_error() as u16;
        engine.host(|host| host.post(Completion::NotGranted { conn, errno }));
        assert!(waits.join().unwrap().is_ok());
    });
}

/// Who asked takes the answer in, and looks no more: nobody else is rung for that, but whoever sleeps looks from then on.
#[test]
fn who_sleeps_already_is_told_after_another_was_refused() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let (_listener, socket, conn) = shared(&engine, &session);
    assert_eq!(socket.recv(&mut [0; 9]), Err(Errno::AGAIN));
    let mut poller = Poller::new(&session).unwrap();
    poller
        .add(Source::Socket(&socket), 5, Readiness::IN)
        .unwrap();
    std::thread::scope(|scope| {
        let (is_here, here) = std::sync::mpsc::channel();
        let sleeper = scope.spawn(move || {
            is_here.send(rustix::thread::gettid()).unwrap();
            let mut events = Vec::new();
            let begin = Instant::now();
            poller.wait(&mut events, Some(HANG)).unwrap();
            (begin.elapsed() < HANG).then(|| events[0].readiness)
        });
        engine.await_asleep(here.recv().unwrap());
        engine.host(|host| host.refuses_quietly(conn));
        session.pump();
        let told = sleeper.join().unwrap().expect("it slept on");
        assert!(told.intersects(Readiness::IN));
    });
}

#[test]
fn an_error_is_reported_while_the_engine_does_not_run() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let (_listener, socket, conn) = shared(&engine, &session);
    let errno = Errno::CONNRESET.raw_os_error() as u16;
    engine.host(|host| {
        host.post(Completion::Elsewhere {
            conn,
            unread: 0,
            received: 5,
            acked: 0,
            peer_closed: false,
        });
        host.post(Completion::Failed { conn, errno });
    });
    session.pump();
    assert_eq!(socket.recv(&mut [0; 9]), Err(Errno::CONNRESET));
    assert_eq!(socket.recv(&mut [0; 9]), Ok(0));
    session.pump();
    assert!(session.is_attached(), "it is as good as before");
}

/// One that has come and does not run, which nobody can know who looks for one.
#[test]
fn who_does_not_wait_does_not_wait_for_an_engine_either() {
    let path = std::env::temp_dir().join(format!("outboard-late-{}.sock", std::process::id()));
    let session = Session::unattached(&path, "test");
    let mut poller = Poller::new(&session).unwrap();
    let engine = FakeEngine::start_at(path, None);
    let mut events = Vec::new();
    {
        // It answers nobody while this is locked.
        let _stopped = engine.lock();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(poller.arm().unwrap().is_some(), "it looks again");
        poller.disarm();
        assert!(!session.is_attached());
    }
    let start = Instant::now();
    while !session.is_attached() {
        assert!(start.elapsed() < HANG, "it never attaches");
        poller
            .wait(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
    }
    // Who had waited in vain would have asked twice.
    let attached = engine.lock().attached.len();
    assert_eq!(attached, 1);
}

/// Nor does one who looks while another thread waits.
#[test]
fn who_does_not_wait_does_not_wait_for_one_who_does() {
    let path = std::env::temp_dir().join(format!("outboard-slow-{}.sock", std::process::id()));
    let session = Session::unattached(&path, "test");
    let mut poller = Poller::new(&session).unwrap();
    let engine = FakeEngine::start_at(path, None);
    let _stopped = engine.lock();
    let (waits, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waits.store(true, Ordering::Relaxed);
            session.attach_now();
            is_over.store(true, Ordering::Relaxed);
        });
        while !waits.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut looks = 0;
        let mut events = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert!(!session.is_attached());
            looks += 1;
        }
        // It waits for half a second.
        assert!(looks > 20, "{looks}");
    });
}

/// The thread that waits is not there in the child: what it had locked would be so for ever.
#[test]
fn a_fork_waits_until_one_who_waits_for_the_engine_has_let_go() {
    let path = std::env::temp_dir().join(format!("outboard-fork-{}.sock", std::process::id()));
    let session = Session::unattached(&path, "test");
    let engine = FakeEngine::start_at(path, None);
    let stopped = engine.lock();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let other = session.clone();
        let waits = scope.spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            other.attach_now();
        });
        sleeps_for_long(told.recv().unwrap());
        let token = session.before_fork();
        // One that waits still has an answer now.
        drop(stopped);
        drop(token);
        waits.join().unwrap();
        assert!(!session.is_attached());
    });
}

/// Nor does it keep from others what they need meanwhile, or a core.
#[test]
fn a_fork_sleeps_while_another_waits_for_an_answer() {
    let engine = FakeEngine::start();
    let (session, listener) = engine.listening();
    let (conn, _socket) = engine.connection(&listener);
    let mut stopped = engine.lock();
    stopped.ticketed = Some(conn);
    let shown = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let is_here = tell.clone();
        let session = &session;
        let claims = scope.spawn(move || {
            is_here.send(rustix::thread::gettid()).unwrap();
            let _ = session.claim(shown);
        });
        sleeps_for_long(told.recv().unwrap());
        let forks = scope.spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            drop(session.before_fork());
        });
        let thread = told.recv().unwrap();
        let looks = (0..300).map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            is_asleep(thread)
        });
        let asleep = looks.filter(|sleeps| *sleeps).count();
        assert!(!forks.is_finished());
        drop(stopped);
        claims.join().unwrap();
        forks.join().unwrap();
        // One that wants the core is not asleep, whether or not it has it.
        assert!(asleep > 40, "{asleep} of 300");
    });
}

/// Returns when a thread sleeps, and has for a while.
fn sleeps_for_long(thread: rustix::process::Pid) {
    let mut looks = 0;
    while looks < 200 {
        looks = if is_asleep(thread) { looks + 1 } else { 0 };
        std::thread::yield_now();
    }
}

/// A claim that came to nothing in time, and what the engine is asked and told when it runs again. The ticket's is a
/// connection that this process has besides.
fn given_up_by(engine: &FakeEngine) -> (Session, Listener, Socket) {
    let (session, listener) = engine.listening();
    let (conn, socket) = engine.connection(&listener);
    let mut stopped = engine.lock();
    stopped.ticketed = Some(conn);
    let shown = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    assert_eq!(session.claim(shown).err(), Some(Errno::TIMEDOUT));
    drop(stopped);
    (session, listener, socket)
}

/// Takes in what has come late: nothing that this process has ends by that.
fn keeps_what_it_has(engine: &FakeEngine, session: &Session) {
    let start = Instant::now();
    // What is asked now is answered behind it.
    let is_answered = || {
        let another = session.listen(ANY_PORT.parse().unwrap(), 16);
        another.is_ok_and(|listener| listener.is_offloaded())
    };
    while !is_answered() {
        assert!(start.elapsed() < HANG);
    }
    let said = engine.host(|host| host.submissions());
    let closes = |said: &Submission| matches!(said, Submission::Close { .. });
    assert!(!said.iter().any(closes), "{said:?}");
}

#[test]
fn a_claim_that_is_not_answered_in_time_is_given_up_by_one_who_never_looks_again() {
    let engine = FakeEngine::start();
    let (session, _listener, _socket) = given_up_by(&engine);
    engine.until(|inner| inner.requests.contains(&Request::Disclaim).then_some(()));
    let asked = engine.lock().requests.clone();
    let at = |one: &Request| asked.iter().position(|request| request == one);
    assert_eq!(at(&Request::Disclaim), at(&Request::Claim).map(|at| at + 1));
    keeps_what_it_has(&engine, &session);
}

#[test]
fn what_an_engine_of_before_answers_late_ends_nothing_that_this_process_has() {
    let engine = FakeEngine::start();
    engine.lock().version = Some(15);
    let (session, _listener, _socket) = given_up_by(&engine);
    keeps_what_it_has(&engine, &session);
    assert!(!engine.lock().requests.contains(&Request::Disclaim));
}

/// What is claimed of an engine that runs again after so long comes. `first` is done while it does not run.
fn claims_late(engine: &FakeEngine, session: &Session, after: Duration, first: impl FnOnce()) {
    claims_late_beside(engine, session, after, first, || {});
}

/// The same; another thread does `meanwhile`, and is done before the engine runs.
fn claims_late_beside(
    engine: &FakeEngine,
    session: &Session,
    after: Duration,
    first: impl FnOnce(),
    meanwhile: impl FnOnce(),
) {
    let other = ConnRef {
        index: 7,
        generation: 1,
    };
    let shown = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let mut stopped = engine.lock();
    stopped.ticketed = Some(other);
    first();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let claims = scope.spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            session.claim(shown).map(|(socket, _)| socket)
        });
        sleeps_for_long(told.recv().unwrap());
        meanwhile();
        std::thread::sleep(after);
        drop(stopped);
        let claimed = claims.join().unwrap();
        assert_eq!(claimed.map(|socket| socket.is_connected()).err(), None);
    });
}

/// Longer than one waits where the kernel can do instead.
const LONGER: Duration = Duration::from_secs(1);

/// As one that was executed with it: what it claims the kernel does not have.
#[test]
fn who_attaches_for_a_claim_waits_for_the_engine_as_for_the_answer() {
    let engine = FakeEngine::start();
    let session = Session::unattached(&engine.path, "test");
    claims_late(&engine, &session, LONGER, || {});
}

#[test]
fn who_claims_waits_though_another_has_waited_for_less() {
    let engine = FakeEngine::start();
    let session = Session::unattached(&engine.path, "test");
    claims_late(&engine, &session, LONGER, || {
        session.attach_now();
        assert!(!session.is_attached());
    });
}

#[test]
fn who_sleeps_does_not_wait_for_one_who_claims() {
    let engine = FakeEngine::start();
    let (session, _listener) = engine.listening();
    // The second has no bell yet, and is to ask for one.
    let mut sleepers = [session.sleeper().unwrap(), session.sleeper().unwrap()];
    let sleep = || {
        for _ in 0..100 {
            sleepers.iter_mut().for_each(host::Sleeper::arm);
            sleepers.iter_mut().for_each(|it| it.disarm(false));
        }
    };
    claims_late_beside(&engine, &session, LONGER, || {}, sleep);
}

/// It has listeners alone, for which it would wait for two seconds.
#[test]
fn the_child_of_a_fork_waits_for_what_it_claims_as_others_do() {
    let engine = FakeEngine::start();
    let (session, _listener) = engine.listening();
    let token = session.before_fork();
    session.after_fork_child(token);
    assert!(session.is_heir());
    claims_late(&engine, &session, 3 * LONGER, || {});
}
