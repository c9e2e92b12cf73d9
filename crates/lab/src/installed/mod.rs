//! `outboard lab installed`: what a user gets who installs the engine and sets nothing. Nothing is
//! pinned, and the engine's settings are the defaults; so are the servers', but for [`SET`].
//!
//! A world for each subject stands ready, the kernel's, the engine's and the *floor*'s (the
//! stateless responder: what the client alone costs); they are measured in turn, case by case and
//! round by round. On a machine that others use as well, CPU of the programs and context switches
//! are what holds; latencies and rates are what a user sees.

mod case;
pub(crate) mod measure;
mod plan;
mod printed;
pub(crate) mod report;
mod servers;
pub(crate) mod subject;

pub use case::{CASES, Case};
pub use plan::Plan;
pub use report::Report;

use crate::kept::{Kept, Made};
use crate::tool;
use anyhow::{Result, bail};
use std::sync::atomic::AtomicBool;
use subject::Subject;

/// What is not as servers have it by default: what would be measured otherwise is the disk, or how long clients may
/// come back.
pub const SET: &str = "Servers have their default settings, but nginx writes no access log, keeps files open and \
    lets connections live, redis saves nothing, and PostgreSQL does not wait for its disk (fsync=off)";

/// Runs it. `say` is told what is being done.
/// `stop` is set by whoever interrupts: what was measured by then is reported.
pub fn run(plan: &Plan, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<Made<Report>> {
    for needed in ["nginx", "wrk"] {
        if tool::find(needed).is_none() {
            bail!("{needed} is not installed: run make install-deps");
        }
    }
    let mut cases: Vec<&Case> = CASES.iter().filter(|case| plan.wants(case.name)).collect();
    if cases.is_empty() {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        bail!("no case has such a name; there are: {}", names.join("; "));
    }
    say("starting the servers");
    let mut subjects = Subject::all(plan)?;
    let mut report = Report::new(plan, subjects.iter().map(Subject::name));
    cases.retain(|case| {
        let left_out = case.left_out();
        let left_out = left_out.map(|why| format!("{}: {why}", case.name));
        let is_there = left_out.is_none();
        let words = left_out.or_else(|| case.counts());
        words.into_iter().for_each(|words| report.note(words));
        is_there
    });
    report.note(SET.into());
    let mut kept = Kept::new(stop, &mut say);
    for round in 0..plan.rounds {
        for case in &cases {
            // Whoever is measured first finds the machine differently: take turns.
            for turn in 0..subjects.len() {
                let index = (turn + round) % subjects.len();
                let subject = &mut subjects[index];
                if subject.is_floor() && !case.has_floor() {
                    continue;
                }
                let (number, rounds) = (round + 1, plan.rounds);
                let (case_name, name) = (case.name, subject.name().to_owned());
                let doing = format!("round {number} of {rounds}: {case_name}, {name}");
                let found = kept.one(&doing, || {
                    measure::prepare(plan, case, subject)?;
                    measure::measure(plan, case, subject)
                });
                let values = found.map(|measured| measured.values);
                for (measure, value) in values.into_iter().flatten() {
                    report.add(case.name, measure, index, (round, value));
                }
            }
        }
    }
    kept.end(report, |report, notes| {
        notes.into_iter().for_each(|note| report.note(note));
        report.finish();
    })
}
