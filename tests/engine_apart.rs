//! `outboard lab run model` and `classes`: an engine on another core than its server is measured as a stage of its own.
#![forbid(unsafe_code)]

mod measured;

use lab::catalogue::{Extent, find};
use lab::experiment::Sample;
use lab::{built_beside, skip_without};

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// A sample of the engine on its server's core, and one of that on another.
fn samples(test: &str, name: &str) -> Option<Vec<Sample>> {
    let entry = find(name).unwrap();
    if skip_without(test, entry.needs) || built_beside(test, BINARY).is_none() {
        return None;
    }
    let subjects = ["engine", "engine apart"].map(String::from);
    let experiment = entry.declare(Extent::Quick);
    assert!(subjects.iter().all(|it| experiment.subjects.contains(it)));
    let samples = measured::once(entry, &experiment, &subjects);
    for (subject, sample) in subjects.iter().zip(&samples) {
        let around = |note: &String| note.contains("the engine was not the engine");
        assert!(!sample.notes.iter().any(around), "{subject}: {sample:?}");
    }
    Some(samples)
}

#[test]
fn the_model_has_the_busy_share_of_an_engine_on_another_core() {
    let test = "the_model_has_the_busy_share_of_an_engine_on_another_core";
    for sample in samples(test, "model").into_iter().flatten() {
        for share in [
            "busy share of the server's core",
            "busy share of the engine",
        ] {
            let share = sample.values[share];
            assert!(share > 0.0 && share < 101.0, "{sample:?}");
        }
    }
}

#[test]
fn a_full_server_has_all_shares_of_the_core_of_an_engine_apart() {
    let test = "a_full_server_has_all_shares_of_the_core_of_an_engine_apart";
    let Some(samples) = samples(test, "classes") else {
        return;
    };
    let its = |sample: &Sample| {
        let values = sample.values.iter();
        let its = values.filter(|(name, _)| name.starts_with("engine's core: "));
        its.map(|(_, share)| *share).collect::<Vec<f64>>()
    };
    assert!(its(&samples[0]).is_empty(), "its core is its server's");
    let shares = its(&samples[1]);
    let sum: f64 = shares.iter().sum();
    assert_eq!(shares.len(), 8);
    assert!((99.0..101.0).contains(&sum), "{shares:?}");
    assert!(samples[1].values["CPU of the engine"] > 0.0);
}
