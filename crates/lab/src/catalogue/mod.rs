//! The experiments that there are, in the shape of [`crate::experiment`].

mod bed;
mod breakdown;
mod bursts;
mod classes;
mod connections;
mod dynamic;
mod echo;
mod fairness;
mod flood;
mod goodput;
mod guard;
mod handshake;
mod httperf;
mod installed;
mod large_file;
mod messages;
mod mixes;
mod model;
mod objects;
mod offered;
mod rates;
mod respond;
mod stateless;
mod static_files;
mod strength;
mod tcp_servers;
mod trace;
mod web;
mod workers;
mod wrk;

use crate::experiment::{Bench, Experiment, Rules, order};
use crate::tool;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// What every experiment is given.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The outboard that is measured.
    pub binary: PathBuf,
    /// The access log that is replayed; without one, a small one of our own.
    pub log: Option<PathBuf>,
}

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// A first impression: fewer levels, rounds and seconds.
    Quick,
}

/// An experiment that there is.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What commands call it.
    pub name: &'static str,
    /// The document whose figures it repeats; empty if it is ours.
    pub source: &'static str,
    /// What it asks, in a line.
    pub about: &'static str,
    /// Programs that it needs, and files, by whole paths.
    pub needs: &'static [&'static str],
    /// How long a measurement is, in seconds: in full, and quick.
    pub seconds: (u64, u64),
    /// How many such measurements one after another make a sample.
    pub windows: u32,
    declare: fn(Extent) -> Experiment,
    open: fn(&Setup) -> Result<Box<dyn Bench>>,
}

/// What a sample takes around its measurements: programs that start and end, accounts that are made up.
const AROUND: Duration = Duration::from_secs(2);

/// All of them.
pub const ALL: &[Entry] = &[
    web::ENTRY,
    echo::ENTRY,
    rates::ENTRY,
    large_file::ENTRY,
    guard::ENTRY,
    tcp_servers::channel::ENTRY,
    tcp_servers::send_cost::ENTRY,
    tcp_servers::course::ENTRY,
    tcp_servers::latency::ENTRY,
    tcp_servers::accept::ENTRY,
    tcp_servers::ttcp::ENTRY,
    tcp_servers::receive::ENTRY,
    tcp_servers::serve::ENTRY,
    tcp_servers::uploads::ENTRY,
    tcp_servers::key_value::ENTRY,
    messages::plain::LATENCY,
    messages::plain::THROUGHPUT,
    messages::singly::ENTRY,
    messages::zeromq::LATENCY,
    messages::zeromq::THROUGHPUT,
    breakdown::ENTRY,
    static_files::ENTRY,
    dynamic::ENTRY,
    mixes::ENTRY,
    bursts::ENTRY,
    trace::ENTRY,
    strength::ENTRY,
    workers::ENTRY,
    connections::ENTRY,
    classes::ENTRY,
    model::ENTRY,
    objects::ENTRY,
    respond::ENTRY,
    stateless::ENTRY,
    flood::ENTRY,
    goodput::LOSSES,
    goodput::ROUND_TRIPS,
    goodput::BANDWIDTHS,
    fairness::ENTRY,
    installed::ENTRY,
];

/// Names that mean several, which are run one after another.
pub const GROUPS: &[(&str, &[&str])] = &[("tcp-servers", tcp_servers::NAMES)];

/// The experiments that `name` means: one, those of a group, or `all`.
///
/// # Errors
/// There is none; the error names those that there are.
pub fn meant(name: &str) -> Result<Vec<&'static Entry>> {
    if name == "all" {
        return Ok(ALL.iter().collect());
    }
    match GROUPS.iter().find(|(group, _)| *group == name) {
        Some((_, names)) => names.iter().map(|name| find(name)).collect(),
        None => Ok(vec![find(name)?]),
    }
}

/// Whether `name` means several, which are told of together.
pub fn is_group(name: &str) -> bool {
    name == "all" || GROUPS.iter().any(|(group, _)| *group == name)
}

/// The experiment called `name`.
///
/// # Errors
/// There is none; the error names those that there are.
pub fn find(name: &str) -> Result<&'static Entry> {
    let Some(entry) = ALL.iter().find(|entry| entry.name == name) else {
        let groups = GROUPS.iter().map(|(group, _)| *group);
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).chain(groups).collect();
        bail!(
            "there is no experiment {name}; there are {}",
            names.join(", ")
        );
    };
    Ok(entry)
}

impl Entry {
    /// What it says of itself.
    pub fn declare(&self, extent: Extent) -> Experiment {
        (self.declare)(extent)
    }

    /// What measures it.
    ///
    /// # Errors
    /// A program is missing, the machine has too few cores, or what it needs cannot be started.
    pub fn open(&self, setup: &Setup) -> Result<Box<dyn Bench>> {
        if let Some(missing) = self.missing() {
            bail!("{missing} is not installed: run make install-deps");
        }
        if std::thread::available_parallelism()?.get() < 2 {
            bail!("this needs two cores: one for the server, one for the client");
        }
        (self.open)(setup)
    }

    /// A program that it needs and that is not there.
    pub fn missing(&self) -> Option<&'static str> {
        let mut needs = self.needs.iter().copied();
        needs.find(|program| tool::find(program).is_none())
    }

    /// How long so many rounds of it take at most, as a rule.
    pub fn takes(&self, experiment: &Experiment, rules: &Rules, rounds: u32) -> Duration {
        let cells = u32::try_from(order::cells(experiment).len()).unwrap_or(u32::MAX);
        let each = rules.window * self.windows + AROUND;
        (each * cells.saturating_mul(rounds)).min(rules.limit)
    }

    /// How it is run if nobody says otherwise.
    pub fn rules(&self, extent: Extent) -> Rules {
        let quick = extent == Extent::Quick;
        let (full, short) = self.seconds;
        Rules {
            least_rounds: if quick { 3 } else { 7 },
            most_rounds: if quick { 3 } else { 25 },
            precision: 0.05,
            limit: Duration::from_secs(if quick { 5 * 60 } else { 4 * 3_600 }),
            window: Duration::from_secs(if quick { short } else { full }),
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Extent, GROUPS, meant};
    use crate::experiment::order;

    #[test]
    fn every_experiment_is_in_order() {
        for entry in ALL {
            for extent in [Extent::Full, Extent::Quick] {
                let experiment = entry.declare(extent);
                assert_eq!(experiment.name, entry.name);
                let mistakes = experiment.mistakes();
                assert!(mistakes.is_empty(), "{}: {mistakes:?}", entry.name);
                assert!(!experiment.pictures.is_empty(), "{}", entry.name);
            }
        }
    }

    #[test]
    fn a_group_is_all_that_it_names() {
        for (group, names) in GROUPS {
            let found: Vec<&str> = meant(group).unwrap().iter().map(|e| e.name).collect();
            assert_eq!(found, *names);
            assert!(ALL.iter().all(|entry| entry.name != *group), "{group}");
        }
        assert_eq!(meant("all").unwrap().len(), ALL.len());
        assert_eq!(meant("web").unwrap()[0].name, "web");
        let error = meant("nothing").unwrap_err().to_string();
        assert!(
            error.contains("web") && error.contains("tcp-servers"),
            "{error}"
        );
    }

    /// What docs/sources.md tells people to run can be run; and what repeats a document stands there.
    #[test]
    fn the_commands_beside_the_sources_are_there() {
        let text = include_str!("../../../../docs/sources.md");
        let named: Vec<&str> = text.split("`lab run ").skip(1).collect();
        let name = |rest: &&str| {
            let ends = |letter: char| letter != '-' && !letter.is_ascii_lowercase();
            rest[..rest.find(ends).unwrap_or(rest.len())].to_owned()
        };
        let named: Vec<String> = named.iter().map(name).collect();
        for name in &named {
            assert!(meant(name).is_ok(), "{name}");
        }
        for entry in ALL.iter().filter(|entry| !entry.source.is_empty()) {
            let others = ["accept", "flood"];
            let is_there = named.iter().any(|name| name == entry.name);
            assert!(is_there || others.contains(&entry.name), "{}", entry.name);
        }
    }

    /// Five rounds in full of each that is about programs that know of their engine: about half an hour at most. What
    /// they start takes less than half a second.
    #[test]
    fn five_rounds_of_programs_that_know_of_their_engine_take_half_an_hour() {
        for entry in meant("tcp-servers").unwrap() {
            let (window, experiment) = (entry.seconds.0, entry.declare(Extent::Full));
            let cells = order::cells(&experiment).len() as f64;
            let each = window as f64 * f64::from(entry.windows) + 0.5;
            let minutes = 5.0 * cells * each / 60.0;
            assert!(minutes < 30.0, "{}: {minutes} minutes", entry.name);
        }
    }

    /// A first impression of all: under an hour.
    #[test]
    fn all_of_it_quick_is_possible_within_an_hour() {
        let seconds = ALL.iter().map(|entry| {
            let rules = entry.rules(Extent::Quick);
            let experiment = entry.declare(Extent::Quick);
            let takes = entry.takes(&experiment, &rules, rules.most_rounds);
            (entry.name, takes.as_secs())
        });
        let seconds: Vec<(&str, u64)> = seconds.collect();
        let total: u64 = seconds.iter().map(|(_, seconds)| seconds).sum();
        assert!(total < 3_600, "{total} s: {seconds:?}");
    }
}
