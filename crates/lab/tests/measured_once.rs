//! Experiments of one measurement on the kernel: what they find, and that none is made of what is there no more.
#![forbid(unsafe_code)]

mod first_levels;

use first_levels::{at, levels, setup};
use lab::catalogue::{Extent, find};
use lab::experiment::Sample;
use lab::skip_without;

/// Two seconds at the first level of an experiment.
fn measured(name: &str) -> Sample {
    let entry = find(name).unwrap();
    let experiment = entry.declare(Extent::Full);
    let mut bench = entry.open(&setup("kernel")).unwrap();
    let levels = levels(&experiment);
    let at = at(&experiment, "kernel", &levels, 2);
    bench.prepare(&at).unwrap();
    let sample = bench.measure(&at).unwrap();
    assert_eq!(sample.notes, Vec::<String>::new());
    // Users are there once, and nobody is there any more who could answer: others have to be made ready.
    assert!(bench.measure(&at).is_err());
    sample
}

#[test]
fn users_get_what_they_ask_for() {
    if skip_without("users_get_what_they_ask_for", &["nginx", "taskset"]) {
        return;
    }
    let sample = measured("surge");
    // Some hundred a second are asked for, of every file that there is sooner or later: none is refused.
    assert!(sample.values["replies"] > 0.0, "{sample:?}");
    assert!(sample.values.contains_key("time of a request, 99 %"));
}

/// As a rule it repeats an answer after a second that nobody has taken.
#[test]
fn the_kernel_answers_a_syn_once() {
    if skip_without("the_kernel_answers_a_syn_once", &["nginx"]) {
        return;
    }
    let sample = measured("syn-answers");
    let share = sample.values["answered, of those that arrived"];
    assert!(share > 0.0 && share <= 101.0, "{sample:?}");
}
