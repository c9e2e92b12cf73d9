//! A bench that answers from a table, and a clock that goes on by itself.

use anyhow::Result;
use lab::experiment::Rules;
use lab::experiment::bench::{At, Bench, Sample};
use lab::experiment::declaration::{
    Axis, Bound, Citation, Claim, Experiment, Finding, Measure, Picture,
};
use lab::experiment::directory::Header;
use lab::experiment::surroundings::{Conditions, Surroundings};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Answer = fn(&At<'_>, u32) -> Result<Sample>;

/// Answers by a function of the place and of how often it was asked there, from 1.
pub struct Fake {
    answer: Answer,
    /// Where it was asked.
    pub asked: Vec<String>,
}

impl Fake {
    pub fn new(answer: Answer) -> Self {
        Self {
            answer,
            asked: Vec::new(),
        }
    }
}

impl Bench for Fake {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let place = format!("{} {}", at.subject, at.word("size")?);
        self.asked.push(place.clone());
        let times = self.asked.iter().filter(|asked| **asked == place).count();
        (self.answer)(at, u32::try_from(times)?)
    }
}

/// A second for each measurement.
#[derive(Default)]
pub struct Fixed {
    pub now: Duration,
    pub conditions: Conditions,
}

impl Surroundings for Fixed {
    fn elapsed(&self) -> Duration {
        self.now
    }

    fn begin(&mut self) {
        self.now += Duration::from_secs(1);
    }

    fn end(&mut self) -> Conditions {
        self.conditions.clone()
    }
}

pub fn rules() -> Rules {
    Rules {
        least_rounds: 5,
        most_rounds: 8,
        precision: 0.05,
        limit: Duration::from_secs(3_600),
        window: Duration::from_secs(1),
        seed: 1,
    }
}

pub fn header(rules: Rules) -> Header {
    Header {
        experiment: experiment(),
        rules,
        version: "0.0.0 (test)".into(),
        settings: serde_json::json!({ "cores": 2 }),
        asked: None,
    }
}

pub fn experiment() -> Experiment {
    let citation = |place: &str| Citation {
        document: "000".into(),
        place: place.into(),
    };
    let claim = |says: &str, at: Vec<(String, String)>, ratio| Claim {
        says: says.into(),
        citation: citation("section 6"),
        measure: "rate".into(),
        subject: "engine".into(),
        to: "kernel".into(),
        at,
        ratio,
    };
    Experiment {
        name: "fake".into(),
        title: "Requests by size".into(),
        question: "Is it faster?".into(),
        workload: "none".into(),
        roles: "none".into(),
        axes: vec![Axis::of_numbers("size", "B", &[1.0, 2.0, 4.0])],
        subjects: vec!["kernel".into(), "engine".into()],
        measures: vec![Measure::new("rate", "1/s"), Measure::new("time", "s")],
        pictures: vec![Picture::new("Requests a second", "size", "rate").log_x()],
        findings: vec![Finding {
            name: "nginx on a testbed".into(),
            axis: "size".into(),
            measure: "rate".into(),
            points: vec![(1.0, 300.0), (4.0, 270.0)],
            at: Vec::new(),
            citation: citation("figure 6.3"),
        }],
        left_out: Vec::new(),
        model: None,
        claims: vec![
            claim("The engine is faster", Vec::new(), Bound::AtLeast(1.0)),
            claim(
                "The engine is twice as fast",
                vec![("size".into(), "2".into())],
                Bound::AtLeast(2.0),
            ),
        ],
    }
}

/// A directory that goes with its test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn scratch() -> Scratch {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("lab-experiment-{}-{number}", std::process::id());
    Scratch(std::env::temp_dir().join(name))
}
