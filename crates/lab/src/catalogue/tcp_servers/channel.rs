//! 001, table 6.1: the channel between a program and its engine by itself.

use super::super::bed::{Bed, CLIENT_CORE, STACKS};
use super::super::{Entry, Extent, Setup};
use super::{cited, number, read, subject};
use crate::experiment::declaration::{Axis, Bound, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::world::World;
use anyhow::Result;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "channel",
    source: "001",
    about: "the queue pair by itself: latency, bandwidth, posting; registering memory",
    needs: &["taskset"],
    seconds: (4, 2),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "transfer";
const ONE_WAY: &str = "one-way latency";
const RATE: &str = "bandwidth";
const POST: &str = "posting";
const REGISTER: &str = "registering";
/// Both ends look all the time, or sleep until the other rings.
const POLLS: &str = "polls";
const WAITS: &str = "waits";
/// A word, and what table 6.1 has.
const SIZES: [f64; 6] = [8.0, 64.0, 1_024.0, 4_096.0, 16_384.0, 32_768.0];

fn declare(extent: Extent) -> Experiment {
    let sizes = match extent {
        Extent::Quick => &[8.0, 4_096.0, 32_768.0],
        Extent::Full => &SIZES[..],
    };
    let picture = |title: &str, measure: &str| Picture::new(title, SIZE, measure).log_x().log_y();
    let finding = |name: &str, measure: &str, size: f64, figure: f64| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: measure.into(),
        points: vec![(size, figure)],
        at: Vec::new(),
        citation: cited("table 6.1"),
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "The channel between a program and its engine".into(),
        question: "What do a transfer and its parts take without TCP? 001 measured its memory-mapped network: \
            8.2 µs for a word one way, 102 MB/s in pieces of 32 KB, 2.1 µs to post, 4.3 µs to register 4 KB."
            .into(),
        workload: "Two threads with a region between them as a program and its engine have: the bytes are \
            copied in, posted, taken and copied out, and as many come back, of which half the median is told. \
            Bandwidth is with 16 transfers under way. Posting is an entry of the ring, its publication, and the \
            look whether the other side sleeps. Registering takes a piece of the memory that a program shares with its engine"
            .into(),
        roles: "one end on core 0, the other on core 1; the engine whose memory is registered on core 1".into(),
        axes: vec![Axis::of_numbers(SIZE, "B", sizes)],
        subjects: vec![POLLS.into(), WAITS.into()],
        measures: vec![
            Measure::new(ONE_WAY, "µs"),
            Measure::new(RATE, "Mb/s"),
            Measure::new(POST, "ns"),
            Measure::new(REGISTER, "µs"),
        ],
        pictures: vec![
            picture("One-way latency of the channel (001, tables 6.1 and 6.4)", ONE_WAY),
            picture("Bandwidth of the channel (001, table 6.1)", RATE),
            picture("Posting (001, table 6.1)", POST),
            Picture::new("Registering (001, table 6.1)", SIZE, REGISTER).log_x(),
        ],
        findings: vec![
            finding("a word there", ONE_WAY, 8.0, 8.2),
            finding("32 KB there", RATE, 32_768.0, 8.0 * 102.0),
            finding("4 KB there", POST, 4_096.0, 2_100.0),
            finding("4 KB there", REGISTER, 4_096.0, 4.3),
        ],
        claims: vec![Claim {
            says: "Polling takes no longer than waiting".into(),
            citation: cited("table 6.4"),
            measure: ONE_WAY.into(),
            subject: POLLS.into(),
            to: WAITS.into(),
            at: Vec::new(),
            ratio: Bound::AtMost(1.0),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Channel {
    setup: Setup,
    bed: Bed,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Channel {
        setup: setup.clone(),
        bed: Bed::with_engine_on(setup, STACKS[1], World::new()?, CLIENT_CORE)?,
    }))
}

impl Bench for Channel {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let seconds = at.window.as_secs().max(1).to_string();
        let mut program = subject(&self.setup, &self.bed, false)
            .args(["channel", "--size", at.word(SIZE)?])
            .args(["--seconds", &seconds]);
        if at.subject == WAITS {
            program = program.arg("--wait");
        }
        let (printed, cost) = self.bed.account(|| program.output())?;
        let found = read(&printed)?;
        // There is nobody else: who waits for the channel is who is measured.
        let used = cost.of_child(Duration::ZERO).used();
        Ok(Sample::default()
            .using(&used)
            .with(ONE_WAY, number(&found, "one_way_ns")? / 1e3)
            .with(RATE, 8.0 * number(&found, "bytes_per_second")? / 1e6)
            .with(POST, number(&found, "post_ns")?)
            .with(REGISTER, number(&found, "register_ns")? / 1e3))
    }
}
