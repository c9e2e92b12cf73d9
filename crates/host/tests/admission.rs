//! What a program says of who may connect reaches every engine, and how much may be handed over ahead.

mod fake_engine;

use fake_engine::FakeEngine;
use host::{AdmissionLimit, AdmissionPolicy, Listener, Session};
use queue_pair::Submission;
use queue_pair::control::Request;

fn policy() -> AdmissionPolicy {
    AdmissionPolicy {
        all: AdmissionLimit {
            in_flight: 7,
            ..AdmissionLimit::default()
        },
        bits_v4: 24,
        ..AdmissionPolicy::default()
    }
}

/// What the engine was told of who may connect.
fn told(engine: &FakeEngine) -> Vec<(u32, AdmissionPolicy)> {
    let inner = engine.lock();
    let admit = |request: &Request| match request {
        Request::Admit { listener, policy } => Some((*listener, *policy)),
        _ => None,
    };
    inner.requests.iter().filter_map(admit).collect()
}

fn listen(session: &Session) -> Listener {
    session.listen("127.0.0.1:0".parse().unwrap(), 16).unwrap()
}

#[test]
fn every_engine_learns_who_may_connect_before_it_hands_over_anybody() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = listen(&session);
    listener.want();
    assert!(!listener.keeps_admission());
    assert_eq!(listener.set_admission(policy()), Ok(true));
    assert!(listener.keeps_admission());
    assert_eq!(told(&engine), [(1, policy())]);
    // Another engine, at the same place.
    let path = engine.die();
    let start = std::time::Instant::now();
    while session.is_attached() {
        assert!(start.elapsed() < fake_engine::HANG);
        let _ = listener.wait(Some(std::time::Duration::from_millis(20)));
    }
    assert!(!listener.keeps_admission());
    assert_eq!(
        listener.set_admission(policy()),
        Ok(false),
        "it is kept for later"
    );
    let engine = FakeEngine::start_at(path, None);
    let start = std::time::Instant::now();
    while !session.is_attached() {
        assert!(start.elapsed() < fake_engine::HANG);
        let _ = listener.wait(Some(std::time::Duration::from_millis(20)));
    }
    assert_eq!(told(&engine), [(1, policy())]);
    assert!(listener.keeps_admission());
    let open = AdmissionPolicy::default();
    assert_eq!(listener.set_admission(open), Ok(true));
    assert_eq!(told(&engine).last(), Some(&(1, open)));
}

#[test]
fn an_engine_may_hand_over_as_many_as_the_program_says() {
    for (window, backlog, credit) in [
        (None, 16, 16),
        (None, 100, 32),
        (Some(3), 16, 3),
        (Some(99), 16, 16),
    ] {
        let engine = FakeEngine::start();
        let session = engine.attach();
        let listener = session
            .listen("127.0.0.1:0".parse().unwrap(), backlog)
            .unwrap();
        if let Some(window) = window {
            listener.set_window(window);
        }
        listener.want();
        let given = engine.host(|host| host.submissions());
        let given = given.iter().rev().find_map(|one| match one {
            Submission::Credit { total, .. } => Some(*total),
            _ => None,
        });
        assert_eq!(given, Some(credit), "{window:?} of {backlog}");
    }
}
