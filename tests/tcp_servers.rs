//! `outboard lab run tcp-servers`: each of its programs runs in each of its ways, and is measured.
#![forbid(unsafe_code)]

use lab::catalogue::{Extent, Setup, meant};
use lab::experiment::At;
use lab::{built_beside, skip_without};
use std::time::Duration;

/// Every subject of every experiment of the group, at its first levels: figures, whatever they are on a machine
/// with others on it.
#[test]
fn every_way_is_measured() {
    let name = "every_way_is_measured";
    let binary = env!("CARGO_BIN_EXE_outboard");
    // The interposer is one of the ways.
    if skip_without(name, &["taskset"]) || built_beside(name, binary).is_none() {
        return;
    }
    let setup = Setup {
        binary: binary.into(),
        log: None,
    };
    for entry in meant("tcp-servers").unwrap() {
        let experiment = entry.declare(Extent::Quick);
        let levels: Vec<_> = experiment.axes.iter().map(|axis| &axis.levels[0]).collect();
        let mut bench = entry.open(&setup).unwrap();
        for subject in &experiment.subjects {
            let at = At {
                experiment: &experiment,
                subject,
                levels: &levels,
                window: Duration::from_secs(1),
                seed: 1,
            };
            let sample = bench.measure(&at);
            let sample = sample.unwrap_or_else(|e| panic!("{} {subject}: {e:#}", entry.name));
            let first = &experiment.measures[0].name;
            assert!(sample.values[first] > 0.0, "{} {subject}", entry.name);
            for (name, value) in &sample.values {
                assert!(experiment.measure(name).is_some(), "{} {name}", entry.name);
                assert!(value.is_finite(), "{} {subject}: {name}", entry.name);
            }
        }
    }
}
