//! An experiment that is measured at the first level of each of its axes.

use lab::catalogue::Setup;
use lab::experiment::declaration::Level;
use lab::experiment::{At, Experiment};
use std::time::Duration;

/// With this subject alone, and without outboard's program.
pub fn setup(subject: &str) -> Setup {
    Setup {
        binary: "none".into(),
        log: None,
        kept: std::env::temp_dir(),
        subjects: vec![subject.into()],
    }
}

/// The first level of each axis.
pub fn levels(experiment: &Experiment) -> Vec<&Level> {
    let axes = experiment.axes.iter();
    axes.map(|axis| &axis.levels[0]).collect()
}

/// A subject at these levels, for so many seconds.
pub fn at<'a>(
    experiment: &'a Experiment,
    subject: &'a str,
    levels: &'a [&'a Level],
    seconds: u64,
) -> At<'a> {
    At {
        experiment,
        subject,
        levels,
        window: Duration::from_secs(seconds),
        seed: 1,
    }
}
