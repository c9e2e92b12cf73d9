//! `outboard lab run objects` and `stateless-sizes`: the largest objects of one segment are answered, and measured.
#![forbid(unsafe_code)]

mod measured;

use lab::catalogue::{Extent, find};
use lab::experiment::Sample;
use lab::skip_without;

/// What each of the subjects comes to at this level of the axis of sizes, by its name, and at the first of all others.
fn at(name: &str, size: &str, subjects: &[&str]) -> Vec<Sample> {
    let entry = find(name).unwrap();
    let mut experiment = entry.declare(Extent::Full);
    let axis = experiment.axes.iter_mut().find(|axis| axis.name == "size");
    let levels = &mut axis.unwrap().levels;
    levels.retain(|level| level.name == size);
    assert_eq!(levels.len(), 1, "{name}, {size}");
    for subject in subjects {
        assert!(!levels[0].without.contains(&(*subject).to_owned()));
    }
    let subjects: Vec<String> = subjects.iter().map(|it| (*it).to_owned()).collect();
    measured::once(entry, &experiment, &subjects)
}

/// wrk counts other answers than 200 as errors, of which nothing comes.
#[test]
fn objects_of_one_segment_are_answered_where_they_can_be() {
    let test = "objects_of_one_segment_are_answered_where_they_can_be";
    if skip_without(test, find("objects").unwrap().needs) {
        return;
    }
    let everywhere = ["nginx", "in the driver", "AF_XDP", "NFQUEUE"];
    for (size, subjects) in [("1140", &everywhere[..]), ("1280", &everywhere[2..])] {
        for sample in at("objects", size, subjects) {
            assert!(sample.values["requests"] > 0.0, "{size}: {sample:?}");
        }
    }
}

#[test]
fn both_ends_stand_beside_frames_as_long_at_every_size() {
    let test = "both_ends_stand_beside_frames_as_long_at_every_size";
    if skip_without(test, find("stateless-sizes").unwrap().needs) {
        return;
    }
    for size in ["0", "1140"] {
        let [bare, both] = &at("stateless-sizes", size, &["bare", "both ends"])[..] else {
            panic!("two samples");
        };
        assert!(bare.values["requests"] > 0.0, "{size}: {bare:?}");
        assert!(both.values["requests"] > 0.0, "{size}: {both:?}");
        assert_eq!(both.values["errors"], 0.0, "{size}: {both:?}");
    }
}
