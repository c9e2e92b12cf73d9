//! The experiments that there are, in the shape of [`crate::experiment`].

mod apart;
mod bed;
mod breakdown;
mod bursts;
mod class_figures;
mod classes;
mod clients;
mod connections;
mod cost;
mod dynamic;
mod each;
mod echo;
mod entry;
mod fairness;
mod flood;
mod goodput;
mod guard;
mod handshake;
mod httperf;
mod idle_engine;
mod installed;
mod large_file;
mod lossy_objects;
mod messages;
mod mixes;
mod model;
mod objects;
mod offered;
mod postgresql;
mod prime;
mod rates;
mod respond;
mod stateless;
mod static_files;
mod strength;
mod surge;
mod syn_answers;
mod tcp_servers;
mod trace;
mod web;
mod workers;
mod wrk;

pub use class_figures::{AGREEMENT, Agreement, SATURATION};
pub use entry::{Entry, Extent, Setup};
pub use model::HIGH;
pub(crate) use prime::prime;
pub use trace::at_speeds;

use anyhow::{Result, bail};

/// All of them.
pub const ALL: &[Entry] = &[
    web::ENTRY,
    echo::ENTRY,
    rates::ENTRY,
    clients::ENTRY,
    large_file::ENTRY,
    guard::ENTRY,
    tcp_servers::channel::ENTRY,
    tcp_servers::send_cost::ENTRY,
    tcp_servers::course::ENTRY,
    tcp_servers::latency::ENTRY,
    tcp_servers::accept::ENTRY,
    tcp_servers::ttcp::ENTRY,
    tcp_servers::receive::ENTRY,
    tcp_servers::web_variants::ENTRY,
    tcp_servers::web_sends::ENTRY,
    tcp_servers::web_loads::ENTRY,
    tcp_servers::serve::ENTRY,
    tcp_servers::uploads::ENTRY,
    tcp_servers::key_value::ENTRY,
    messages::plain::LATENCY,
    messages::plain::THROUGHPUT,
    messages::connections::ENTRY,
    messages::singly::ENTRY,
    messages::moderation::ENTRY,
    messages::zeromq::LATENCY,
    messages::zeromq::THROUGHPUT,
    breakdown::ENTRY,
    static_files::ENTRY,
    dynamic::ENTRY,
    mixes::ENTRY,
    surge::ENTRY,
    bursts::ENTRY,
    trace::ENTRY,
    strength::ENTRY,
    workers::ENTRY,
    connections::ENTRY,
    classes::ENTRY,
    model::ENTRY,
    objects::ENTRY,
    lossy_objects::ENTRY,
    respond::ENTRY,
    syn_answers::ENTRY,
    stateless::ENTRY,
    stateless::BY_SIZE,
    flood::ENTRY,
    goodput::LOSSES,
    goodput::ROUND_TRIPS,
    goodput::BANDWIDTHS,
    fairness::ENTRY,
    idle_engine::ENTRY,
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

/// Whether programs are run on the engine in it, so with the library. In these is the responder alone.
pub fn is_with_library(entry: &Entry) -> bool {
    let without = [
        objects::ENTRY,
        lossy_objects::ENTRY,
        respond::ENTRY,
        syn_answers::ENTRY,
        stateless::ENTRY,
        stateless::BY_SIZE,
    ];
    without.iter().all(|other| other.name != entry.name)
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

#[cfg(test)]
mod tests {
    use super::{ALL, Extent, GROUPS, meant};
    use crate::experiment::Experiment;
    use crate::experiment::declaration::Picture;
    use crate::experiment::order::{self, Cell};
    use std::collections::BTreeSet;

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

    /// Whoever repeats a document says what is to hold of it, in a first impression, too.
    #[test]
    fn whatever_has_a_source_has_something_that_is_to_hold() {
        let of_a_source = ALL.iter().filter(|entry| !entry.source.is_empty());
        for entry in of_a_source {
            for extent in [Extent::Full, Extent::Quick] {
                let claims = entry.declare(extent).claims;
                assert!(!claims.is_empty(), "{}, {extent:?}", entry.name);
            }
        }
    }

    /// Lines of our own in a picture.
    fn lines(experiment: &Experiment, picture: &Picture) -> usize {
        let is_here = |cell: &Cell| {
            let mut at = picture.at.iter();
            at.all(|(axis, level)| {
                let index = experiment.axes.iter().position(|known| known.name == *axis);
                let index = index.expect("it names an axis");
                experiment.axes[index].levels[cell.levels[index]].name == *level
            })
        };
        let x = experiment
            .axes
            .iter()
            .position(|axis| axis.name == picture.x);
        let is_of_it = |cell: &Cell| picture.is_of(&experiment.subjects[cell.subject]);
        let cells = order::cells(experiment).into_iter();
        let cells = cells.filter(is_here).filter(is_of_it);
        let each: BTreeSet<Cell> = cells
            .map(|mut cell| {
                x.map(|x| cell.levels.remove(x));
                cell
            })
            .collect();
        each.len()
    }

    /// More can be told apart, by mark and dash, but not read.
    #[test]
    fn no_picture_has_more_lines_than_can_be_read() {
        let mut crowded = Vec::new();
        for entry in ALL {
            for extent in [Extent::Full, Extent::Quick] {
                let experiment = entry.declare(extent);
                for picture in &experiment.pictures {
                    let lines = lines(&experiment, picture);
                    if lines > 8 {
                        crowded.push(format!("{}: {}: {lines}", entry.name, picture.title));
                    }
                }
            }
        }
        assert_eq!(crowded, Vec::<String>::new());
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
            let is_there = named.iter().any(|name| name == entry.name);
            assert!(is_there, "{}", entry.name);
        }
    }

    /// Each of its lines says of which run its figures are, and what becomes of the finding.
    #[test]
    fn each_line_beside_the_sources_has_its_run_and_its_verdict() {
        let text = include_str!("../../../../docs/sources.md");
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let rows = rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect());
        let is_of_figure =
            |cells: &Vec<&str>| cells.len() > 2 && !["run", "---"].contains(&cells[3]);
        let mut count = 0;
        for cells in rows.filter(is_of_figure) {
            let [what, _, _, run, here, holds] = cells[..] else {
                panic!("{cells:?}: six columns");
            };
            let is_commit =
                |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
            let mut words = run.split(|c: char| !c.is_alphanumeric());
            // A list of calls is no measurement.
            let is_none = (run == "–" && here == "–" || run == "not run yet") && holds == "–";
            let has_run =
                run.starts_with("the same") || (words.any(is_commit) && run.contains('×'));
            let verdicts = [
                "hold",
                "undecided",
                "no saying",
                "missed",
                "decides nothing",
            ];
            let has_verdict = verdicts.iter().any(|verdict| holds.contains(verdict));
            assert!(is_none || has_run, "{what}: which run? {run}");
            assert!(is_none || has_verdict, "{what}: does it hold? {holds}");
            count += 1;
        }
        assert!(count > 40, "{count} lines");
    }

    /// Five rounds in full of each that is about programs that know of their engine: about half an hour at most, of which
    /// `web-loads` with its six workloads needs three minutes more. What they start takes less than half a second.
    #[test]
    fn five_rounds_of_programs_that_know_of_their_engine_take_half_an_hour() {
        for entry in meant("tcp-servers").unwrap() {
            let (window, experiment) = (entry.seconds.0, entry.declare(Extent::Full));
            let cells = order::cells(&experiment).len() as f64;
            let each = window as f64 * f64::from(entry.windows) + 0.5;
            let minutes = 5.0 * cells * each / 60.0;
            assert!(minutes < 33.0, "{}: {minutes} minutes", entry.name);
        }
    }

    /// A first impression of each: a minute, of all: under an hour.
    #[test]
    fn all_of_it_quick_is_possible_within_an_hour_and_each_within_a_minute() {
        let seconds = ALL.iter().map(|entry| {
            let rules = entry.rules(Extent::Quick);
            let experiment = entry.declare(Extent::Quick);
            let takes = entry.takes(&experiment, &rules, rules.most_rounds);
            (entry.name, takes.as_secs())
        });
        let seconds: Vec<(&str, u64)> = seconds.collect();
        let long: Vec<&(&str, u64)> = seconds
            .iter()
            .filter(|(_, seconds)| *seconds > 60)
            .collect();
        assert!(long.is_empty(), "{long:?}");
        let total: u64 = seconds.iter().map(|(_, seconds)| seconds).sum();
        assert!(total < 3_600, "{total} s: {seconds:?}");
    }
}
