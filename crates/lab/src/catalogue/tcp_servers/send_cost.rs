//! 001, section 6.2.2: what a send costs the program that makes it, by its size.

use super::super::{Entry, Extent, Setup};
use super::{Beds, PLACE, PLACES, cited, number, peer, read, subject};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::{Context, Result, bail};

pub const ENTRY: Entry = Entry {
    name: "send-cost",
    source: "001",
    about: "what a send costs its program, by size: kernel, interposer and native ways",
    needs: &["taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "send";
const COST: &str = "cost of a send";
const WAITING: &str = "of it, waiting";
const SENDER: &str = "CPU of the sender, a send";
const ENGINE: &str = "CPU of the engine, a send";
/// What a report calls each, how the program is told of it, and how many sends a batch has: what waits
/// for each send has one.
const SUBJECTS: [(&str, &str, usize); 5] = [
    (KERNEL, "sockets", 8),
    ("interposer", "sockets", 8),
    (SYNCHRONOUS, "synchronous", 1),
    ("copying", "copying", 8),
    (REGISTERED, "registered", 8),
];
const KERNEL: &str = "kernel";
const INTERPOSER: usize = 1;
const SYNCHRONOUS: &str = "synchronous";
const REGISTERED: &str = "registered";
/// The sizes of table 6.2.
const SIZES: [f64; 8] = [
    64.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0,
];

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &[64.0, 16_384.0] } else { &SIZES[..] };
    let places = PLACES.map(|(name, _)| name);
    let apart = places[1];
    let claim = |says: &str, citation, subject: &str, size: &str, ratio| Claim {
        says: says.into(),
        citation,
        measure: COST.into(),
        subject: subject.into(),
        to: KERNEL.into(),
        at: vec![(SIZE.into(), size.into()), (PLACE.into(), apart.into())],
        ratio,
    };
    let picture = |title: &str, measure: &str| {
        Picture::new(title, SIZE, measure)
            .log_x()
            .log_y()
            .at(PLACE, apart)
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "What a send costs its program".into(),
        question: "How long is a program in a call that sends, and what of that is left when another \
            processor does the rest? 001 found 29 µs for 64 bytes on the kernel, 90 if the call waits \
            for the other processor, and 7.6 if it does not."
            .into(),
        workload: "Batches of eight sends (one, if each is waited for), for which the buffers have room; \
            then the peer, on the kernel's TCP, answers with a byte, and the next batch follows. Only the \
            sends are timed; the median over batches is told. TCP_NODELAY is set. Synchronous here is from \
            registered memory and returns when the peer has acknowledged, which is later than the \
            source's, whose send returned when the other processor had taken it. Copying and registered sends come back by \
            cookies, which are taken outside of the time and inside of the CPU."
            .into(),
        roles: "the sender on core 0, its peer on core 1; the engine on either".into(),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            Axis::of_words(PLACE, if quick { &places[1..] } else { &places }),
        ],
        subjects: SUBJECTS.map(|(name, ..)| name.to_owned()).to_vec(),
        measures: vec![
            Measure::new(COST, "ns"),
            Measure::new(WAITING, "ns"),
            Measure::new(SENDER, "ns"),
            Measure::new(ENGINE, "ns"),
        ],
        pictures: vec![
            picture("Cost of a send (001, figure 6.1)", COST),
            picture("Waiting in a send (001, figure 6.2)", WAITING),
            picture("CPU of the sender, a send", SENDER),
            picture("CPU of the engine, a send", ENGINE),
        ],
        findings: findings(),
        claims: vec![
            claim(
                "A synchronous send of 64 bytes takes longer than the kernel's",
                cited("table 6.2"),
                SYNCHRONOUS,
                "64",
                Bound::AtLeast(1.0),
            ),
            claim(
                "An asynchronous send of 16 KB takes a twentieth of the kernel's at most",
                Citation::goal(),
                REGISTERED,
                "16384",
                Bound::AtMost(0.05),
            ),
            claim(
                "An asynchronous send of 64 bytes takes a tenth of the kernel's at most",
                Citation::goal(),
                REGISTERED,
                "64",
                Bound::AtMost(0.1),
            ),
        ],
        model: None,
    }
}

struct SendCost {
    setup: Setup,
    beds: Beds,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(SendCost {
        setup: setup.clone(),
        beds: Beds::new(setup)?,
    }))
}

impl Bench for SendCost {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let index = SUBJECTS.iter().position(|(name, ..)| *name == at.subject);
        let index = index.with_context(|| format!("no subject {}", at.subject))?;
        let (_, way, batch) = SUBJECTS[index];
        let is_kernel = at.subject == KERNEL;
        let bed = self.beds.get(is_kernel, at.word(PLACE)?)?;
        let size = at.number(SIZE)? as usize;
        let program = subject(&self.setup, bed, index == INTERPOSER)
            .args(["send", "--way", way])
            .args(["--size", at.word(SIZE)?, "--batch", &batch.to_string()])
            .args(["--seconds", &at.window.as_secs().max(1).to_string()]);
        let ((_, printed), cost) = bed.account(|| {
            peer::with(
                bed,
                |stream| peer::acknowledge(stream, batch * size),
                |address| program.args(["--to", &address.to_string()]).output(),
            )
        })?;
        let found = read(&printed)?;
        let mut sample = Sample::default()
            .with(COST, number(&found, "call_ns")?)
            .with(SENDER, number(&found, "cpu_ns")?);
        if at.subject == SYNCHRONOUS {
            sample = sample.with(WAITING, number(&found, "wait_ns")?);
        }
        if !is_kernel {
            let engine = cost.spent.engine.context("no account of the engine's")?;
            if engine.batch == 0.0 {
                bail!("the connection was not on the engine");
            }
            let sends = number(&found, "all_sends")?;
            sample = sample.with(ENGINE, 1e9 * engine.busy / sends);
        }
        Ok(sample)
    }
}

/// Tables 6.2 and 6.3, whose figures are microseconds.
fn findings() -> Vec<Finding> {
    let finding = |name: &str, measure: &str, place: &str, points: &[(f64, f64)]| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: measure.into(),
        points: points
            .iter()
            .map(|(size, microseconds)| (*size, 1_000.0 * microseconds))
            .collect(),
        citation: cited(place),
    };
    let column = |name: &str, figures: [f64; 8]| {
        let points: Vec<_> = SIZES.into_iter().zip(figures).collect();
        finding(name, COST, "table 6.2", &points)
    };
    vec![
        column(
            "regular there",
            [29.0, 30.0, 32.0, 36.0, 49.0, 72.0, 134.0, 242.0],
        ),
        column(
            "synchronous there",
            [90.0, 95.0, 99.0, 118.0, 142.0, 183.0, 285.0, 496.0],
        ),
        column(
            "asynchronous there",
            [7.56, 7.47, 7.73, 8.13, 8.34, 8.62, 9.11, 9.29],
        ),
        finding(
            "synchronous there",
            WAITING,
            "table 6.3, SendWait and RecvWait",
            &[
                (64.0, 8.15 + 74.76),
                (1_024.0, 21.33 + 91.12),
                (4_096.0, 51.9 + 112.83),
                (16_384.0, 183.36 + 308.59),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{COST, WAITING, findings};

    /// What a synchronous send waits in table 6.3 is what table 6.2 has for the whole, but for the processing and
    /// the posting.
    #[test]
    fn the_sources_parts_fit_its_whole() {
        let found = findings();
        let whole = &found[1];
        let parts = found.iter().find(|finding| finding.measure == WAITING);
        for (size, waiting) in &parts.unwrap().points {
            let all = whole.points.iter().find(|(known, _)| known == size);
            let part = waiting / all.unwrap().1;
            assert!((0.89..1.0).contains(&part), "{size}: {part}");
        }
        assert!(
            found
                .iter()
                .filter(|f| f.measure == COST)
                .all(|f| f.points.len() == 8)
        );
    }
}
