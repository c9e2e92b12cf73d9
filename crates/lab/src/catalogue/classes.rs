//! 003, tables 4-1, 4-3 and 4-4 and figures 4-8 to 4-12: what a full server does with files of each class,
//! on the kernel and on the engine.

use super::apart;
use super::bed::{Bed, CLIENT_CORE, ROLES, STACKS};
use super::each::Each;
use super::rates::{SHARES, with_shares};
use super::{Entry, Extent, Setup, handshake, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::{Lines, Nginx};
use crate::workload::files::{self, File};
use crate::workload::surge::Popularity;
use crate::world::Side;
use anyhow::{Context, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "classes",
    source: "003",
    about: "a full server with files of class 0 to 4: connections a minute, set-up, goodput, CPU",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const CLASS: &str = "class";
const CONNECTIONS: &str = "connections";
const GOODPUT: &str = "goodput";
const SETUP: &str = "setting a connection up";
const ENGINE: &str = "CPU of the engine";
/// Files of a class, and the largest of class 4.
pub(super) const FILES: usize = 20;
pub(super) const LARGEST: u64 = 8 << 20;
/// What the files are drawn from, the same in every run.
pub(super) const SEED: u64 = 3;
/// Requests that are drawn before they begin again.
const DRAWN: usize = 1_000;
/// Clients at once.
const CLIENTS: usize = 32;

fn declare(_: Extent) -> Experiment {
    let claim = |says: &str, classes: &[&str], ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "003".into(),
            place: "figure 4-11".into(),
        },
        measure: CONNECTIONS.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: classes
            .iter()
            .map(|class| (CLASS.into(), (*class).into()))
            .collect(),
        ratio,
    };
    let saturation = |name: &str, points: [f64; 3]| Finding {
        name: name.into(),
        axis: CLASS.into(),
        measure: CONNECTIONS.into(),
        points: [2.0, 3.0, 4.0]
            .into_iter()
            .zip(points.map(|second| second * 60.0))
            .collect(),
        at: Vec::new(),
        citation: Citation {
            document: "003".into(),
            place: "table 4-1, its saturation points a second times 60".into(),
        },
    };
    let by_class = |name: &str, measure: &str, place: &str, points: [f64; 5]| Finding {
        name: name.into(),
        axis: CLASS.into(),
        measure: measure.into(),
        points: (0..5).map(f64::from).zip(points).collect(),
        at: Vec::new(),
        citation: Citation {
            document: "003".into(),
            place: place.into(),
        },
    };
    let mut measures = vec![
        Measure::new(CONNECTIONS, "1/min"),
        Measure::new(GOODPUT, "Mb/s"),
        Measure::new(SETUP, "ms"),
        Measure::new(ENGINE, "% of a core"),
    ];
    measures.extend(SHARES.map(|name| Measure::new(name, "%")));
    Experiment {
        name: ENTRY.name.into(),
        title: "A full server, by class of file".into(),
        question: "From which size on does offloading gain? In 003 it lost 6 % and 1 % of the \
            connections for files up to 1 KB and 10 KB, and won 21 %, 62 % and 66 % above."
            .into(),
        workload: format!(
            "{CLIENTS} clients without pauses, a connection for each request; {FILES} files of SURGE's \
             sizes in each class (class 4 up to {LARGEST} bytes), asked for by Zipf's law. Setting a \
             connection up: from the SYN to its answer, by the clock of the client's kernel, for a few \
             connections besides; the median. The source: WebStone, Apache, three runs of ten minutes."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(CLASS, "", &[0.0, 1.0, 2.0, 3.0, 4.0])],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![
            Picture::new(
                "Connections a minute (003, figure 4-11)",
                CLASS,
                CONNECTIONS,
            )
            .log_y(),
            Picture::new("Goodput (003, figure 4-12)", CLASS, GOODPUT).log_y(),
            Picture::new("Setting a connection up (003, table 4-3)", CLASS, SETUP).log_y(),
            Picture::new("CPU of the engine (003, figure 4-10)", CLASS, ENGINE),
            Picture::new(
                "Time in softirq (003, figures 4-8 and 4-9)",
                CLASS,
                "softirq",
            ),
            Picture::new(
                "Time in the kernel (003, figures 4-8 and 4-9)",
                CLASS,
                "sys",
            ),
            Picture::new("Time in programs (003, figures 4-8 and 4-9)", CLASS, "usr"),
            Picture::new(
                "Time in interrupts (003, figures 4-8 and 4-9)",
                CLASS,
                "irq",
            ),
        ],
        findings: [
            saturation("Apache without an engine", [300.0, 100.0, 12.0]),
            saturation("Apache with the emulated engine", [350.0, 300.0, 40.0]),
            by_class(
                "Apache without an engine",
                GOODPUT,
                "table 4-4, with K = 1,024",
                [2.600_141, 11.408_507, 65.431_142, 164.416_717, 208.037_478],
            ),
            by_class(
                "Apache with the emulated engine",
                GOODPUT,
                "table 4-4, with K = 1,024",
                [2.097_152, 11.324_621, 85.563_802, 390.070_272, 621.595_853],
            ),
            by_class(
                "Apache without an engine",
                SETUP,
                "table 4-3",
                [0.27, 0.28, 0.28, 0.28, 0.29],
            ),
            by_class(
                "Apache with the emulated engine",
                SETUP,
                "table 4-3",
                [0.09, 0.08, 0.09, 0.12, 0.78],
            ),
            by_class(
                "the engine's machine there",
                ENGINE,
                "figure 4-10: what its text does not call idle",
                [20.0, 23.0, 32.0, 98.0, 98.0],
            ),
        ]
        .into_iter()
        .chain(host_shares())
        .collect(),
        left_out: Vec::new(),
        model: None,
        claims: vec![
            claim(
                "Offloading gains for files above 10 KB",
                &["2", "3", "4"],
                Bound::AtLeast(1.0),
            ),
            claim(
                "Offloading loses for files up to 10 KB",
                &["0", "1"],
                Bound::AtMost(1.0),
            ),
            Claim {
                citation: Citation {
                    document: "003".into(),
                    place: "table 4-3".into(),
                },
                measure: SETUP.into(),
                ..claim(
                    "A connection is set up faster, but for the largest files",
                    &["0", "1", "2", "3"],
                    Bound::AtMost(1.0),
                )
            },
        ],
    }
}

/// What the text of 003 says of its host's CPU. What it says of its engine's machine is of a core that the engine has
/// for itself; here it has the server's.
fn host_shares() -> Vec<Finding> {
    let (without, with) = (
        "Apache without an engine",
        "Apache with the emulated engine",
    );
    let found = |name: &str, measure: &str, figure: &str, first: u32, shares: &[f64]| Finding {
        name: name.into(),
        axis: CLASS.into(),
        measure: measure.into(),
        points: (first..)
            .map(f64::from)
            .zip(shares.iter().copied())
            .collect(),
        at: Vec::new(),
        citation: Citation {
            document: "003".into(),
            place: format!("figure {figure}, by its text"),
        },
    };
    vec![
        found(without, "usr", "4-8", 0, &[33.0, 31.0, 24.0]),
        found(without, "irq", "4-8", 3, &[27.0, 34.0]),
        found(with, "usr", "4-9", 0, &[44.0; 5]),
        found(with, "softirq", "4-9", 0, &[7.5; 5]),
        found(with, "irq", "4-9", 0, &[10.3, 10.3, 10.3, 10.3, 2.0]),
    ]
}

struct Classes {
    beds: Each<Bed>,
    sets: Vec<Vec<File>>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let (beds, sets) = beds(setup)?;
    Ok(Box::new(Classes { beds, sets }))
}

/// Those that are asked for with nginx, and the files that it serves, by class.
pub(super) fn beds(setup: &Setup) -> Result<(Each<Bed>, Vec<Vec<File>>)> {
    let sets: Vec<Vec<File>> = (0..5)
        .map(|class| files::surge_class(class, FILES, LARGEST, SEED))
        .collect();
    let fill = |site: &Path| -> Result<Lines> {
        let mut sets = sets.iter();
        sets.try_for_each(|set| files::write(set, site, SEED))?;
        Ok(String::new().into())
    };
    let beds = Each::of(setup, |subject| apart::bed(setup, subject)?.serving(fill))?;
    Ok((beds, sets))
}

impl Bench for Classes {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.beds.get(at.subject)?;
        let class = at.number(CLASS)? as usize;
        let set = self.sets.get(class).context("no such class")?;
        let full = || saturate(bed, set, at.seed, at.window);
        let (((rate, bytes), setup), cost) = bed.account(|| handshake::beside(bed, full))?;
        let mut sample = cost
            .sample(at.window)
            .with(CONNECTIONS, rate * 60.0)
            .with(GOODPUT, bytes * 8.0 / 1e6);
        if let Some(setup) = setup {
            sample = sample.with(SETUP, setup.as_secs_f64() * 1e3);
        }
        if cost.spent.engine.is_some() {
            let part = cost.engine().as_secs_f64() / cost.spent.passed.as_secs_f64().max(1e-9);
            sample = sample.with(ENGINE, 100.0 * part);
        }
        Ok(with_shares(sample, &cost))
    }
}

/// Requests and bytes a second of clients without pauses.
pub(super) fn saturate(bed: &Bed, set: &[File], seed: u64, window: Duration) -> Result<(f64, f64)> {
    let script = script(bed, set, seed)?;
    let printed = bed
        .world()
        .program(Side::Client, "wrk")
        .on_core(CLIENT_CORE)
        .args(["-t1", &format!("-c{CLIENTS}"), "-H", "Connection: close"])
        .arg(format!("-d{}", window.as_secs().max(1)))
        .arg("-s")
        .arg(&script)
        .arg(format!("http://{}", Nginx::address()))
        .output()?;
    let rate = wrk::read(&printed).with_context(|| format!("wrk said: {printed}"))?;
    let bytes = wrk::bytes_a_second(&printed).context("wrk does not say how many bytes")?;
    Ok((rate, bytes))
}

/// A program of wrk's that asks for the files of a set, the first most often; the same requests for
/// the same seed.
fn script(bed: &Bed, set: &[File], seed: u64) -> Result<PathBuf> {
    let popularity = Popularity::of(set.len())?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let names: Vec<String> = (0..DRAWN)
        .map(|_| format!("\"/{}\"", set[popularity.sample(&mut random)].name))
        .collect();
    let text = format!(
        "local paths = {{{}}}\nlocal at = 0\nfunction request()\n  at = at % #paths + 1\n  \
         return wrk.format(\"GET\", paths[at])\nend\n",
        names.join(",")
    );
    let path = bed.world().scratch().join("requests.lua");
    std::fs::write(&path, text)?;
    Ok(path)
}
