//! `lab run surge` on the kernel: its users are served.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::time::Duration;

#[test]
fn users_get_what_they_ask_for() {
    if skip_without("users_get_what_they_ask_for", &["nginx", "taskset"]) {
        return;
    }
    let entry = find("surge").unwrap();
    let experiment = entry.declare(Extent::Full);
    let setup = Setup {
        binary: "none".into(),
        log: None,
        kept: std::env::temp_dir(),
        subjects: vec!["kernel".into()],
    };
    let mut bench = entry.open(&setup).unwrap();
    let at = At {
        experiment: &experiment,
        subject: "kernel",
        levels: &[&experiment.axes[0].levels[0]],
        window: Duration::from_secs(2),
        seed: 1,
    };
    bench.prepare(&at).unwrap();
    let sample = bench.measure(&at).unwrap();
    // Some hundred a second are asked for, of every file that there is sooner or later: none is refused.
    assert!(sample.values["replies"] > 0.0, "{sample:?}");
    assert!(sample.values.contains_key("time of a request, 99 %"));
    assert_eq!(sample.notes, Vec::<String>::new());
    // They are there once: others have to be made ready.
    assert!(bench.measure(&at).is_err());
}
