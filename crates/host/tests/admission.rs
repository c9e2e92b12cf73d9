//! What a program says of who may connect reaches every engine, and how much may be handed over ahead.

mod fake_engine;

use fake_engine::{Attached, FakeEngine};
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
        for is_said_late in [false, true] {
            let listener = session
                .listen("127.0.0.1:0".parse().unwrap(), backlog)
                .unwrap();
            // A set that it is in waits for connections before the program has said anything.
            if is_said_late {
                listener.want();
            }
            if let Some(window) = window {
                listener.set_window(window);
            }
            listener.want();
            let told = format!("{window:?} of {backlog}, late: {is_said_late}");
            assert_eq!(given(&engine).last(), Some(&credit), "{told}");
        }
    }
}

#[test]
fn a_program_that_does_not_accept_is_offered_nothing_for_its_bound() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = listen(&session);
    listener.set_window(3);
    assert!(given(&engine).is_empty());
    listener.want();
    assert_eq!(given(&engine), [3]);
    // Nothing has changed.
    listener.set_window(3);
    assert!(given(&engine).is_empty());
}

/// They come until the engine has heard of it, and are as good as those before.
#[test]
fn a_bound_that_falls_does_not_make_a_breach_of_what_was_allowed_before() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let at = "127.0.0.1:0".parse().unwrap();
    let listener = session.listen(at, 128).unwrap();
    listener.set_window(100);
    listener.want();
    let hand = |count| {
        engine.host(|host| {
            for _ in 0..count {
                host.hand(1);
            }
        });
    };
    hand(70);
    listener.wait(Some(fake_engine::HANG)).unwrap();
    listener.set_window(1);
    hand(30);
    let accepted = (0..100).take_while(|_| listener.accept().is_ok());
    assert_eq!(accepted.count(), 100);
    assert!(session.is_attached());
}

/// The credit that the engine was given since it was last looked at.
fn given(engine: &FakeEngine) -> Vec<u32> {
    let given = engine.host(|host| host.submissions());
    let credit = |one: &Submission| match one {
        Submission::Credit { total, .. } => Some(*total),
        _ => None,
    };
    given.iter().filter_map(credit).collect()
}

#[test]
fn a_listener_that_listens_again_shows_the_engine_how_many_may_wait() {
    let engine = FakeEngine::start();
    let session = engine.attach();
    let listener = listen(&session);
    listener.want();
    let credit = |engine: &FakeEngine| {
        let posted = engine.host(Attached::submissions);
        posted.iter().rev().find_map(|it| match it {
            Submission::Credit { total, .. } => Some(*total),
            _ => None,
        })
    };
    assert_eq!(credit(&engine), Some(16));
    let shown = |engine: &FakeEngine| {
        let is_shown = |it: &&Request| matches!(it, Request::Chosen { .. });
        engine.lock().requests.iter().filter(is_shown).count()
    };
    for (times, (backlog, most)) in [(20, 20), (20, 20), (5, 5), (400, 32)]
        .into_iter()
        .enumerate()
    {
        rustix::net::listen(listener.kernel_socket(), backlog).unwrap();
        listener.set_backlog(backlog as u32);
        // Also the same as before: of another process it may have heard something else since.
        assert_eq!(shown(&engine), times + 1);
        let expected = (times != 1).then_some(most);
        assert_eq!(credit(&engine), expected);
    }
}
