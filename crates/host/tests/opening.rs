//! What a program asks its engine about a connection that is being opened.

mod fake_engine;

use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, GRANT, HANG, LOCAL};
use host::{ConnectOptions, OptionKind, Session, Socket};
use queue_pair::{Completion, ConnRef, Submission, Versions};

/// A program that opens a connection, with an engine of that version, and the token of its request.
fn opening(version: u32) -> (FakeEngine, Session, Socket, u64) {
    let engine = FakeEngine::start();
    {
        let mut inner = engine.lock();
        (inner.version, inner.local) = (Some(version), true);
    }
    let session = engine.attach();
    let remote = "127.0.0.1:7".parse().unwrap();
    let socket = session.connect(remote, ConnectOptions::default()).unwrap();
    let token = engine.host(|host| match host.side_submissions()[..] {
        [Submission::Connect { token, .. }] => token,
        ref other => panic!("{other:?}"),
    });
    (engine, session, socket, token)
}

#[test]
fn the_engine_hears_that_it_is_not_wanted_any_more() {
    let newest = Versions::SPOKEN.newest;
    let (engine, _session, socket, token) = opening(newest);
    drop(socket);
    let asked = engine.host(|host| host.side_submissions());
    assert_eq!(asked, [Submission::Cancel { token }]);
    let (engine, _session, socket, _) = opening(12);
    drop(socket);
    assert_eq!(engine.host(|host| host.side_submissions()), []);
}

#[test]
fn its_end_is_known_before_it_is_there() {
    let (engine, _session, socket, token) = opening(Versions::SPOKEN.newest);
    let local = "127.0.0.1:4000".parse().unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| socket.await_local(HANG));
        let asked = engine.until(|inner| {
            let asked = inner.attached[0].side_submissions();
            (!asked.is_empty()).then_some(asked)
        });
        assert_eq!(asked, [Submission::AskLocal { token }]);
        engine.host(|host| host.post(Completion::Local { token, local }));
        assert_eq!(asks.join().unwrap(), local);
    });
    // Who knows it does not ask.
    assert_eq!(socket.await_local(HANG), local);
    assert_eq!(engine.host(|host| host.side_submissions()), []);
}

#[test]
fn who_has_asked_meanwhile_what_leaves_is_told_when_it_is_open() {
    let (engine, session, socket, token) = opening(Versions::SPOKEN.newest);
    socket.set_option(OptionKind::NotSentLow, 10_000).unwrap();
    socket.tell_when_departed(Some(1));
    let conn = ConnRef {
        index: 3,
        generation: 1,
    };
    engine.host(|host| {
        host.post(Completion::Opened {
            token,
            conn,
            grant: GRANT,
            local: LOCAL.parse().unwrap(),
        });
    });
    session.pump();
    let posted = engine.host(|host| host.submissions());
    let mut values = posted.iter().filter_map(|it| match it {
        Submission::SetOption { option, value, .. } => Some((*option, *value)),
        _ => None,
    });
    assert_eq!(
        values.next_back(),
        Some((OptionKind::NotSentLow, 1)),
        "{posted:?}"
    );
}

#[test]
fn an_older_engine_is_not_waited_for() {
    let (_engine, _session, socket, _) = opening(12);
    let begin = Instant::now();
    assert_eq!(socket.await_local(HANG).port(), 0);
    assert!(begin.elapsed() < HANG);
}

#[test]
fn an_engine_that_says_nothing_is_waited_for_so_long() {
    let (_engine, _session, socket, _) = opening(Versions::SPOKEN.newest);
    assert_eq!(socket.await_local(Duration::from_millis(1)).port(), 0);
}
