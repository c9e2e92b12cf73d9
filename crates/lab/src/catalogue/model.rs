//! 003, figures 4-1 to 4-7 and table 4-2: busy share and time of a request over load, by class of
//! file, and queueing models that have seen some of the loads and are held against the others: of one stage, and of
//! two where the engine has a core of its own.

use super::apart::{self, APART, QUICK as ALWAYS, TWO_CORES};
use super::bed::{Bed, CLIENT_CORE, SERVER_CORE, STACKS};
use super::class_figures::{AGREEMENT, Agreement, SATURATION};
use super::classes::{self, FILES, LARGEST, SEED};
use super::each::Each;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{
    Axis, Bound, Citation, Claim, Finding, Measure, Model, Picture, Second, There,
};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::{Asked, Load};
use crate::nginx::Nginx;
use crate::whole_file;
use crate::workload::arrivals::poisson;
use crate::workload::files::File;
use crate::workload::surge::Popularity;
use anyhow::{Context, Result, bail};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "model",
    source: "003",
    about: "busy share and time of a request by load and class, beside a model fitted to other loads",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const CLASS: &str = "class";
const LOAD: &str = "load";
const DELAY: &str = "time of a request";
const UTILISATION: &str = "busy share of the server's core";
const ENGINE: &str = "busy share of the engine";
const RATE: &str = "requests";
/// What 99 % of the requests took at most, as runs call it.
pub const HIGH: &str = "time of a request, 99 %";
/// Connections at once, at most.
const CONNECTIONS: usize = 512;
/// Requests that are drawn before they begin again.
const DRAWN: usize = 4_096;

/// Loads, in percent of what both stacks can carry.
const LOADS: [f64; 6] = [10.0, 25.0, 40.0, 55.0, 70.0, 80.0];
/// Those of a first impression, of which it sees three.
const QUICK: [f64; 4] = [10.0, 25.0, 40.0, 70.0];
/// Those that the model does not see: between those that it sees, and beyond them.
const HELD: [&str; 3] = ["25", "55", "80"];

fn declare(extent: Extent) -> Experiment {
    let (classes, loads): (&[f64], _) = match extent {
        Extent::Full => (&[0.0, 1.0, 2.0, 3.0, 4.0], &LOADS[..]),
        Extent::Quick => (&[3.0], &QUICK[..]),
    };
    let claim = |says: &str, place: &str, measure: &str, classes: &[&str], ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "003".into(),
            place: place.into(),
        },
        measure: measure.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: classes
            .iter()
            .map(|class| (CLASS.into(), (*class).into()))
            .collect(),
        ratio,
    };
    let known = |wanted: &[&'static str]| -> Vec<&'static str> {
        let is_there = |class: &&str| classes.iter().any(|known| known.to_string() == *class);
        wanted.iter().copied().filter(is_there).collect()
    };
    let (small, large) = (known(&["0", "1"]), known(&["2", "3", "4"]));
    let has_classes = |claim: &Claim| !claim.at.is_empty();
    let cores = apart::cores_here();
    let shares = (apart::core_of_its_own(cores) == CLIENT_CORE).then(|| "the client".into());
    let mut experiment = Experiment {
        name: ENTRY.name.into(),
        title: "Busy share and time of a request over load, and what a model says of it".into(),
        question: "Does a queueing model, fitted to some loads, say what happens at others? 003 drew \
            its model beside what it measured and tested a dozen means by Kolmogorov and Smirnov, which \
            delays half as long again would have passed. Here the model sees some loads only, and is \
            held against the others: the busy share within 10 %, the time of a request within 15 %, or \
            within the run's own interval. Where the engine shares its server's core one queue is fitted, and two in \
            a row, the source's system, where it has another. To a kernel that receives on another core none is fitted: \
            what it does there is in no busy share of its server's."
            .into(),
        workload: format!(
            "arrivals by Poisson, a connection for each request, at most {CONNECTIONS} at once; {FILES} \
             files of SURGE's sizes in each class (class 4 up to {LARGEST} bytes), asked for by Zipf's \
             law; loads in percent of what the slowest of kernel and engines carries. Times from when a request \
             was due. The engine's busy share is its run time on a core, as far as it was not looking for work. The \
             source: WebStone with exponential pauses, Apache. Its figures 4-1 to 4-7 have no numbers in its text, so none of \
             its points can be drawn beside ours; its table 4-2 stands beside our tests, and of table 4-1 where it was \
             saturated."
        ),
        roles: apart::roles(cores),
        axes: vec![
            Axis::of_numbers(CLASS, "", classes),
            Axis::of_numbers(LOAD, "%", loads),
        ],
        subjects: apart::subjects(extent),
        measures: vec![
            Measure::new(DELAY, "ms"),
            Measure::new(UTILISATION, "%"),
            Measure::new(ENGINE, "%"),
            Measure::new(RATE, "1/s"),
            Measure::new(HIGH, "ms"),
        ],
        pictures: classes
            .iter()
            .map(|class| {
                let title = format!("Requests a second by load, class {class}");
                let picture = Picture::new(title, LOAD, RATE);
                picture.at(CLASS, &class.to_string())
            })
            .collect(),
        findings: Vec::<Finding>::new(),
        // Where none of its classes is measured a claim would be one of all.
        claims: [
            claim(
                "The engine's host is busier for files up to 10 KB",
                "figure 4-1",
                UTILISATION,
                &small,
                Bound::AtLeast(1.0),
            ),
            claim(
                "The engine's host is less busy for files above 10 KB",
                "figure 4-2; there the engine had a machine of its own, here it shares the core",
                UTILISATION,
                &large,
                Bound::AtMost(1.0),
            ),
            claim(
                "A request takes longer on the engine for files up to 10 KB",
                "figures 4-3 and 4-4",
                DELAY,
                &small,
                Bound::AtLeast(1.0),
            ),
            claim(
                "A request takes less time on the engine for files above 10 KB",
                "figures 4-5 to 4-7",
                DELAY,
                &large,
                Bound::AtMost(1.0),
            ),
        ]
        .into_iter()
        .filter(has_classes)
        .collect(),
        left_out: apart::left_out(cores),
        model: Some(Model {
            axis: LOAD.into(),
            rate: RATE.into(),
            utilisation: UTILISATION.into(),
            delay: DELAY.into(),
            held: HELD.map(String::from).to_vec(),
            shared_cores: true,
            second: Some(Second {
                subjects: vec![APART.into()],
                utilisation: ENGINE.into(),
                shares,
            }),
            there: there(),
            without: apart::subjects(extent)
                .into_iter()
                .filter(|subject| subject == TWO_CORES)
                .collect(),
        }),
    };
    let apart = apart::claims(&experiment.claims, "which has another core", extent);
    experiment.claims.extend(apart);
    experiment
}

/// Table 4-2, and of table 4-1 where each was saturated. The source's engine had a machine of its own: of ours one apart
/// is like it, and one that shares a core as far as it goes.
fn there() -> Vec<There> {
    let saturation = |class: u32, with_engine: bool| {
        let mut rows = SATURATION.iter();
        let (_, without, with) = rows.find(|(known, ..)| *known == class)?;
        Some(if with_engine { *with } else { *without })
    };
    let row = |agreement: &Agreement| {
        let subjects: &[&str] = match agreement.with_engine {
            true => &[STACKS[1], APART],
            false => &STACKS[..1],
        };
        let Agreement {
            with_engine,
            class,
            distance,
            p,
        } = *agreement;
        let each = subjects.iter().map(move |subject| There {
            subject: (*subject).into(),
            at: vec![(CLASS.into(), class.to_string())],
            distance,
            p,
            saturation: saturation(class, with_engine),
        });
        each.collect::<Vec<There>>()
    };
    AGREEMENT.iter().flat_map(row).collect()
}

struct Loads {
    beds: Each<Bed>,
    sets: Vec<Vec<File>>,
    /// Requests a second that the slowest of all carries, by class, once it is known.
    carried: Carried,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    // A load is a part of what the slowest one carries, also in a run that leaves out one of them.
    let asked = setup.subjects.iter().map(String::as_str);
    let asked = asked.filter(|subject| !ALWAYS.contains(subject));
    let subjects = ALWAYS.into_iter().chain(asked);
    let setup = &Setup {
        subjects: subjects.map(String::from).collect(),
        ..setup.clone()
    };
    let (beds, sets) = classes::beds(setup)?;
    Ok(Box::new(Loads {
        beds,
        sets,
        carried: Carried::open(&setup.kept)?,
    }))
}

/// What loads are percents of. It is kept in the directory of the run, so that a load is the same one
/// when the run goes on.
struct Carried {
    known: BTreeMap<usize, f64>,
    file: PathBuf,
}

impl Carried {
    fn open(directory: &Path) -> Result<Self> {
        let file = directory.join("carried.json");
        let known = match std::fs::read_to_string(&file) {
            Ok(text) => {
                serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        Ok(Self { known, file })
    }

    fn add(&mut self, class: usize, rate: f64) -> Result<()> {
        self.known.insert(class, rate);
        let text = serde_json::to_string_pretty(&self.known)?;
        let written = whole_file::keep(&self.file, &text);
        written.with_context(|| format!("cannot write {}", self.file.display()))
    }
}

impl Loads {
    fn carried(&mut self, class: usize, window: Duration) -> Result<f64> {
        if let Some(known) = self.carried.known.get(&class) {
            return Ok(*known);
        }
        let set = self.sets.get(class).context("no such class")?;
        let mut least = f64::INFINITY;
        for subject in ALWAYS {
            let bed = self.beds.get(subject)?;
            let (rate, _) = classes::saturate(bed, set, SEED, window)?;
            least = least.min(rate);
        }
        self.carried.add(class, least)?;
        Ok(least)
    }
}

impl Bench for Loads {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        let class = at.number(CLASS)? as usize;
        self.carried(class, at.window).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let class = at.number(CLASS)? as usize;
        let rate = self.carried(class, at.window)? * at.number(LOAD)? / 100.0;
        let bed = self.beds.get(at.subject)?;
        let load = Load {
            server: Nginx::address(),
            path: "/".into(),
            close: true,
            connections: CONNECTIONS,
            rate,
            duration: at.window,
            grace: Load::GRACE,
        };
        let asked = asked(&self.sets[class], rate, at)?;
        let (outcome, cost) = bed.account_closing(&[], |closed| {
            bed.on_client(|| load.run_closing(&asked, closed))
        })?;
        if outcome.in_time == 0 {
            bail!("no request was answered");
        }
        let core = cost.spent.cores.core(SERVER_CORE);
        let core = core.context("the server's core has no account")?;
        // Programs of low priority are nobody's of ours, and gave way.
        let busy = cost.spent.share_of_core(SERVER_CORE).unwrap_or_default();
        let busy = (busy - core.nice / core.total().max(1e-9)).max(0.0);
        let mut sample = cost
            .sample_of(&outcome)
            .with(DELAY, outcome.latency.mean() / 1e6)
            .with(UTILISATION, busy * 100.0)
            .with(RATE, outcome.rate())
            .with(HIGH, outcome.latency.value_at_quantile(0.99) as f64 / 1e6);
        if let Some(work) = cost.engine_work() {
            sample = sample.with(ENGINE, work * 100.0);
        }
        let connections = outcome.connections as f64;
        sample.notes.extend(cost.beside_engine(connections));
        let lost = outcome.failed + outcome.unanswered();
        if lost > 0 {
            sample.notes.push(format!(
                "class {class}, {}: {lost} of {} requests were not answered",
                at.subject, outcome.due
            ));
        }
        Ok(sample)
    }
}

/// Requests for the files of a set, the first most often, at moments drawn by Poisson: the same for
/// the same seed.
fn asked(set: &[File], rate: f64, at: &At<'_>) -> Result<Asked> {
    let mut random = ChaCha8Rng::seed_from_u64(at.seed);
    let popularity = Popularity::of(set.len())?;
    let text = |file: &File| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            file.name,
            Nginx::address()
        )
        .into_bytes()
    };
    let order = (0..DRAWN)
        .map(|_| u16::try_from(popularity.sample(&mut random)))
        .collect::<Result<_, _>>()?;
    Ok(Asked {
        texts: set.iter().map(text).collect(),
        wanted: Vec::new(),
        order,
        limit: None,
        due: poisson(rate, at.window, &mut random),
    })
}

#[cfg(test)]
mod tests {
    use super::{APART, Carried, Extent, STACKS, declare};

    /// What the source has of its models stands beside ours of each class, with an engine and without.
    #[test]
    fn the_sources_test_is_beside_ours() {
        let model = declare(Extent::Full).model.unwrap();
        let of = |subject: &str, class: &str| {
            let mut there = model.there.iter();
            let found = there.find(|it| it.subject == subject && it.at[0].1 == class);
            found.map(|it| (it.distance, it.p, it.saturation))
        };
        assert_eq!(of(STACKS[0], "1"), Some((0.1616, 0.9996, None)));
        for engine in [STACKS[1], APART] {
            assert_eq!(of(engine, "4"), Some((0.2727, 0.8326, Some(40.0))));
        }
        assert_eq!(model.there.len(), 15);
    }

    #[test]
    fn what_loads_are_parts_of_is_the_same_when_a_run_goes_on() {
        let name = format!("lab-carried-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&scratch).unwrap();
        let mut carried = Carried::open(&scratch).unwrap();
        assert!(carried.known.is_empty());
        carried.add(3, 1234.5).unwrap();
        carried.add(0, 17.25).unwrap();
        let again = Carried::open(&scratch).unwrap();
        assert_eq!(again.known, carried.known);
        // Whoever is cut short while it is written has what was there before.
        let (file, before) = (scratch.join("carried.json"), scratch.join("before"));
        std::fs::hard_link(&file, &before).unwrap();
        let known = std::fs::read_to_string(&file).unwrap();
        carried.add(1, 5.0).unwrap();
        assert_eq!(std::fs::read_to_string(&before).unwrap(), known);
        std::fs::write(&file, "{").unwrap();
        assert!(Carried::open(&scratch).is_err());
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
