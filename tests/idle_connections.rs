//! `outboard lab run connections`: connections that are only there are opened, held and ended, and what they cost is
//! measured, whatever it is on a machine with others on it.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::time::Duration;

#[test]
fn a_thousand_idle_connections_are_measured() {
    if skip_without("a_thousand_idle_connections_are_measured", &["taskset"]) {
        return;
    }
    let entry = find("connections").unwrap();
    let experiment = entry.declare(Extent::Quick);
    let setup = Setup {
        binary: env!("CARGO_BIN_EXE_outboard").into(),
        log: None,
        kept: env!("CARGO_TARGET_TMPDIR").into(),
        subjects: experiment.subjects.clone(),
    };
    let levels: Vec<_> = experiment.axes.iter().map(|axis| &axis.levels[0]).collect();
    let at = At {
        experiment: &experiment,
        subject: &experiment.subjects[0],
        levels: &levels,
        window: Duration::from_secs(1),
        seed: 1,
    };
    let mut bench = entry.open(&setup).unwrap();
    bench.prepare(&at).unwrap();
    let sample = bench.measure(&at).unwrap();
    for measure in &experiment.measures {
        let value = sample.values[&measure.name];
        // A thousand find room in memory that is there, now and then.
        let least = if measure.unit == "B" {
            0.0
        } else {
            f64::MIN_POSITIVE
        };
        assert!(
            value.is_finite() && value >= least,
            "{}: {value}",
            measure.name
        );
    }
}
