//! 003, tables 4-1, 4-3 and 4-4 and figures 4-8 to 4-12: what a full server does with files of each class,
//! on the kernel, on the engine, on an engine that has another core, and on a kernel with as many cores as that; and on
//! a kernel with its receive work on the server's core, which no client's core holds up.

use super::apart::{self, APART};
use super::bed::{Bed, CLIENT_CORE, RECEIVED, STACKS};
use super::class_figures::{
    self as figures, CLASS, CONNECTIONS, ENGINE, GOODPUT, IDLE, ITS_SHARES, SETUP, SOFTIRQ, SYS,
    USR,
};
use super::each::Each;
use super::rates::{SHARES, with_shares};
use super::{Entry, Extent, Setup, handshake, offered, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
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

/// Files of a class, and the largest of class 4.
pub(super) const FILES: usize = 20;
pub(super) const LARGEST: u64 = 8 << 20;
/// What the files are drawn from, the same in every run.
pub(super) const SEED: u64 = 3;
/// Requests that are drawn before they begin again.
const DRAWN: usize = 1_000;
/// Clients at once.
const CLIENTS: usize = 32;

fn declare(extent: Extent) -> Experiment {
    let measured: &[f64] = match extent {
        Extent::Full => &[0.0, 1.0, 2.0, 3.0, 4.0],
        Extent::Quick => &[0.0, 2.0, 3.0, 4.0],
    };
    let is_measured = |class: &&&str| measured.iter().any(|known| known.to_string() == **class);
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
            .filter(is_measured)
            .map(|class| (CLASS.into(), (*class).into()))
            .collect(),
        ratio,
    };
    let cores = apart::cores_here();
    let mut measures = vec![
        Measure::new(CONNECTIONS, "1/min"),
        Measure::new(GOODPUT, "Mb/s"),
        Measure::new(SETUP, "ms"),
        Measure::new(ENGINE, "% of a core"),
    ];
    measures.extend(SHARES.map(|name| Measure::new(name, "%")));
    measures.extend(ITS_SHARES.map(|name| Measure::new(name, "%")));
    let its = |share: &str, measure: &str| {
        let title = format!("The core of an engine apart: {share} (003, figure 4-10)");
        Picture::new(title, CLASS, measure)
    };
    let mut experiment = Experiment {
        name: ENTRY.name.into(),
        title: "A full server, by class of file".into(),
        question: "From which size on does offloading gain? In 003 it lost 6 % and 1 % of the \
            connections for files up to 1 KB and 10 KB, and won 21 %, 62 % and 66 % above."
            .into(),
        workload: format!(
            "{CLIENTS} clients without pauses, a connection for each request; {FILES} files of SURGE's \
             sizes in each class (class 4 up to {LARGEST} bytes), asked for by Zipf's law. Setting a \
             connection up: from the SYN to its answer, by the clock of the client's kernel, for a few \
             connections besides; the median. The shares of the engine's core are those of all that is there. The source: WebStone, Apache, three runs of ten minutes."
        ),
        roles: roles(cores, extent),
        axes: vec![Axis::of_numbers(CLASS, "", measured)],
        subjects: subjects(extent),
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
            its("softirq", SOFTIRQ),
            its("in the kernel", SYS),
            its("idle", IDLE),
            its("in programs", USR),
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
        findings: figures::findings(),
        left_out: apart::left_out(cores),
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
    };
    // What the source has of it in numbers, of the classes that are measured.
    let changes = figures::CHANGES.iter().map(|(class, change)| {
        let percent = (100.0 * (change - 1.0)).round();
        let ratio = match *change < 1.0 {
            true => Bound::AtMost(*change),
            false => Bound::AtLeast(*change),
        };
        claim(
            &format!("Offloading changes class {class} by {percent:+} %, or more"),
            &[class],
            ratio,
        )
    });
    let changes: Vec<Claim> = changes.filter(|claim| !claim.at.is_empty()).collect();
    experiment.claims.extend(changes);
    let apart = apart::claims(&experiment.claims, "by an engine on another core", extent);
    experiment.claims = offered::as_in_the_source(extent, experiment.claims);
    experiment.claims.extend(apart);
    experiment
}

/// All that are compared: over a veth the client's core does half of the kernel's work, and is the limit before a server
/// of small files is. So in full there is a kernel that does all of it on the server's core, too.
fn subjects(extent: Extent) -> Vec<String> {
    let mut subjects = apart::subjects(extent);
    if extent == Extent::Full {
        subjects.push(RECEIVED.into());
    }
    subjects
}

/// Who is where, on a machine with so many cores.
fn roles(cores: usize, extent: Extent) -> String {
    let roles = apart::roles(cores);
    match extent {
        Extent::Quick => roles,
        Extent::Full => format!("{roles}; {}", offered::WHERE_RECEIVED),
    }
}

struct Classes {
    beds: Each<Bed>,
    sets: Vec<Vec<File>>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let (beds, sets) = beds(setup)?;
    Ok(Box::new(Classes { beds, sets }))
}

/// All of them with nginx, as far as they are asked for, and the files that it serves, by class.
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
        if at.subject == APART {
            let core = apart::core_of_its_own(apart::cores_here());
            let core = cost.spent.cores.core(core);
            let core = core.context("the engine's core has no account")?;
            let shares = core.shares(cost.spent.passed.as_secs_f64());
            for (name, (_, share)) in ITS_SHARES.iter().zip(shares) {
                sample = sample.with(name, share);
            }
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

#[cfg(test)]
mod tests {
    use super::figures::CHANGES;
    use super::{
        APART, Bound, CLASS, Claim, Extent, ITS_SHARES, RECEIVED, SHARES, STACKS, declare,
    };
    use crate::sampler::cores::Times;

    #[test]
    fn shares_of_the_engines_core_are_named_as_those_of_the_servers() {
        let names = Times::default().shares(1.0).map(|(name, _)| name);
        assert_eq!(names, SHARES);
        assert_eq!(
            ITS_SHARES,
            SHARES.map(|name| format!("engine's core: {name}"))
        );
    }

    /// Of a class that a first impression leaves out nothing is claimed.
    #[test]
    fn claims_are_of_classes_that_are_measured_for_each_engine() {
        for (extent, classes) in [(Extent::Full, 5), (Extent::Quick, 4)] {
            let declared = declare(extent);
            assert_eq!(declared.axis(CLASS).unwrap().levels.len(), classes);
            assert_eq!(declared.mistakes(), Vec::<String>::new());
            assert!(declared.claims.iter().all(|claim| !claim.at.is_empty()));
            // A first impression has no kernel with as many cores.
            let times = if extent == Extent::Full { 2 } else { 1 };
            for (class, change) in CHANGES {
                let at = [(CLASS.to_owned(), class.to_owned())];
                let of_class = declared.claims.iter().filter(|it| it.at == at);
                let is_told = |claim: &&Claim| match claim.ratio {
                    Bound::AtLeast(bound) | Bound::AtMost(bound) => bound == change,
                };
                let is_measured = declared.axis(CLASS).unwrap().place_of(class).is_some();
                // Beside the kernel and one that receives on its core, and each engine apart.
                let each = if is_measured { 2 * times } else { 0 };
                assert_eq!(of_class.filter(is_told).count(), each, "{class}");
            }
            let of = |subject: &str, to: &str| {
                let claims = declared.claims.iter();
                let claims = claims.filter(|it| it.subject == subject && it.to == to);
                claims.count()
            };
            let all = declared.claims.iter();
            let apart = all.filter(|it| it.subject == APART).count();
            assert_eq!(apart, times * of(STACKS[1], STACKS[0]));
            let received = of(STACKS[1], RECEIVED);
            let is_measured = declared.subjects.iter().any(|name| name == RECEIVED);
            assert_eq!(is_measured, extent == Extent::Full);
            assert_eq!(received, (times - 1) * of(STACKS[1], STACKS[0]));
            assert_eq!(declared.roles.contains("received on its core"), is_measured);
        }
    }
}
