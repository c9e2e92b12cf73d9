//! How much a sender gets through a long wire: `outboard lab goodput` in the shape of the other
//! experiments, for both congestion controls, by loss, by round trip and by bandwidth.

use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::faults::{Faults, Wire};
use crate::goodput::{Fetch, Sender, Subject, once};
use crate::nginx::Nginx;
use crate::world::Side;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub const LOSSES: Entry = Entry {
    name: "goodput",
    source: "",
    about: "what a sender gets through a long wire that loses frames: CUBIC and BBR, kernel and engine",
    needs: &["nginx", "ethtool"],
    seconds: (10, 2),
    windows: 1,
    declare: by_loss,
    open,
};

pub const ROUND_TRIPS: Entry = Entry {
    name: "long-paths",
    source: "",
    about: "the same by round trip, on wires that lose at random, in bursts or for want of room",
    needs: LOSSES.needs,
    seconds: (10, 2),
    windows: 1,
    declare: by_round_trip,
    open,
};

pub const BANDWIDTHS: Entry = Entry {
    name: "wide-paths",
    source: "",
    about: "the same by bandwidth and round trip, without loss",
    needs: LOSSES.needs,
    seconds: (20, 2),
    windows: 1,
    declare: by_bandwidth,
    open,
};

const LOSS: &str = "loss";
const ROUND_TRIP: &str = "round trip";
const BANDWIDTH: &str = "bandwidth";
const NATURE: &str = "wire";
const GOODPUT: &str = "goodput";
const SETTLED: &str = "goodput, second half";
const LOST: &str = "frames that were lost";

/// Natures of a wire.
const CLEAN: &str = "loses nothing";
const RANDOM: &str = "loses 1 % at random";
const BURSTS: &str = "loses 1 % in bursts";
const SHORT: &str = "has a short queue";

/// Where an axis does not say otherwise.
const USUAL_ROUND_TRIP_MS: f64 = 50.0;
const USUAL_MEGABITS: f64 = 50.0;
/// Frames that are lost at once in a burst, at most; half as many on average.
const BURST: u16 = 9;
/// Bytes that may wait, at least, however short the wire is: twenty frames.
const LEAST_QUEUE: f64 = 30_000.0;
/// A short queue is this part of what is on its way.
const SHORT_QUEUE: f64 = 0.1;

/// The least that the engine is to reach of the kernel's goodput by the same algorithm.
const LEAST: f64 = 0.95;

fn by_loss(extent: Extent) -> Experiment {
    let losses: &[f64] = match extent {
        Extent::Full => &[0.0, 0.01, 0.1, 0.3, 1.0, 3.0, 5.0],
        Extent::Quick => &[0.1, 1.0],
    };
    let held = losses.iter().filter(|loss| **loss <= 1.0);
    Experiment {
        axes: vec![Axis::of_numbers(LOSS, "% each way", losses)],
        pictures: vec![Picture::new("Goodput by loss", LOSS, GOODPUT)],
        claims: held
            .flat_map(|loss| goals(vec![(LOSS.into(), loss.to_string())]))
            .collect(),
        ..common(
            &LOSSES,
            "Goodput through a long wire that loses frames",
            "How much of a wire does a sender get that loses frames at random?",
        )
    }
}

fn by_round_trip(extent: Extent) -> Experiment {
    let (round_trips, natures): (&[f64], &[&str]) = match extent {
        Extent::Full => (&[1.0, 20.0, 100.0, 200.0], &[CLEAN, RANDOM, BURSTS, SHORT]),
        Extent::Quick => (&[20.0, 100.0], &[RANDOM]),
    };
    let pictures = natures.iter().map(|nature| {
        Picture::new(
            format!("Goodput by round trip: the wire {nature}"),
            ROUND_TRIP,
            GOODPUT,
        )
        .at(NATURE, nature)
    });
    let places = natures.iter().flat_map(|nature| {
        round_trips.iter().map(|trip| {
            vec![
                (NATURE.into(), (*nature).into()),
                (ROUND_TRIP.into(), trip.to_string()),
            ]
        })
    });
    Experiment {
        axes: vec![
            Axis::of_numbers(ROUND_TRIP, "ms", round_trips),
            Axis::of_words(NATURE, natures),
        ],
        pictures: pictures.collect(),
        claims: places.flat_map(goals).collect(),
        ..common(
            &ROUND_TRIPS,
            "Goodput by round trip",
            "How much of a wire does a sender get, however long it is, and whatever it does to frames?",
        )
    }
}

fn by_bandwidth(extent: Extent) -> Experiment {
    let (bandwidths, round_trips): (&[f64], &[f64]) = match extent {
        Extent::Full => (&[10.0, 100.0, 1_000.0], &[1.0, 20.0, 100.0, 200.0]),
        Extent::Quick => (&[10.0, 100.0], &[20.0]),
    };
    let pictures = round_trips.iter().map(|trip| {
        Picture::new(
            format!("Goodput by bandwidth: {trip} ms"),
            BANDWIDTH,
            SETTLED,
        )
        .log_x()
        .log_y()
        .at(ROUND_TRIP, &trip.to_string())
    });
    let places = bandwidths.iter().flat_map(|megabits| {
        round_trips.iter().map(|trip| {
            vec![
                (BANDWIDTH.into(), megabits.to_string()),
                (ROUND_TRIP.into(), trip.to_string()),
            ]
        })
    });
    Experiment {
        axes: vec![
            Axis::of_numbers(BANDWIDTH, "Mb/s", bandwidths),
            Axis::of_numbers(ROUND_TRIP, "ms", round_trips),
        ],
        pictures: pictures.collect(),
        claims: places.flat_map(goals).collect(),
        ..common(
            &BANDWIDTHS,
            "Goodput by bandwidth",
            "Does a sender fill a wire, however wide and long it is?",
        )
    }
}

/// What all of them have in common.
fn common(entry: &Entry, title: &str, question: &str) -> Experiment {
    Experiment {
        name: entry.name.into(),
        title: title.into(),
        question: format!(
            "{question} The kernel's CUBIC and BBR (version 1, which takes no notice of loss) and the \
             engine's (BBR is version 3 there), on the same wire with the same seeds."
        ),
        workload: format!(
            "One connection fetches a file of 32 MiB from nginx, over and over. If nothing else is said: a round trip of \
             {USUAL_ROUND_TRIP_MS} ms, {USUAL_MEGABITS} Mb/s each way. As much may wait as is on its way \
             ({} KB at least), a tenth of it in a short queue; bursts are of up to {BURST} frames. Both ends may \
             keep 32 MiB for a connection, on the kernel too, whose own limits are 4 and 6. From the beginning \
             of the connection on, its slow start included, and the second half of that alone.",
            LEAST_QUEUE / 1_000.0,
        ),
        roles: "nothing is pinned".into(),
        axes: Vec::new(),
        subjects: Sender::ALL.map(|sender| sender.name.into()).to_vec(),
        measures: vec![
            Measure::new(GOODPUT, "Mb/s"),
            Measure::new(SETTLED, "Mb/s"),
            Measure::new(LOST, "%"),
        ],
        pictures: Vec::new(),
        findings: Vec::new(),
        claims: Vec::new(),
        left_out: Vec::new(),
        model: None,
    }
}

/// What is to hold at a place, for each algorithm.
fn goals(at: Vec<(String, String)>) -> [Claim; 2] {
    let of = |engine: Sender, kernel: Sender| Claim {
        says: "The engine gets as much as the kernel by the same algorithm, but for a twentieth"
            .into(),
        citation: Citation::goal(),
        measure: GOODPUT.into(),
        subject: engine.name.into(),
        to: kernel.name.into(),
        at: at.clone(),
        ratio: Bound::AtLeast(LEAST),
    };
    [
        of(Sender::ENGINE_CUBIC, Sender::KERNEL_CUBIC),
        of(Sender::ENGINE_BBR, Sender::KERNEL_BBR),
    ]
}

struct Goodput {
    binary: PathBuf,
    subjects: BTreeMap<&'static str, Subject>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Goodput {
        binary: setup.binary.clone(),
        subjects: BTreeMap::new(),
    }))
}

impl Goodput {
    /// A subject by its name, made when it is first asked for.
    fn subject(&mut self, name: &str) -> Result<&Subject> {
        let sender = Sender::ALL.into_iter().find(|sender| sender.name == name);
        let sender = sender.with_context(|| format!("no sender {name}"))?;
        Ok(match self.subjects.entry(sender.name) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(room) => {
                room.insert(Subject::new(&self.binary, sender)?)
            }
        })
    }
}

impl Bench for Goodput {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        self.subject(at.subject).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let wire = wire(at);
        let fetch = Fetch {
            from: Side::Client.ipv4(),
            at: Nginx::address(),
        };
        let subject = self.subject(at.subject)?;
        let found = once(subject, wire, vec![fetch], at.window, at.seed)?;
        let mut sample = Sample::default()
            .by(found.client())
            .using(&found.used())
            .with(GOODPUT, found.goodput())
            .with(SETTLED, found.settled())
            .with(LOST, found.lost() * 100.0);
        let late = found.late().into_iter();
        sample
            .notes
            .extend(late.map(|passed| format!("The wire was late: {passed}")));
        Ok(sample)
    }
}

/// The wire of a measurement.
fn wire(at: &At<'_>) -> Wire {
    let number = |axis: &str, usual: f64| at.number(axis).unwrap_or(usual);
    let nature = at.word(NATURE).unwrap_or(CLEAN);
    let round_trip = Duration::from_secs_f64(number(ROUND_TRIP, USUAL_ROUND_TRIP_MS) / 1e3);
    let bandwidth = number(BANDWIDTH, USUAL_MEGABITS) * 1e6;
    let faults = match nature {
        RANDOM => Faults::losing(0.01, 1),
        BURSTS => Faults::losing(0.01, BURST),
        _ => Faults::losing(number(LOSS, 0.0) / 100.0, 1),
    };
    let on_its_way = bandwidth * round_trip.as_secs_f64() / 8.0;
    let part = if nature == SHORT { SHORT_QUEUE } else { 1.0 };
    Wire {
        faults,
        delay: round_trip / 2,
        bandwidth: Some(bandwidth as u64),
        queue: (on_its_way * part).max(LEAST_QUEUE) as usize,
    }
}
