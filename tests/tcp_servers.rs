//! `outboard lab run tcp-servers`: each of its programs runs in each of its ways, and is measured; and the web
//! experiments of the same document with a server that knows of its engine.
#![forbid(unsafe_code)]

use lab::catalogue::{Entry, Extent, Setup, meant};
use lab::experiment::At;
use lab::{built_beside, skip_without};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// Measures each subject that is `wanted`, also those that a first impression leaves out, at the first levels:
/// figures, whatever they are on a machine with others on it.
fn measure(entry: &Entry, wanted: impl Fn(&str) -> bool) {
    let setup = Setup {
        binary: BINARY.into(),
        log: None,
    };
    let experiment = entry.declare(Extent::Quick);
    let levels: Vec<_> = experiment.axes.iter().map(|axis| &axis.levels[0]).collect();
    let mut bench = entry.open(&setup).unwrap();
    let subjects = entry.declare(Extent::Full).subjects;
    for subject in subjects.iter().filter(|name| wanted(name)) {
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

/// What `name` means, unless something is missing that it needs.
fn entries(test: &str, names: &[&str]) -> Vec<&'static Entry> {
    let each = names.iter().flat_map(|name| meant(name).unwrap());
    let entries: Vec<&Entry> = each.collect();
    let needs: Vec<&str> = entries
        .iter()
        .flat_map(|entry| entry.needs)
        .copied()
        .collect();
    // The interposer is one of the ways.
    if skip_without(test, &needs) || built_beside(test, BINARY).is_none() {
        return Vec::new();
    }
    entries
}

#[test]
fn every_way_is_measured() {
    for entry in entries("every_way_is_measured", &["tcp-servers"]) {
        measure(entry, |_| true);
    }
}

/// Of the web experiments those that such a server can serve: their requests are answered by it, too.
#[test]
fn a_server_that_knows_of_its_engine_answers_what_nginx_does() {
    let test = "a_server_that_knows_of_its_engine_answers_what_nginx_does";
    for entry in entries(test, &["static", "bursts", "trace", "engine-strength"]) {
        measure(entry, |subject| subject.starts_with("serve"));
    }
}
