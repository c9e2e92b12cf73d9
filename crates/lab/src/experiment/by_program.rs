//! What programs used, and what the engine says of itself: in a report, and round by round in a file.

use super::declaration::Experiment;
use super::directory::{Directory, Record};
use super::document::Part;
use super::order::{Cell, cells};
use super::used::Used;
use crate::sampler::account::Engine;
use std::collections::BTreeSet;

/// Headings and tables; nothing, if there is no account of it.
pub fn parts(directory: &Directory) -> Vec<Part> {
    let experiment = &directory.header().experiment;
    let all: Vec<(String, Used)> = cells(experiment)
        .into_iter()
        .filter_map(|cell| {
            let used = of(directory.records(), &cell)?;
            Some((cell.describe(experiment), used))
        })
        .collect();
    let mut parts = by_process(&all);
    parts.extend(by_engine(&all));
    parts
}

/// What was used in all rounds of a combination together.
fn of(records: &[Record], cell: &Cell) -> Option<Used> {
    let made = records.iter().filter(|record| record.cell == *cell);
    let known = made.filter_map(|record| record.sample.as_ref()?.used.as_ref());
    let mut sum: Option<Used> = None;
    for used in known {
        sum.get_or_insert_default().add(used);
    }
    sum.filter(|used| used.passed > 0.0)
}

fn by_process(all: &[(String, Used)]) -> Vec<Part> {
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, it)| it.processes.keys()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let head = std::iter::once(String::new()).chain(names.iter().map(|name| (*name).clone()));
    let rows = all.iter().map(|(place, used)| {
        let share = |name: &&String| match used.processes.get(*name) {
            Some(seconds) => format!("{:.1}", 100.0 * seconds / used.passed),
            None => "–".into(),
        };
        let figures = names.iter().map(share);
        std::iter::once(place.clone()).chain(figures).collect()
    });
    vec![
        Part::Heading("CPU by process, % of a core".into()),
        Part::Text(
            "Run time of processes, which the kernel measures, of all rounds together; of the time that there is an \
             account of, which may leave out what starts and ends. The client is this program and those that it had \
             run. What the kernel does for them in interrupts is in CPU by core."
                .into(),
        ),
        Part::Table {
            head: head.collect(),
            rows: rows.collect(),
        },
    ]
}

/// What stands above the engine's own account, by what its cycles are.
const fn head(cycles: &str) -> [&str; 8] {
    [
        "",
        "busy, %",
        "looking, %",
        "asleep, %",
        "useful, %",
        cycles,
        "frames a batch",
        "empty turns, %",
    ]
}

/// What the cycles of these engines are: what stands above them, and what is said of them.
fn cycles(engines: &[(&String, &Engine)]) -> [&'static str; 2] {
    let known = engines.iter().filter(|(_, engine)| engine.clock.is_some());
    let of_tsc = known.clone().filter(|(_, engine)| engine.of_tsc).count();
    match known.count() {
        0 => [
            "busy, million cycles a second",
            "How many cycles a second that is, is not known on this machine.",
        ],
        all if all == of_tsc => [
            "busy, million TSC cycles a second",
            "Cycles are that time by the time stamp counter, at the rate at which perf has counted it once: the same on all \
             cores, whatever their frequency.",
        ],
        _ => [
            "busy, million cycles a second",
            "Cycles are that time at the clock of /proc/cpuinfo, as the kernel tells it of the engine's core when the \
             measurement is over: on a virtual machine that of the time stamp counter, elsewhere the frequency of that \
             moment. (A time stamp counter that is invariant was not there, or no perf that could count it, or not all of \
             the time.)",
        ],
    }
}

fn by_engine(all: &[(String, Used)]) -> Vec<Part> {
    let known = all
        .iter()
        .filter_map(|(place, used)| Some((place, used.engine.as_ref()?)));
    let known: Vec<(&String, &Engine)> = known.filter(|(_, it)| it.all() > 0.0).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let rows = known.iter().map(|(place, engine)| row(place, engine));
    let [above, words] = cycles(&known);
    vec![
        Part::Heading("The engine's own account".into()),
        Part::Text(format!(
            "Of the time of its workers, of all rounds together, with the wait for last answers: busy in turns that \
             found something, looking for work, and asleep. That is by the clock: where another has its core \
             meanwhile, it is in it, and not in its run time above. Useful is what was busy of the time that it was \
             awake. {words} Where a measurement has several parts, as much as it can and then a rate, all of them are in it."
        )),
        Part::Table {
            head: head(above).map(String::from).to_vec(),
            rows: rows.collect(),
        },
    ]
}

fn row(place: &str, engine: &Engine) -> Vec<String> {
    let percent = |part: f64| format!("{:.1}", 100.0 * part);
    let of_all = |seconds: f64| percent(seconds / engine.all());
    let cycles = engine.clock.map(|clock| engine.busy / engine.all() * clock);
    vec![
        place.to_owned(),
        of_all(engine.busy),
        of_all(engine.looking),
        of_all(engine.asleep),
        percent(engine.useful()),
        cycles.map_or_else(|| "–".into(), |cycles| format!("{:.0}", cycles / 1e6)),
        format!("{:.2}", engine.batch()),
        percent(engine.empty()),
    ]
}

/// A line for each figure of each measurement's account: of cores by what their time was spent on, of processes, and
/// of the engine. `quoted` makes a field of a word.
pub fn csv(directory: &Directory, quoted: impl Fn(&str) -> String) -> String {
    let experiment = &directory.header().experiment;
    let axes = experiment.axes.iter().map(|axis| quoted(&axis.name));
    let mut head = vec!["round".to_owned(), "subject".to_owned()];
    head.extend(axes);
    head.extend(["what", "unit", "value"].map(String::from));
    let mut text = head.join(",") + "\n";
    for record in directory.records() {
        let place = place(experiment, record, &quoted);
        for (what, unit, value) in figures(record) {
            text += &format!("{place},{},{unit},{value}\n", quoted(&what));
        }
    }
    text
}

/// The first fields of a line: round, subject, and a level of each axis.
fn place(experiment: &Experiment, record: &Record, quoted: impl Fn(&str) -> String) -> String {
    let subject = quoted(&experiment.subjects[record.cell.subject]);
    let mut fields = vec![record.round.to_string(), subject];
    let levels = record.cell.levels(experiment);
    fields.extend(levels.iter().map(|level| quoted(&level.name)));
    fields.join(",")
}

fn figures(record: &Record) -> Vec<(String, &'static str, f64)> {
    let Some(sample) = &record.sample else {
        return Vec::new();
    };
    let conditions = &record.conditions;
    let mut all = Vec::new();
    for (number, times) in &conditions.cores {
        let shares = times.shares(conditions.passed).into_iter();
        all.extend(shares.map(|(name, share)| (format!("core {number} {name}"), "%", share)));
    }
    let used = sample.used.as_ref();
    all.extend(used.into_iter().flat_map(Used::figures));
    all
}
