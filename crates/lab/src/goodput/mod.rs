//! `outboard lab goodput`: how much a sender gets through a long wire that loses frames, on the
//! kernel and on the engine, by the same congestion control.
//!
//! Two worlds, one without an engine, one with it, in each nginx with a large file. Its clients are
//! on the kernel's TCP in both. The wire is the same in both, too, and loses by the same seeds; it
//! is so slow that the machine's own speed does not matter.

mod fetch;
mod report;
mod subject;

pub(crate) use fetch::{Fetch, fetch};
pub use report::Report;
pub use subject::Congestion;
pub(crate) use subject::{Sender, Subject};

use crate::faults::{self, Faults, FaultyWire, Wire};
use crate::nginx::Nginx;
use crate::tool;
use crate::world::Side;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// How to run the benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that runs engine and programs.
    pub binary: PathBuf,
    /// Rounds; each measures both stacks under every loss.
    pub rounds: usize,
    /// Length of each measurement, from when a connection stands.
    pub window: Duration,
    /// How likely a frame is to be lost, each way, from 0.0 to 1.0; one case each.
    pub losses: Vec<f64>,
    /// Frames that are lost at once, at most; a burst has half as many on average, and as many frames are
    /// lost in all. One or none: each is lost by itself.
    pub burst: u16,
    /// The congestion control of both.
    pub congestion: Congestion,
    /// Connections at once.
    pub connections: usize,
    /// The round trip.
    pub round_trip: Duration,
    /// Bits a second, each way.
    pub bandwidth: u64,
    /// Bytes that may wait for bandwidth.
    pub queue: usize,
    /// What the seeds of the rounds begin with.
    pub seed: u64,
}

/// Runs the benchmark. `say` is told what is being done.
pub fn run(plan: &Plan, mut say: impl FnMut(&str)) -> Result<Report> {
    if tool::find("nginx").is_none() {
        bail!("nginx is not installed: run make install-deps");
    }
    say("starting nginx on the kernel and on the engine");
    let senders = plan.congestion.senders();
    let [kernel, engine] = senders.map(|sender| Subject::new(&plan.binary, sender));
    let subjects = [kernel?, engine?];
    let mut report = Report::new(plan);
    for round in 0..plan.rounds {
        let seed = plan.seed + round as u64;
        for (case, &loss) in plan.losses.iter().enumerate() {
            // Whoever is measured first finds the machine differently: take turns.
            for turn in [round % 2, (round + 1) % 2] {
                let subject = &subjects[turn];
                say(&format!(
                    "round {} of {}: {} % loss, {}",
                    round + 1,
                    plan.rounds,
                    loss * 100.0,
                    senders[turn].name
                ));
                let found = once(subject, plan.wire(loss), plan.fetches(), plan.window, seed)?;
                report.add(case, turn, &found);
            }
        }
    }
    Ok(report)
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
    let got = fetch(subject.world(), &fetches, window)?;
    // The server is to hear that they have gone, before the next.
    std::thread::sleep(4 * round_trip);
    Ok(Found {
        got,
        wire: wire.stop()?,
    })
}

/// What came of one measurement.
#[derive(Debug)]
pub(crate) struct Found {
    /// What each fetch got.
    got: Vec<fetch::Got>,
    wire: faults::Report,
}

/// A wire whose frames are later than this on average was not the one that was asked for.
const LATE: Duration = Duration::from_millis(2);

impl Found {
    /// Megabits a second that the clients got, all of them together.
    pub fn goodput(&self) -> f64 {
        self.got.iter().map(|got| got.all).sum()
    }

    /// The same of the second half of the time, when slow start is over.
    pub fn settled(&self) -> f64 {
        self.got.iter().map(|got| got.settled).sum()
    }

    /// Megabits a second that one of the clients got in the second half.
    pub fn settled_of(&self, index: usize) -> f64 {
        self.got.get(index).map_or(0.0, |got| got.settled)
    }

    /// Of all frames towards the clients, the share that was lost on purpose or for want of room.
    pub fn lost(&self) -> f64 {
        let passed = &self.wire.there;
        (passed.lost + passed.overflowed) as f64 / passed.received.max(1) as f64
    }

    /// What there is to say of a wire that was not the one that was asked for.
    pub fn late(&self) -> Vec<String> {
        let is_late = |passed: &&faults::Passed| {
            let late = passed.lateness.as_secs_f64() / passed.sent.max(1) as f64;
            passed.overrun > 0 || late > LATE.as_secs_f64()
        };
        let both = [&self.wire.there, &self.wire.back];
        both.into_iter()
            .filter(is_late)
            .map(ToString::to_string)
            .collect()
    }
}

impl Plan {
    /// Connections at once, if nobody says otherwise.
    pub const CONNECTIONS: usize = 4;
    /// The round trip.
    pub const ROUND_TRIP: Duration = Duration::from_millis(50);
    /// Bits a second, each way.
    pub const BANDWIDTH: u64 = 50_000_000;
    /// Bytes that may wait for bandwidth.
    pub const QUEUE: usize = 300_000;

    fn fetches(&self) -> Vec<Fetch> {
        let each = Fetch {
            from: Side::Client.ipv4(),
            at: Nginx::address(),
        };
        vec![each; self.connections]
    }

    fn wire(&self, loss: f64) -> Wire {
        Wire {
            faults: Faults::losing(loss, self.burst),
            delay: self.round_trip / 2,
            bandwidth: Some(self.bandwidth),
            queue: self.queue,
        }
    }
}
