//! Listeners, and sessions that outlive their engine.

mod fake_engine;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG, Refused};
use host::{Accepted, Errno, Listener, Poller, Readiness, Session, Source};
use queue_pair::control::Request;
use queue_pair::{ConnRef, Submission};

const ANY_PORT: &str = "127.0.0.1:0";

/// A client of the kernel's listener that is ready to be accepted: to the client it may be
/// connected some time before.
fn connected(listener: &Listener) -> TcpStream {
    let client = TcpStream::connect(listener.local()).unwrap();
    listener.wait(Some(HANG)).unwrap();
    client
}

#[test]
fn without_an_engine_attaching_fails_as_connecting_does() {
    let path = std::env::temp_dir().join("outboard-nobody-there.sock");
    assert_eq!(Session::attach_at(&path, "test").err(), Some(Errno::NOENT));
}

#[test]
fn a_listener_without_an_engine_is_the_kernels_until_there_is_one() {
    let path = FakeEngine::start().die();
    let session = Session::unattached(&path, "test");
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    assert!(!listener.is_offloaded());
    let _client = connected(&listener);
    assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));

    let engine = FakeEngine::start_at(path, None);
    // Nothing but sleeping looks for it.
    is_taken(&listener);
    let inner = engine.lock();
    let listens = inner
        .requests
        .iter()
        .filter(|one| matches!(one, Request::Listen { .. }));
    assert_eq!(listens.count(), 1);
}

/// Sleeps until an engine has it.
fn is_taken(listener: &Listener) {
    let start = Instant::now();
    while !listener.is_offloaded() {
        let slept = listener.wait(Some(Duration::from_millis(100)));
        assert_eq!(slept, Err(Errno::TIMEDOUT));
        assert!(start.elapsed() < HANG, "no engine takes it");
    }
}

#[test]
fn a_listener_that_was_shown_to_an_engine_as_it_ended_is_the_next_ones() {
    // Killed before it has answered, and about to end.
    for refused in [Refused::ByHangingUp, Refused::With(Errno::AGAIN)] {
        let engine = FakeEngine::start();
        let session = engine.attach();
        engine.lock().listening = Some(refused);
        let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
        assert!(!listener.is_offloaded());
        let _client = connected(&listener);
        assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));

        let _next = FakeEngine::start_at(engine.die(), None);
        is_taken(&listener);
    }
}

#[test]
fn a_listener_is_shown_once_to_an_engine_that_is_attached_for_it() {
    let engine = FakeEngine::start();
    engine.lock().listening = Some(Refused::With(Errno::ACCESS));
    let session = Session::unattached(&engine.path, "test");
    let refused = session.listen(ANY_PORT.parse().unwrap(), 16).err();
    assert_eq!(refused, Some(Errno::ACCESS));
    let asked = engine.lock().requests.clone();
    let shown = |request: &&Request| matches!(request, Request::Listen { .. });
    assert_eq!(asked.iter().filter(shown).count(), 1, "{asked:?}");
}

#[test]
fn what_becomes_of_a_listener_is_told_to_each_engine() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.explain_as(6);
    let told = |engine: &FakeEngine, why: &str| {
        let line = Request::Report {
            fd: 6,
            kind: format!("listener {}", listener.local()),
            reason: why.to_owned(),
        };
        engine.until(|inner| inner.requests.contains(&line).then_some(()));
        let lines = |request: &&Request| matches!(request, Request::Report { .. });
        assert_eq!(engine.lock().requests.iter().filter(lines).count(), 1);
    };
    told(&engine, "");

    let engine = FakeEngine::start_at(engine.die(), None);
    engine.lock().listening = Some(Refused::With(Errno::ACCESS));
    let start = Instant::now();
    while engine.lock().requests.is_empty() {
        let slept = listener.wait(Some(Duration::from_millis(100)));
        assert_eq!(slept, Err(Errno::TIMEDOUT));
        assert!(start.elapsed() < HANG, "it is not looked for");
    }
    told(
        &engine,
        "the engine's configuration leaves it to the kernel",
    );

    let engine = FakeEngine::start_at(engine.die(), None);
    is_taken(&listener);
    told(&engine, "");
}

#[test]
fn credit_is_given_when_the_program_waits_and_renewed_as_it_accepts() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    assert_eq!(engine.host(|host| host.submissions()), []);
    assert!(matches!(listener.accept_offloaded(), Err(Errno::AGAIN)));
    let credit = |total, waits| Submission::Credit {
        listener: 1,
        total,
        waits,
    };
    assert_eq!(engine.host(|host| host.submissions()), [credit(32, true)]);

    engine.host(|host| (0..32).map(|_| host.hand(1)).count());
    let sockets: Vec<_> = (0..32)
        .map(|_| listener.accept_offloaded().unwrap())
        .collect();
    // Not every accept renews the credit, but some do before it runs out.
    let credits = engine.host(|host| host.submissions());
    assert_eq!(credits, [credit(48, false), credit(64, false)]);
    // That it has found nothing it says once.
    for _ in 0..3 {
        assert!(matches!(listener.accept_offloaded(), Err(Errno::AGAIN)));
    }
    let credits = engine.host(|host| host.submissions());
    assert_eq!(credits, [credit(64, true)]);
    drop(sockets);
}

#[test]
fn a_listener_in_no_set_any_more_wants_no_connections() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    let sets = [session.ready_set(), session.ready_set()];
    let credit = |total, waits| Submission::Credit {
        listener: 1,
        total,
        waits,
    };
    for set in &sets {
        set.add(&listener, 1, Readiness::IN, 0).unwrap();
    }
    assert_eq!(engine.host(|host| host.submissions()), [credit(32, true)]);
    engine.host(|host| host.hand(1));
    let _socket = listener.accept_offloaded().unwrap();
    engine.host(|host| host.submissions());
    sets[0].remove(&listener, 1).unwrap();
    assert_eq!(engine.host(|host| host.submissions()), [], "in another yet");
    sets[1].remove(&listener, 1).unwrap();
    assert_eq!(engine.host(|host| host.submissions()), [credit(1, false)]);
    // Until it asks.
    sets[0].add(&listener, 1, Readiness::IN, 0).unwrap();
    assert_eq!(engine.host(|host| host.submissions()), [credit(33, true)]);
}

#[test]
fn an_engine_that_offers_far_more_than_it_was_asked_for_is_none() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    for _ in 0..200 {
        engine.host(|host| host.hand(1));
        session.pump();
    }
    assert!(!session.is_attached());
    assert!(matches!(listener.accept_offloaded(), Err(Errno::AGAIN)));
}

#[test]
fn a_small_backlog_is_a_small_credit() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1).unwrap();
    listener.want();
    assert_eq!(
        engine.host(|host| host.submissions()),
        [Submission::Credit {
            listener: 1,
            total: 1,
            waits: true
        }]
    );
}

#[test]
fn a_closed_listener_gives_back_what_nobody_accepted() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.want();
    let conns = engine.host(|host| [host.hand(1), host.hand(1), host.hand(1)]);
    let taken = listener.accept_offloaded().unwrap();
    engine.host(|host| host.submissions());
    drop(listener);
    assert_eq!(
        engine.host(|host| host.submissions()),
        conns[1..]
            .iter()
            .map(|conn| Submission::GiveBack { conn: *conn })
            .collect::<Vec<_>>()
    );
    let unlisten = Request::Unlisten { listener: 1 };
    engine.until(|inner| (inner.requests.last() == Some(&unlisten)).then_some(()));
    // One that was handed over while the listener closed goes back as well.
    let late = engine.host(|host| host.hand(1));
    session.pump();
    assert_eq!(
        engine.host(|host| host.submissions()),
        [Submission::GiveBack { conn: late }]
    );
    drop(taken);
}

#[test]
fn an_offer_that_the_engine_takes_back_is_not_accepted() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    let conns = engine.host(|host| [host.hand(1), host.hand(1), host.hand(1)]);
    session.pump();
    // Of one it is told at once, of the other while it accepts.
    assert!(engine.host(|host| host.retract(conns[0])));
    session.pump();
    let accepted = listener.accept_offloaded().unwrap();
    assert!(
        !engine.host(|host| host.retract(conns[1])),
        "it is accepted"
    );
    engine.host(|host| {
        assert!(host.retract_untold(conns[2]));
    });
    assert!(matches!(listener.accept_offloaded(), Err(Errno::AGAIN)));
    assert!(!listener.readiness().intersects(Readiness::IN));
    // What it was offered and did not get used up credit.
    engine.host(|host| host.submissions());
    let more = 32 - 16;
    for _ in 0..more {
        engine.host(|host| host.hand(1));
        listener.accept_offloaded().unwrap();
    }
    let credit = engine
        .host(|host| host.submissions())
        .into_iter()
        .find_map(|one| match one {
            Submission::Credit { total, .. } => Some(total),
            _ => None,
        });
    assert_eq!(credit, Some(16 + 32));
    drop(accepted);
}

/// The engine has taken an offer back and makes another in its place, of which the process has not
/// read when it accepts.
#[test]
fn an_offer_that_is_over_is_not_taken_for_the_next_in_its_place() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    let over = engine.host(|host| host.hand(1));
    session.pump();
    let next = ConnRef {
        generation: over.generation + 1,
        ..over
    };
    engine.host(|host| {
        assert!(host.retract(over));
        host.offer(1, next);
    });
    assert!(
        matches!(listener.accept_offloaded(), Err(Errno::AGAIN)),
        "it knows of the first alone"
    );
    let socket = listener.accept_offloaded().unwrap();
    engine.host(|host| host.submissions());
    drop(socket);
    let closed = engine.host(|host| host.submissions());
    assert!(
        matches!(closed[..], [Submission::Close { conn, .. }] if conn == next),
        "{closed:?}"
    );
}

#[test]
fn offers_that_were_all_taken_back_leave_credit_for_others() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    let conns: Vec<_> = engine.host(|host| (0..32).map(|_| host.hand(1)).collect());
    session.pump();
    engine.host(|host| host.submissions());
    assert!(
        conns
            .iter()
            .all(|conn| engine.host(|host| host.retract(*conn)))
    );
    session.pump();
    // Without an accept: it sleeps on, and nobody tells it anything.
    let total = engine
        .host(|host| host.submissions())
        .into_iter()
        .filter_map(|one| match one {
            Submission::Credit { total, .. } => Some(total),
            _ => None,
        })
        .max();
    assert!(total.is_some_and(|total| total > 32), "{total:?}");
}

#[test]
fn an_offer_that_failed_and_was_taken_back_is_not_accepted() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    let conn = engine.host(|host| host.hand(1));
    engine.host(|host| {
        host.post(queue_pair::Completion::Failed { conn, errno: 104 });
    });
    session.pump();
    engine.host(|host| {
        assert!(host.retract_untold(conn));
        host.submissions();
    });
    assert!(matches!(listener.accept_offloaded(), Err(Errno::AGAIN)));
    drop(listener);
    let said = engine.host(|host| host.submissions());
    let closes = |one: &Submission| matches!(one, Submission::Close { .. });
    assert!(!said.iter().any(closes), "{said:?}");
}

#[test]
fn accepting_takes_from_engine_and_kernel() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 1000).unwrap();
    listener.want();
    let _client = connected(&listener);
    engine.host(|host| (0..40).map(|_| host.hand(1)).count());
    // The engine's come first, but the kernel's is not left waiting for good.
    let kinds: Vec<bool> = (0..41)
        .map(|_| matches!(listener.accept().unwrap(), Accepted::Kernel(_)))
        .collect();
    assert!(!kinds[0]);
    assert_eq!(kinds.iter().filter(|kernel| **kernel).count(), 1);
    assert!(!kinds[40]);
    assert!(matches!(listener.accept(), Err(Errno::AGAIN)));
}

#[test]
fn what_a_listener_has_set_its_connections_have() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.set_option(host::OptionKind::NoDelay, 1).unwrap();
    listener.want();
    let conn = engine.host(|host| host.hand(1));
    let socket = listener.accept_offloaded().unwrap();
    assert_eq!(socket.option(host::OptionKind::NoDelay), Some(1));
    let option = host::OptionKind::NoDelay;
    assert!(
        engine
            .host(|host| host.submissions())
            .contains(&Submission::SetOption {
                conn,
                option,
                value: 1
            })
    );
}

#[test]
fn something_that_does_not_listen_is_refused() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    );
    assert_eq!(
        session.listen_on(socket.unwrap(), 16).err(),
        Some(Errno::INVAL)
    );
}

#[test]
fn when_the_engine_dies_connections_fail_and_the_next_engine_takes_the_port_up() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    let mut poller = Poller::new(&session).unwrap();
    poller
        .add(Source::Listener(&listener), 1, Readiness::IN)
        .unwrap();
    let conn = engine.host(|host| host.hand(1));
    let mut events = Vec::new();
    poller.wait(&mut events, Some(HANG)).unwrap();
    let socket = listener.accept_offloaded().unwrap();
    poller
        .add(Source::Socket(&socket), 2, Readiness::IN | Readiness::EDGE)
        .unwrap();
    engine.host(|host| host.deliver(conn, b"still here"));
    poller.wait(&mut events, Some(HANG)).unwrap();

    // It dies while a thread sleeps in the poller, and another one on the socket.
    let mut out = [0; 10];
    assert_eq!(socket.recv(&mut out), Ok(10));
    let path = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| socket.wait(Readiness::ERR, Some(HANG)));
        let death = scope.spawn(|| engine.die());
        poller.wait(&mut events, Some(HANG)).unwrap();
        assert!(blocked.join().unwrap().unwrap().intersects(Readiness::ERR));
        death.join().unwrap()
    });
    assert_eq!(
        events.iter().map(|event| event.key).collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(socket.recv(&mut out), Err(Errno::CONNRESET));
    assert_eq!(socket.send(b"x", false), Err(Errno::PIPE));
    drop(socket);

    // Meanwhile the kernel serves.
    let _client = TcpStream::connect(listener.local()).unwrap();
    poller.wait(&mut events, Some(HANG)).unwrap();
    assert_eq!(
        events.iter().map(|event| event.key).collect::<Vec<_>>(),
        [1]
    );
    assert!(matches!(listener.accept(), Ok(Accepted::Kernel(_))));

    // And the next engine is found by the program's sleeping alone.
    let engine = FakeEngine::start_at(path, None);
    let start = Instant::now();
    while !listener.is_offloaded() {
        poller
            .wait(&mut events, Some(Duration::from_millis(50)))
            .unwrap();
        assert!(start.elapsed() < HANG);
    }
    // It has the credit of a program that waits.
    assert_eq!(
        engine.host(|host| host.submissions()),
        [Submission::Credit {
            listener: 1,
            total: 16,
            waits: true
        }]
    );
    std::thread::scope(|scope| {
        scope.spawn(|| engine.host(|host| host.hand(1)));
        while !listener.readiness().intersects(Readiness::IN) {
            poller.wait(&mut events, Some(HANG)).unwrap();
        }
    });
    assert!(matches!(listener.accept(), Ok(Accepted::Offloaded(_))));
}

#[test]
fn a_session_that_nobody_uses_any_more_ends() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = session.listen(ANY_PORT.parse().unwrap(), 16).unwrap();
    listener.want();
    engine.host(|host| host.hand(1));
    let socket = listener.accept_offloaded().unwrap();
    drop(session);
    assert_eq!(socket.recv(&mut [0; 1]), Err(Errno::CONNRESET));
}
