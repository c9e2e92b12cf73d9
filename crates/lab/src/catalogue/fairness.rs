//! How a sender shares a narrow wire with another that was there before: the kernel's CUBIC, as most of
//! the Internet has it.

use super::each::Each;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::faults::Wire;
use crate::goodput::{Fetch, Sender, Subject, once};
use crate::nginx::Nginx;
use crate::world::Side;
use anyhow::{Context, Result};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "fairness",
    source: "",
    about: "how a sender shares a narrow wire with the kernel's CUBIC, by the length of the queue",
    needs: &["nginx", "ethtool"],
    seconds: (30, 3),
    windows: 1,
    declare,
    open,
};

const QUEUE: &str = "queue";
const ROUND_TRIP: &str = "round trip";
const SHARE: &str = "share";
const FILLED: &str = "of the wire, both together";

/// Bits a second.
const BANDWIDTH: f64 = 50e6;

fn declare(extent: Extent) -> Experiment {
    let (queues, round_trips): (&[f64], &[f64]) = match extent {
        Extent::Full => (&[0.25, 1.0, 4.0], &[20.0, 100.0]),
        Extent::Quick => (&[1.0], &[20.0]),
    };
    let pictures = round_trips.iter().map(|trip| {
        Picture::new(
            format!("Share beside the kernel's CUBIC: {trip} ms"),
            QUEUE,
            SHARE,
        )
        .log_x()
        .at(ROUND_TRIP, &trip.to_string())
    });
    Experiment {
        name: ENTRY.name.into(),
        title: "A narrow wire shared with the kernel's CUBIC".into(),
        question: "How much of a wire does a sender take beside one connection of the kernel's CUBIC? Half of it \
            is fair; what the kernel's own algorithms take says what is usual."
            .into(),
        workload: format!(
            "Two connections at once, each fetches a file over and over from an nginx of its own, over a wire of \
             {} Mb/s that loses what it has no room for. The second half of the time counts. The queue is in \
             parts of what is on its way.",
            BANDWIDTH / 1e6
        ),
        roles: "nothing is pinned".into(),
        axes: vec![
            Axis::of_numbers(QUEUE, "of bandwidth × round trip", queues),
            Axis::of_numbers(ROUND_TRIP, "ms", round_trips),
        ],
        subjects: Sender::ALL.map(|sender| sender.name.into()).to_vec(),
        measures: vec![Measure::new(SHARE, "%"), Measure::new(FILLED, "%")],
        pictures: pictures.collect(),
        findings: Vec::new(),
        claims: claims(),
        left_out: Vec::new(),
        model: None,
    }
}

/// A connection that shares by the same algorithm has half, give or take a tenth of the wire. What BBR takes beside CUBIC
/// is known to be something else.
fn claims() -> Vec<Claim> {
    let of = |sender: Sender| {
        [Bound::AtLeast(40.0), Bound::AtMost(60.0)].map(|ratio| Claim {
            says: format!(
                "{} shares the wire by halves, give or take a tenth",
                sender.name
            ),
            citation: Citation::goal(),
            measure: SHARE.into(),
            subject: sender.name.into(),
            to: "".into(),
            at: Vec::new(),
            ratio,
        })
    };
    let both = [Sender::KERNEL_CUBIC, Sender::ENGINE_CUBIC];
    both.into_iter().flat_map(of).collect()
}

struct Fairness(Each<Subject>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let subjects = Each::of(setup, |name| {
        let sender = Sender::ALL.into_iter().find(|sender| sender.name == name);
        let sender = sender.with_context(|| format!("no sender {name}"))?;
        Subject::beside_cubic(&setup.binary, sender)
    });
    Ok(Box::new(Fairness(subjects?)))
}

impl Bench for Fairness {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let subject = self.0.get(at.subject)?;
        let round_trip = Duration::from_secs_f64(at.number(ROUND_TRIP)? / 1e3);
        let on_its_way = BANDWIDTH * round_trip.as_secs_f64() / 8.0;
        let wire = Wire {
            delay: round_trip / 2,
            bandwidth: Some(BANDWIDTH as u64),
            queue: (on_its_way * at.number(QUEUE)?) as usize,
            ..Wire::PERFECT
        };
        let looked_at = Fetch {
            from: Side::Client.ipv4(),
            at: Nginx::address(),
        };
        let beside = Fetch {
            from: Subject::BESIDE,
            at: Subject::host(),
        };
        let found = once(subject, wire, vec![looked_at, beside], at.window, at.seed)?;
        let both = found.settled();
        let mut sample = Sample::default()
            .by(found.client())
            .using(&found.used())
            .with(
                SHARE,
                100.0 * found.settled_of(0) / both.max(f64::MIN_POSITIVE),
            )
            .with(FILLED, 100.0 * both * 1e6 / BANDWIDTH);
        let late = found.late().into_iter();
        sample
            .notes
            .extend(late.map(|passed| format!("The wire was late: {passed}")));
        Ok(sample)
    }
}
