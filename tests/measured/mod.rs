//! An experiment's subjects, measured once each at its first levels.

use lab::catalogue::{Entry, Setup};
use lab::experiment::{At, Experiment, Sample};
use std::time::Duration;

/// What is found for each of `subjects`, for a second.
pub fn once(entry: &Entry, experiment: &Experiment, subjects: &[String]) -> Vec<Sample> {
    let setup = Setup {
        binary: env!("CARGO_BIN_EXE_outboard").into(),
        log: None,
        kept: env!("CARGO_TARGET_TMPDIR").into(),
        subjects: subjects.to_vec(),
    };
    let levels: Vec<_> = experiment.axes.iter().map(|axis| &axis.levels[0]).collect();
    let mut bench = entry.open(&setup).unwrap();
    let measured = subjects.iter().map(|subject| {
        let at = At {
            experiment,
            subject,
            levels: &levels,
            window: Duration::from_secs(1),
            seed: 1,
        };
        let sample = bench.prepare(&at).and_then(|()| bench.measure(&at));
        sample.unwrap_or_else(|error| panic!("{} {subject}: {error:#}", entry.name))
    });
    measured.collect()
}
