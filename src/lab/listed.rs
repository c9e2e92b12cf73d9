//! `outboard lab list`: the experiments that there are, and what one of them measures before anybody runs it.

use ::lab::catalogue::{self, Entry, Extent};
use ::lab::experiment::declaration::{Bound, Claim, Experiment};
use ::lab::experiment::order;
use ::lab::table::Table;
use anyhow::Result;
use indicatif::HumanDuration;
use std::fmt::Write;
use std::process::ExitCode;

/// List the experiments that `run` runs, with the documents whose figures they repeat
///
/// With names: what each of them varies, compares and measures, what is to hold, and how long that takes.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard lab list rates")]
pub struct List {
    /// Which are described; without a name all are listed, each in a line
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Lists them.
pub fn list(args: &List) -> Result<ExitCode> {
    if args.names.is_empty() {
        print!("{}", lines());
        return Ok(ExitCode::SUCCESS);
    }
    let mut described = Vec::new();
    for name in &args.names {
        described.extend(catalogue::meant(name)?.into_iter().map(describe));
    }
    print!("{}", described.join("\n"));
    Ok(ExitCode::SUCCESS)
}

/// A line for each.
fn lines() -> String {
    let mut table = Table::new(["name", "source", "seconds", "", ""]);
    for column in [1, 3, 4] {
        table.left(column);
    }
    for entry in catalogue::ALL {
        let missing = entry.missing();
        table.row([
            entry.name.to_owned(),
            entry.source.to_owned(),
            format!("{} ({} quick)", entry.seconds.0, entry.seconds.1),
            entry.about.to_owned(),
            missing.map_or_else(String::new, |program| format!("needs {program}")),
        ]);
    }
    let groups = catalogue::GROUPS.iter();
    let groups = groups.map(|(group, names)| format!("{group} is {}\n", names.join(", ")));
    format!("{table}{}", groups.collect::<String>())
}

/// What one says of itself.
fn describe(entry: &Entry) -> String {
    let experiment = entry.declare(Extent::Full);
    let mut text = format!("{}: {}\n\n", entry.name, experiment.title);
    let mut say = |what: &str, words: &str| {
        if !words.is_empty() {
            // Nothing can go wrong that writes into a string.
            let _ = writeln!(text, "{what}: {words}");
        }
    };
    say("question", &experiment.question);
    say("workload", &experiment.workload);
    say("roles", &experiment.roles);
    for axis in &experiment.axes {
        let levels: Vec<&str> = axis.levels.iter().map(|it| it.name.as_str()).collect();
        let unit = match axis.unit.as_str() {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        say(&format!("axis {}{unit}", axis.name), &levels.join("; "));
    }
    say("subjects", &experiment.subjects.join(", "));
    let measures: Vec<String> = experiment
        .measures
        .iter()
        .map(|measure| match measure.unit.as_str() {
            "" => measure.name.clone(),
            unit => format!("{} ({unit})", measure.name),
        })
        .collect();
    say("measures", &measures.join("; "));
    for claim in &experiment.claims {
        say("to hold", &claimed(&experiment, claim));
    }
    for left_out in &experiment.left_out {
        say("left out", &left_out.to_string());
    }
    say("needs", &entry.needs.join(", "));
    say("in full", &takes(entry, &experiment, Extent::Full));
    let quick = entry.declare(Extent::Quick);
    say("--quick", &takes(entry, &quick, Extent::Quick));
    text
}

fn claimed(experiment: &Experiment, claim: &Claim) -> String {
    let unit = match (claim.below(), experiment.measure(&claim.measure)) {
        (None, Some(measure)) if !measure.unit.is_empty() => format!(" {}", measure.unit),
        _ => String::new(),
    };
    let bound = match claim.ratio {
        Bound::AtLeast(least) => format!("≥ {least}{unit}"),
        Bound::AtMost(most) => format!("≤ {most}{unit}"),
    };
    let at: Vec<String> = claim
        .at
        .iter()
        .map(|(axis, level)| format!("{axis} {level}"))
        .collect();
    let at = match at.len() {
        0 => String::new(),
        _ => format!(", at {}", at.join("; ")),
    };
    format!(
        "{} ({}, {}): {}, {} {bound}{at}",
        claim.says,
        claim.citation.document,
        claim.citation.place,
        claim.measure,
        claim.compared()
    )
}

/// How much is measured, and how long that takes as a rule.
fn takes(entry: &Entry, experiment: &Experiment, extent: Extent) -> String {
    let rules = entry.rules(extent);
    let rounds = match rules.least_rounds == rules.most_rounds {
        true => rules.least_rounds.to_string(),
        false => format!("{} to {}", rules.least_rounds, rules.most_rounds),
    };
    format!(
        "{} combinations, {} s each, {rounds} rounds: {} at least",
        order::cells(experiment).len(),
        rules.window.as_secs() * u64::from(entry.windows),
        HumanDuration(entry.takes(experiment, &rules, rules.least_rounds)),
    )
}

#[cfg(test)]
mod tests {
    use super::{describe, lines};
    use ::lab::catalogue::{ALL, find};

    #[test]
    fn each_has_a_line_and_says_what_it_measures() {
        let lines = lines();
        for entry in ALL {
            let is_its = |line: &str| line.split_whitespace().next() == Some(entry.name);
            assert!(lines.lines().any(is_its), "{}", entry.name);
            let text = describe(entry);
            for word in ["question: ", "subjects: ", "measures: ", "in full: "] {
                assert!(
                    text.contains(&format!("\n{word}")),
                    "{}: {text}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn what_is_said_is_what_is_declared() {
        let text = describe(find("web").unwrap());
        assert!(text.contains("\naxis request: "), "{text}");
        assert!(text.contains("\nsubjects: kernel, engine\n"), "{text}");
        assert!(text.contains("\nto hold: "), "{text}");
        assert!(text.contains("engine / kernel ≥ "), "{text}");
        assert!(text.contains(", 7 to 25 rounds: "), "{text}");
        let text = describe(find("lossy-objects").unwrap());
        assert!(
            text.contains(", in the driver ≤ 0 %, at loss 1\n"),
            "{text}"
        );
    }
}
