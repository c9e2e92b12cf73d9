//! What is fetched, and what is hoped for.

use super::report::{Goal, MACHINE_CPU, Measure, SERVER_CPU, THROUGHPUT};

/// One kind of request.
#[derive(Debug)]
pub struct Case {
    /// What tables call it.
    pub name: &'static str,
    /// The path that is fetched.
    pub path: &'static str,
    /// The size of the file behind it; `None` for what nginx answers by itself.
    pub file: Option<usize>,
    /// A connection for each request.
    pub close: bool,
    /// Requests a second for the measurements at a fixed rate: well below what either stack can
    /// do on one core of a small machine.
    pub rate: f64,
    goals: &'static [(&'static Measure, Goal)],
}

impl Case {
    /// The goal set for `measure` in this case, if there is one.
    pub(super) fn goal(&self, measure: &Measure) -> Option<Goal> {
        self.goals
            .iter()
            .find(|(with, _)| with.name == measure.name)
            .map(|(_, goal)| *goal)
    }
}

/// All cases, in the order of the report.
pub const CASES: &[Case] = &[
    Case {
        name: "keep-alive, 64 B",
        path: "/64",
        file: None,
        close: false,
        rate: 20_000.0,
        goals: &[
            (&THROUGHPUT, Goal::AtLeast(1.0)),
            (&SERVER_CPU, Goal::AtMost(0.5)),
            (&MACHINE_CPU, Goal::AtMost(1.0)),
        ],
    },
    Case {
        name: "close, 64 B",
        path: "/64",
        file: None,
        close: true,
        rate: 5_000.0,
        goals: &[(&THROUGHPUT, Goal::AtLeast(1.0))],
    },
    Case {
        name: "keep-alive, 1 KB file",
        path: "/1K",
        file: Some(1 << 10),
        close: false,
        rate: 20_000.0,
        goals: &[],
    },
    Case {
        name: "keep-alive, 16 KB file",
        path: "/16K",
        file: Some(16 << 10),
        close: false,
        rate: 10_000.0,
        goals: &[],
    },
    Case {
        name: "keep-alive, 1 MB file",
        path: "/1M",
        file: Some(1 << 20),
        close: false,
        rate: 300.0,
        goals: &[(&THROUGHPUT, Goal::AtLeast(0.8))],
    },
];
