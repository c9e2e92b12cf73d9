//! `outboard lab run clients`: httperf and `outboard load` ask for the same at the same rate, and all of it is answered
//! to both.
#![forbid(unsafe_code)]

mod measured;

use lab::catalogue::{Extent, find};
use lab::skip_without;

#[test]
fn httperf_and_load_are_answered_alike() {
    let entry = find("clients").unwrap();
    if skip_without("httperf_and_load_are_answered_alike", entry.needs) {
        return;
    }
    let experiment = entry.declare(Extent::Full);
    let subjects = &experiment.subjects;
    for (subject, sample) in subjects
        .iter()
        .zip(measured::once(entry, &experiment, subjects))
    {
        assert_eq!(sample.values["errors"], 0.0, "{subject}");
        for measure in &experiment.measures {
            assert!(sample.values[&measure.name].is_finite(), "{subject}");
        }
    }
}
