//! `outboard lab run connections`: connections that are only there are opened, held and ended, and what they cost is
//! measured, whatever it is on a machine with others on it.
#![forbid(unsafe_code)]

mod measured;

use lab::catalogue::{Extent, find};
use lab::skip_without;

#[test]
fn a_thousand_idle_connections_are_measured() {
    if skip_without("a_thousand_idle_connections_are_measured", &["taskset"]) {
        return;
    }
    let entry = find("connections").unwrap();
    let experiment = entry.declare(Extent::Quick);
    let first = &experiment.subjects[..1];
    let sample = &measured::once(entry, &experiment, first)[0];
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
