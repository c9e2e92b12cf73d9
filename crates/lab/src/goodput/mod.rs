//! `outboard lab goodput`: how much a sender gets through a long wire that loses frames, on the
//! kernel and on the engine, by the same congestion control.
//!
//! Two worlds, one without an engine, one with it, in each nginx with a large file. Its clients are
//! on the kernel's TCP in both. The wire is the same in both, too, and loses by the same seeds; it
//! is so slow that the machine's own speed does not matter.

mod fetch;
mod found;
mod plan;
mod report;
mod subject;

pub(crate) use fetch::{Fetch, fetch};
pub(crate) use found::Found;
pub use plan::Plan;
pub use report::Report;
pub use subject::Congestion;
pub(crate) use subject::{Sender, Subject};

use crate::faults::{FaultyWire, Wire};
use crate::kept::{Kept, Made};
use crate::tool;
use anyhow::{Result, bail};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Runs the benchmark. `say` is told what is being done.
/// `stop` is set by whoever interrupts: what was measured by then is reported.
pub fn run(plan: &Plan, stop: &AtomicBool, mut say: impl FnMut(&str)) -> Result<Made<Report>> {
    if tool::find("nginx").is_none() {
        bail!("nginx is not installed: run make install-deps");
    }
    say("starting nginx on the kernel and on the engine");
    let senders = plan.congestion.senders();
    let [kernel, engine] = senders.map(|sender| Subject::new(&plan.binary, sender));
    let subjects = [kernel?, engine?];
    let mut report = Report::new(plan);
    let mut kept = Kept::new(stop, &mut say);
    for round in 0..plan.rounds {
        let seed = plan.seed + round as u64;
        for (case, &loss) in plan.losses.iter().enumerate() {
            // Whoever is measured first finds the machine differently: take turns.
            for turn in [round % 2, (round + 1) % 2] {
                let subject = &subjects[turn];
                let doing = format!(
                    "round {} of {}: {} % loss, {}",
                    round + 1,
                    plan.rounds,
                    loss * 100.0,
                    senders[turn].name
                );
                let (wire, fetches) = (plan.wire(loss), plan.fetches());
                let found = kept.one(&doing, || once(subject, wire, fetches, plan.window, seed));
                if let Some(found) = found {
                    report.add(case, turn, round, &found);
                }
            }
        }
    }
    kept.end(report, |report, notes| {
        notes.into_iter().for_each(|note| report.note(note));
    })
}

/// Measures once: what `fetches` get at the same time over a wire.
pub(crate) fn once(
    subject: &Subject,
    wire: Wire,
    fetches: Vec<Fetch>,
    window: Duration,
    seed: u64,
) -> Result<Found> {
    let round_trip = 2 * wire.delay;
    let wire = FaultyWire::start(subject.world(), wire, seed)?;
    let watched = subject.watched();
    let (got, spent) = watched.during(|_| fetch(subject.world(), &fetches, window))?;
    // The server is to hear that they have gone, before the next.
    std::thread::sleep(4 * round_trip);
    Ok(Found {
        got,
        wire: wire.stop()?,
        spent,
    })
}
