//! What is made ready for a measurement, and what the machine is watched for.

use crate::fake::{header, rules, scratch};
use anyhow::{Result, ensure};
use lab::experiment::bench::{At, Bench, Sample};
use lab::experiment::surroundings::{Conditions, Surroundings};
use lab::experiment::{Directory, Runner};
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Who prepares something and who watches the machine, in a list of what happened.
#[derive(Default)]
struct Noted {
    seen: RefCell<Vec<&'static str>>,
    /// Whether nothing can be prepared.
    fails: bool,
}

impl Bench for &Noted {
    fn prepare(&mut self, _at: &At<'_>) -> Result<()> {
        self.seen.borrow_mut().push("prepare");
        ensure!(!self.fails, "no server");
        Ok(())
    }

    fn measure(&mut self, _at: &At<'_>) -> Result<Sample> {
        self.seen.borrow_mut().push("measure");
        Ok(Sample::default().with("rate", 1.0))
    }
}

impl Surroundings for &Noted {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn begin(&mut self) {
        self.seen.borrow_mut().push("begin");
    }

    fn end(&mut self) -> Conditions {
        self.seen.borrow_mut().push("end");
        Conditions::default()
    }
}

/// A server that is started is no part of what the machine is watched for.
#[test]
fn what_is_prepared_is_not_watched() {
    let noted = Noted::default();
    let failing = Noted {
        fails: true,
        ..Noted::default()
    };
    for noted in [&noted, &failing] {
        let scratch = scratch();
        let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
        let (mut bench, mut watch, stop) = (noted, noted, AtomicBool::new(false));
        let mut runner = Runner {
            directory: &mut directory,
            surroundings: &mut watch,
            stop: &stop,
        };
        runner.run(&mut bench, |_| ()).unwrap();
        let failed = directory.records()[0].failed.as_deref();
        assert_eq!(failed, noted.fails.then_some("no server"));
    }
    let order = ["prepare", "begin", "measure", "end"];
    assert_eq!(noted.seen.borrow()[..4], order);
    assert_eq!(failing.seen.borrow()[..3], ["prepare", "begin", "end"]);
}
