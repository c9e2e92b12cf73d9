//! Descriptors that are kept for when there are no others.

mod fake_engine;

use std::cell::Cell;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fake_engine::{FakeEngine, HANG};
use host::{Errno, Poller, Session, reserve};

/// They are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether there is one, which is given up.
fn is_any_kept() -> bool {
    let is_full = Cell::new(true);
    let make = || {
        if is_full.take() {
            Err(Errno::MFILE)
        } else {
            Ok(())
        }
    };
    reserve::spare(1, make).is_ok()
}

#[test]
fn a_process_that_has_found_its_engine_while_it_waited_keeps_some() {
    let _alone = ALONE.lock();
    let path = std::env::temp_dir().join(format!("outboard-found-{}.sock", std::process::id()));
    let session = Session::unattached(&path, "test");
    let mut poller = Poller::new(&session).unwrap();
    assert!(!is_any_kept(), "it is not attached");
    let _engine = FakeEngine::start_at(path, None);
    let start = Instant::now();
    let mut events = Vec::new();
    while !session.is_attached() {
        assert!(start.elapsed() < HANG, "it never attaches");
        poller
            .wait(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
    }
    assert!(is_any_kept());
}

#[test]
fn a_session_that_goes_leaves_what_others_need() {
    let _alone = ALONE.lock();
    let engine = FakeEngine::start();
    let [one, other] = [engine.attach(), engine.attach()];
    drop(one);
    assert!(is_any_kept());
    drop(other);
    assert!(!is_any_kept());
}
