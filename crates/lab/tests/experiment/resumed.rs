//! Runs that go on.

use crate::fake::{header, rules, scratch};
use lab::experiment::analysis::analyse;
use lab::experiment::{Directory, End};

/// What has changed since a run was begun is told, and stands on top of its report if it goes on.
#[test]
fn a_run_that_goes_on_with_something_else_says_so() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let known = directory.header().clone();
    assert!(
        known
            .differences(&known.version, &known.settings)
            .is_empty()
    );
    let settings = serde_json::json!({ "cores": 4, "log": "x" });
    let found = known.differences("0.0.1", &settings);
    let expected = [
        "outboard: 0.0.0 (test), then 0.0.1",
        "cores: 2, then 4",
        "log: nothing was noted, then \"x\"",
    ];
    assert_eq!(found, expected);
    directory.change(found[1].clone()).unwrap();
    drop(directory);
    let read = Directory::open(scratch.path()).unwrap();
    let warning = &analyse(&read).warnings[0];
    assert!(warning.contains("cores: 2, then 4"), "{warning}");
}

/// Whoever only looks at a run that goes on takes nothing from it, and two cannot go on with it.
#[test]
fn a_run_that_goes_on_is_read_and_not_written() {
    let scratch = scratch();
    let running = Directory::create(scratch.path(), header(rules())).unwrap();
    let rounds = scratch.path().join("rounds.jsonl");
    let half = "{\"measured\":{\"round\":1,\"ce";
    std::fs::write(&rounds, half).unwrap();
    let mut read = Directory::open(scratch.path()).unwrap();
    assert_eq!(std::fs::read_to_string(&rounds).unwrap(), half);
    assert!(read.finish(End::Rounds).is_err());
    let error = Directory::resume(scratch.path()).unwrap_err();
    assert!(error.to_string().contains("is going on"), "{error:#}");
    assert_eq!(std::fs::read_to_string(&rounds).unwrap(), half);
    drop(running);
    let mut resumed = Directory::resume(scratch.path()).unwrap();
    assert_eq!(std::fs::read_to_string(&rounds).unwrap(), "");
    resumed.finish(End::Rounds).unwrap();
}
