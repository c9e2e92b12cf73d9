//! `lab run syn-answers` on the kernel: what it answers of a flood counts once.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, find};
use lab::experiment::At;
use lab::skip_without;
use std::time::Duration;

/// As a rule it repeats an answer after a second that nobody has taken.
#[test]
fn the_kernel_answers_a_syn_once() {
    if skip_without("the_kernel_answers_a_syn_once", &["nginx"]) {
        return;
    }
    let entry = find("syn-answers").unwrap();
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
    let share = sample.values["answered, of those that arrived"];
    assert!(share > 0.0 && share <= 101.0, "{sample:?}");
    assert_eq!(sample.notes, Vec::<String>::new());
    // Nobody is there any more who could answer.
    assert!(bench.measure(&at).is_err());
}
