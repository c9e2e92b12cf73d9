//! `outboard lab run clients`: httperf and `outboard load` ask for the same at the same rate, and all of it is answered
//! to both.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::time::Duration;

#[test]
fn httperf_and_load_are_answered_alike() {
    let entry = find("clients").unwrap();
    if skip_without("httperf_and_load_are_answered_alike", entry.needs) {
        return;
    }
    let experiment = entry.declare(Extent::Full);
    let setup = Setup {
        binary: env!("CARGO_BIN_EXE_outboard").into(),
        log: None,
        kept: env!("CARGO_TARGET_TMPDIR").into(),
        subjects: experiment.subjects.clone(),
    };
    let mut bench = entry.open(&setup).unwrap();
    let levels = [&experiment.axes[0].levels[0]];
    for subject in &experiment.subjects {
        let at = At {
            experiment: &experiment,
            subject,
            levels: &levels,
            window: Duration::from_secs(1),
            seed: 1,
        };
        let sample = bench.prepare(&at).and_then(|()| bench.measure(&at));
        let sample = sample.unwrap_or_else(|error| panic!("{subject}: {error:#}"));
        assert_eq!(sample.values["errors"], 0.0, "{subject}");
        for measure in &experiment.measures {
            assert!(sample.values[&measure.name].is_finite(), "{subject}");
        }
    }
}
