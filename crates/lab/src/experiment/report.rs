//! The files that a run leaves: `results.json`, `results.csv`, `accounts.csv`, `settings.csv`, `report.md`,
//! `report.html` and the plots.

use super::analysis::{Analysis, Interval, Outcome, Verdict, analyse, ratio};
use super::beside;
use super::by_program;
use super::declaration::{Bound, Claim, Experiment};
use super::directory::Directory;
use super::document::{self, Part};
use super::fitted::{self, Curve};
use super::left_out::LeftOut;
use super::of_source;
use super::order::{Cell, points};
use super::picture;
use crate::table::Table;
use crate::whole_file;
use anyhow::{Context, Result};
use itertools::Itertools;
use serde_json::json;
use std::path::PathBuf;

/// Writes them, and returns what it found and where the report for people is.
///
/// # Errors
/// They cannot be written.
pub fn write(directory: &Directory) -> Result<(Analysis, PathBuf)> {
    let analysis = analyse(directory);
    let parts = parts(directory, &analysis)?;
    for part in &parts {
        if let Part::Picture { file, svg, .. } = part {
            put(directory, file, svg)?;
        }
    }
    put(directory, "report.md", &document::markdown(&parts))?;
    put(directory, "report.html", &document::html(&parts))?;
    put(directory, "results.csv", &csv(directory))?;
    let accounts = by_program::csv(directory, quoted);
    put(directory, "accounts.csv", &accounts)?;
    put(directory, "settings.csv", &settings_csv(directory))?;
    let all = json!({
        "run": directory.header(),
        "end": directory.end(),
        "records": directory.records(),
        "analysis": analysis,
        "model": fitted::curves(directory, &analysis),
    });
    put(
        directory,
        "results.json",
        &serde_json::to_string_pretty(&all)?,
    )?;
    Ok((analysis, directory.path().join("report.md")))
}

/// What a terminal shows of it: doubts, words, and the first measure.
pub fn summary(directory: &Directory, analysis: &Analysis) -> String {
    let experiment = &directory.header().experiment;
    let mut text = format!("{}\n\n", experiment.title);
    for warning in &analysis.warnings {
        text += &format!("DOUBTFUL: {warning}\n");
    }
    let left_out = experiment.left_out.iter();
    for left_out in left_out.filter(|it| !it.is_of_machine()) {
        text += &format!("LEFT OUT: {left_out}\n");
    }
    text += &words(experiment, analysis);
    text.push('\n');
    let curves = fitted::curves(directory, analysis);
    if !curves.is_empty() {
        text += &beside::words(experiment, &curves);
        text.push('\n');
    }
    // Only what some combination is judged by.
    for measure in &experiment.measures {
        let mut judged = analysis
            .found
            .iter()
            .filter_map(|found| experiment.judged_by(&found.values));
        if !judged.any(|(by, _)| by.name == measure.name) {
            continue;
        }
        if let Some(Part::Table { head, rows }) = measured(directory, analysis, &measure.name) {
            let mut table = Table::new(head);
            for row in rows {
                table.row(row);
            }
            text += &format!("\n{}, {}\n{table}", measure.name, measure.unit);
        }
    }
    text
}

fn put(directory: &Directory, file: &str, text: &str) -> Result<()> {
    let path = directory.path().join(file);
    whole_file::keep(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The report in parts.
///
/// # Errors
/// A plot cannot be drawn.
pub fn parts(directory: &Directory, analysis: &Analysis) -> Result<Vec<Part>> {
    let header = directory.header();
    let experiment = &header.experiment;
    let mut parts = vec![
        Part::Title(experiment.title.clone()),
        Part::Warnings(analysis.warnings.clone()),
        Part::Text(experiment.question.clone()),
    ];
    let left_out = experiment.left_out.iter();
    // What the machine has not is on top already.
    let left_out = left_out.filter(|left_out| !left_out.is_of_machine());
    let left_out: Vec<String> = left_out.map(LeftOut::to_string).collect();
    if !left_out.is_empty() {
        let left_out = left_out.join("; ");
        parts.push(Part::Text(format!("Left out: {left_out}.")));
    }
    parts.extend([
        Part::Heading("What came of it".into()),
        Part::Text(words(experiment, analysis)),
    ]);
    for (index, picture) in experiment.pictures.iter().enumerate() {
        if let Some(svg) = picture::draw(experiment, analysis, picture)? {
            parts.push(Part::Picture {
                title: picture.title.clone(),
                file: format!("plot-{}.svg", index + 1),
                svg,
            });
        }
    }
    let curves = fitted::curves(directory, analysis);
    parts.extend(beside::parts(experiment, &curves)?);
    let claimed = claimed(experiment, analysis, &curves);
    if !claimed.is_empty() {
        parts.push(Part::Heading("What was to hold".into()));
        parts.push(Part::Table {
            head: CLAIMS.map(String::from).to_vec(),
            rows: claimed,
        });
    }
    for (index, measure) in experiment.measures.iter().enumerate() {
        let first = index == 0;
        if let Some(table) = measured(directory, analysis, &measure.name) {
            parts.push(Part::Heading(format!("{}, {}", measure.name, measure.unit)));
            if first {
                parts.push(Part::Text(MEANING.into()));
            }
            parts.push(table);
        }
    }
    parts.extend(of_source::parts(experiment, analysis));
    parts.extend(super::by_core::parts(directory));
    parts.extend(by_program::parts(directory));
    parts.push(Part::Heading("How it was measured".into()));
    parts.push(Part::List(how(directory)));
    if !analysis.notes.is_empty() {
        parts.push(Part::Heading("Notes".into()));
        parts.push(Part::List(analysis.notes.clone()));
    }
    Ok(parts)
}

const MEANING: &str = "Medians over the rounds with their 95 % bootstrap intervals (of fewer than six \
    rounds: the range). Ratios are of the two measured one after the other in the same round.";

/// A paragraph: what holds, what does not, was the client the limit. What is claimed at many places in the
/// same words is one statement.
pub(super) fn words(experiment: &Experiment, analysis: &Analysis) -> String {
    let statement = |claim: &Claim| format!("“{}” ({})", claim.says, claim.citation.document);
    let statements = experiment.claims.iter().map(statement).unique();
    let mut sentences: Vec<String> = statements
        .map(|says| {
            let about = |verdict: &&Verdict| statement(&experiment.claims[verdict.claim]) == says;
            let verdicts: Vec<&Verdict> = analysis.verdicts.iter().filter(about).collect();
            sentence(&says, experiment, &verdicts)
        })
        .collect();
    if experiment.claims.is_empty() {
        sentences.push("Nothing was to hold: these are figures to look at.".into());
    }
    sentences.extend(of_the_client(analysis));
    sentences.join(" ")
}

/// Whether the client was the limit, and of how many measurements that is known; nothing, where there is none at all.
fn of_the_client(analysis: &Analysis) -> Option<String> {
    let ((limited, all), known) = (analysis.limited, analysis.client_known);
    let known_of = (known < all).then(|| format!("; that is known of {known} of {all}"));
    let known_of = known_of.unwrap_or_default();
    match (known, limited) {
        _ if all == 0 => None,
        (0, _) => Some("Whether the client was the limit is not known.".into()),
        (_, 0) => Some(format!("The client was nowhere the limit{known_of}.")),
        _ => Some(format!(
            "The client was the limit in {limited} of {all} measurements{known_of}."
        )),
    }
}

/// What came of a statement: the places are named at which it does not hold.
fn sentence(says: &str, experiment: &Experiment, verdicts: &[&Verdict]) -> String {
    let with = |outcome| verdicts.iter().filter(move |v| v.outcome == outcome);
    let [holds, fails] = [Outcome::Holds, Outcome::Fails].map(|outcome| with(outcome).count());
    let all = verdicts.len();
    if all == 0 {
        format!("Of {says} nothing was measured.")
    } else if holds == all {
        format!("{says} holds.")
    } else if fails == all {
        format!("{says} does not hold.")
    } else if all == 1 {
        format!("{says} is undecided.")
    } else {
        let places = with(Outcome::Fails).map(|verdict| {
            let place = point_name(experiment, &verdict.levels);
            let claim = &experiment.claims[verdict.claim];
            format!("{place}: {}", claim.compared())
        });
        let places = places.unique().join("; ");
        let named = if fails == 0 {
            String::new()
        } else {
            format!(" ({places})")
        };
        let open = all - holds - fails;
        format!(
            "{says} holds at {holds} of {all} points, does not at {fails}{named}, and is undecided at \
             {open}."
        )
    }
}

/// What stands above [`claimed`].
pub(super) const CLAIMS: [&str; 6] = ["", "at", "of", "ratio or figure", "to be", ""];

/// What was to hold, and what came of it, a row each: claims, and what is asked of a model, if there is one.
pub(super) fn claimed(
    experiment: &Experiment,
    analysis: &Analysis,
    curves: &[Curve],
) -> Vec<Vec<String>> {
    let rows = analysis.verdicts.iter().map(|verdict| {
        let claim = &experiment.claims[verdict.claim];
        let unit = match (claim.below(), experiment.measure(&claim.measure)) {
            (None, Some(measure)) => format!(" {}", measure.unit),
            _ => String::new(),
        };
        let bound = match claim.ratio {
            Bound::AtLeast(least) => format!("≥ {least}{unit}"),
            Bound::AtMost(most) => format!("≤ {most}{unit}"),
        };
        vec![
            format!(
                "{} ({}, {})",
                claim.says, claim.citation.document, claim.citation.place
            ),
            point_name(experiment, &verdict.levels),
            format!("{}, {}", claim.compared(), claim.measure),
            shown(Some(&verdict.ratio)),
            bound,
            verdict.outcome.word().into(),
        ]
    });
    rows.chain(beside::claimed(experiment, curves)).collect()
}

/// The name of a combination of levels.
fn point_name(experiment: &Experiment, levels: &[usize]) -> String {
    let axes = experiment.axes.iter().zip(levels);
    let names: Vec<String> = axes
        .map(|(axis, &index)| {
            let level = &axis.levels[index];
            match (level.value, axis.unit.as_str()) {
                (None, _) => level.name.clone(),
                (Some(_), "") => format!("{} {}", level.name, axis.name),
                (Some(_), unit) => format!("{} {unit}", level.name),
            }
        })
        .collect();
    names.join(", ")
}

fn shown(value: Option<&Interval>) -> String {
    value.map_or_else(|| "–".into(), Interval::told)
}

/// The subjects that are compared at the same levels: each with the first; where claims compare others, those instead.
fn compared(experiment: &Experiment) -> Vec<(usize, usize)> {
    let subject = |name: &String| experiment.subjects.iter().position(|known| known == name);
    let claims = experiment.claims.iter();
    let claims = claims.filter(|claim| claim.to.at.is_empty());
    let claimed: Vec<(usize, usize)> = claims
        .filter_map(|claim| subject(&claim.subject).zip(subject(claim.below()?)))
        .unique()
        .collect();
    if claimed.iter().any(|&(_, below)| below != 0) {
        claimed
    } else {
        (1..experiment.subjects.len())
            .map(|above| (above, 0))
            .collect()
    }
}

/// A measure at every point: each subject, and the ratios of those that are compared.
fn measured(directory: &Directory, analysis: &Analysis, measure: &str) -> Option<Part> {
    let experiment = &directory.header().experiment;
    let subjects = &experiment.subjects;
    let compared = compared(experiment);
    let mut head = vec![String::new()];
    head.extend(subjects.iter().cloned());
    head.extend(
        compared
            .iter()
            .map(|&(above, below)| format!("{} / {}", subjects[above], subjects[below])),
    );
    let mut rows = Vec::new();
    for levels in points(experiment) {
        let cells: Vec<Cell> = (0..subjects.len())
            .map(|subject| Cell {
                levels: levels.clone(),
                subject,
            })
            .collect();
        let values: Vec<Option<&Interval>> = cells
            .iter()
            .map(|cell| value(analysis, cell, measure))
            .collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![point_name(experiment, &levels)];
        row.extend(values.into_iter().map(shown));
        row.extend(compared.iter().map(|&(above, below)| {
            let ratio = ratio(directory.records(), &cells[above], &cells[below], measure);
            shown(ratio.as_ref())
        }));
        rows.push(row);
    }
    (!rows.is_empty()).then_some(Part::Table { head, rows })
}

fn value<'a>(analysis: &'a Analysis, cell: &Cell, measure: &str) -> Option<&'a Interval> {
    let found = analysis.found.iter().find(|found| found.cell == *cell)?;
    found.values.get(measure)
}

fn how(directory: &Directory) -> Vec<String> {
    let header = directory.header();
    let rules = header.rules;
    let mut points = vec![
        format!("Workload: {}", header.experiment.workload),
        format!("Cores: {}", header.experiment.roles),
        format!(
            "Rounds in random order from seed {}, {} to {} of them, until no interval of the first measure, or of one \
             that something is claimed of there, reaches further from its median than {} % (or than that part of a bound \
             that is more); {} s a measurement; {} measurements.",
            rules.seed,
            rules.least_rounds,
            rules.most_rounds,
            rules.precision * 100.0,
            rules.window.as_secs_f64(),
            directory.records().len()
        ),
    ];
    let settings = settings(directory);
    points.extend(settings.map(|(name, value)| format!("{}: {value}", name.replace('_', " "))));
    points
}

/// What measured, and on what machine: names and values.
fn settings(directory: &Directory) -> impl Iterator<Item = (String, String)> + '_ {
    let header = directory.header();
    // It has the commit, if that is known, which the machine's list has not.
    let version = ("outboard".to_owned(), header.version.clone());
    let settings = header.settings.as_object().into_iter().flatten();
    let others = settings.filter(|(name, _)| *name != "outboard");
    let words = |value: &serde_json::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let others = others.map(move |(name, value)| (name.clone(), words(value)));
    std::iter::once(version).chain(others)
}

/// A line for each setting.
fn settings_csv(directory: &Directory) -> String {
    let lines = settings(directory).map(|(name, value)| format!("{},{}\n", name, quoted(&value)));
    std::iter::once("setting,value\n".to_owned())
        .chain(lines)
        .collect()
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A line for each value of each measurement.
fn csv(directory: &Directory) -> String {
    let experiment = &directory.header().experiment;
    let mut head: Vec<String> = vec!["round".into(), "subject".into()];
    head.extend(experiment.axes.iter().map(|axis| quoted(&axis.name)));
    head.extend(
        [
            "measure",
            "unit",
            "value",
            "client_is_limit",
            "stolen",
            "niced",
            "others",
            "stood_still_s",
        ]
        .map(String::from),
    );
    let mut text = head.join(",") + "\n";
    for record in directory.records() {
        let Some(sample) = &record.sample else {
            continue;
        };
        for measure in &experiment.measures {
            let Some(value) = sample.values.get(&measure.name) else {
                continue;
            };
            let mut line = vec![
                record.round.to_string(),
                quoted(&experiment.subjects[record.cell.subject]),
            ];
            let levels = record.cell.levels(experiment);
            line.extend(levels.iter().map(|level| quoted(&level.name)));
            line.extend([
                quoted(&measure.name),
                quoted(&measure.unit),
                value.to_string(),
                sample.client.is_the_limit().to_string(),
                record.conditions.stolen.to_string(),
                record.conditions.niced.to_string(),
                record.conditions.others.to_string(),
                record.conditions.stood_still.to_string(),
            ]);
            text += &line.join(",");
            text.push('\n');
        }
    }
    text
}
