//! Two runs of the same experiment: what differs, and whether their machines did.

use super::analysis::{Interval, analyse, values};
use super::apart::apart;
use super::declaration::Measure;
use super::directory::{Asked, Directory};
use super::group::Group;
use super::order::{Cell, cells};
use crate::statistics::median;
use crate::table::{Table, figure};
use anyhow::{Result, bail};
use itertools::Itertools;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;

/// How often rounds are drawn anew for an interval.
const RESAMPLES: usize = 2_000;
/// With fewer rounds than this on either side nobody can say that they differ: two sets of three that
/// have nothing to do with each other lie apart in one of ten cases.
const ENOUGH: usize = 5;

/// The second run beside the first, as text.
///
/// # Errors
/// They are of different experiments.
pub fn compare(first: &Directory, second: &Directory) -> Result<String> {
    let experiment = &first.header().experiment;
    let other = &second.header().experiment;
    if experiment.name != other.name {
        bail!(
            "{} and {} are different experiments",
            experiment.name,
            other.name
        );
    }
    let mut text = String::new();
    for (name, directory) in [("first", first), ("second", second)] {
        for warning in analyse(directory).warnings {
            text += &format!("{name}: {warning}\n");
        }
    }
    text += &differences(first, second);
    let parts = apart([experiment, other], ["the first run", "the second run"]);
    if !parts.is_empty() {
        text += "The two runs are not of the same:\n";
        text.extend(parts.iter().map(|part| format!("  {}\n", part.what)));
    }
    let table = beside([first, second]);
    text += &match (table, parts.iter().any(|part| part.is_wholly)) {
        (Some(table), _) => table,
        (None, true) => "They have nothing in common that could be compared.\n".into(),
        (None, false) => "No combination has a value in both runs.\n".into(),
    };
    Ok(text)
}

/// The second group beside the first, as text: each experiment that is in both, and what only one of them has. What was
/// not run is in neither.
///
/// # Errors
/// They have no experiment in common, or a run cannot be read.
pub fn compare_groups(first: (&Path, &Group), second: (&Path, &Group)) -> Result<String> {
    let run = |(path, group): (&Path, &Group), name: &String| -> Result<Option<Directory>> {
        let directory = path.join(name);
        let is_there = group.experiments.contains(name) && Directory::is_there(&directory);
        is_there.then(|| Directory::open(&directory)).transpose()
    };
    let names = first.1.experiments.iter().chain(&second.1.experiments);
    let (mut text, mut alone, mut is_empty) = (String::new(), String::new(), true);
    for name in names.unique() {
        match (run(first, name)?, run(second, name)?) {
            (Some(one), Some(other)) => {
                is_empty = false;
                text += &format!("{name}\n\n{}\n", compare(&one, &other)?);
            }
            (Some(_), None) => alone += &format!("{name}: only in the first\n"),
            (None, Some(_)) => alone += &format!("{name}: only in the second\n"),
            (None, None) => {}
        }
    }
    if is_empty {
        bail!("no experiment was run in both groups");
    }
    Ok(text + &alone)
}

/// What both have values of, side by side; nothing, if there is none.
fn beside([first, second]: [&Directory; 2]) -> Option<String> {
    let [experiment, other] = [first, second].map(|run| &run.header().experiment);
    let mut is_empty = true;
    let mut table = Table::new(["", "first", "second", "", "second / first", ""]);
    table.left(3);
    // One that is in another unit now is another measure, and `apart` names it.
    let is_in_both = |measure: &&Measure| {
        let same = |other: &Measure| (&other.name, &other.unit) == (&measure.name, &measure.unit);
        other.measures.iter().any(same)
    };
    for measure in experiment.measures.iter().filter(is_in_both) {
        let mut heading = Some(&measure.name);
        for cell in cells(experiment) {
            let name = cell.describe(experiment);
            let there = cells(other)
                .into_iter()
                .find(|cell| cell.describe(other) == name);
            let before = all(first, &cell, &measure.name);
            let after = there.map_or_else(Vec::new, |cell| all(second, &cell, &measure.name));
            let (Some(old), Some(new)) = (median(&before), median(&after)) else {
                continue;
            };
            if let Some(heading) = heading.take() {
                table.row([heading.clone()]);
            }
            is_empty = false;
            let ratio = ratio(&before, &after);
            let is_other = ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0);
            table.row([
                format!("  {name}"),
                figure(Some(old)),
                figure(Some(new)),
                measure.unit.clone(),
                ratio.map_or_else(String::new, |ratio| {
                    format!(
                        "{:.2} ({:.2} to {:.2})",
                        ratio.median, ratio.low, ratio.high
                    )
                }),
                if is_other { "differs" } else { "" }.into(),
            ]);
        }
    }
    (!is_empty).then(|| table.to_string())
}

/// The values of every round.
fn all(directory: &Directory, cell: &Cell, measure: &str) -> Vec<f64> {
    let found = values(directory.records(), cell, measure);
    found.into_iter().map(|(_, value)| value).collect()
}

/// The settings that are not the same.
fn differences(first: &Directory, second: &Directory) -> String {
    let (one, other) = (first.header(), second.header());
    let mut found = one.differences(&other.version, &other.settings);
    found.extend(asked([one, other].map(|header| header.asked.as_ref())));
    let [window, then] = [one, other].map(|header| header.rules.window);
    if window != then {
        found.push(format!("a measurement: {window:?}, then {then:?}"));
    }
    found.into_iter().map(|line| line + "\n").collect()
}

/// What was asked for, where it is not the same, or not known.
fn asked(both: [Option<&Asked>; 2]) -> Option<String> {
    let why = "what was asked for was not compared: it was not noted by the version that began";
    let [one, other] = match both {
        [Some(one), Some(other)] => [one, other],
        [None, Some(_)] => return Some(format!("{why} the first run")),
        [Some(_), None] => return Some(format!("{why} the second run")),
        [None, None] => return Some(format!("{why} these runs")),
    };
    let said = |asked: &Asked| {
        let quick = if asked.quick {
            "a first impression"
        } else {
            "all"
        };
        let only = asked.only.iter();
        let only: String = only
            .map(|(axis, level)| format!(", only {axis} {level}"))
            .collect();
        let speeds = asked.speeds.iter();
        let speeds: String = speeds
            .map(|speed| format!(", the log at {speed} times its rate"))
            .collect();
        format!("{quick}{only}{speeds}")
    };
    (one != other).then(|| format!("asked for: {}, then {}", said(one), said(other)))
}

/// The ratio of medians of rounds that are not paired, with its 95 % bootstrap interval; the same for
/// the same values.
fn ratio(before: &[f64], after: &[f64]) -> Option<Interval> {
    let middle = median(after)? / median(before).filter(|value| *value != 0.0)?;
    if before.len().min(after.len()) < ENOUGH {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut drawn = |values: &[f64]| {
        let again: Vec<f64> = values
            .iter()
            .map(|_| values[random.random_range(0..values.len())])
            .collect();
        median(&again)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| Some(drawn(after)? / drawn(before).filter(|value| *value != 0.0)?))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        median: middle,
        low: *ratios.get(ratios.len() * 25 / 1_000)?,
        high: *ratios.get((ratios.len() * 975 / 1_000).checked_sub(1)?)?,
        rounds: before.len().min(after.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::{Asked, asked, ratio};

    #[test]
    fn what_was_asked_for_is_compared_where_it_is_known() {
        let [all, quick] = [false, true].map(|quick| Asked {
            quick,
            only: vec![("subject".into(), "kernel".into())],
            speeds: Vec::new(),
        });
        assert_eq!(asked([Some(&all), Some(&all)]), None);
        let fast = Asked {
            speeds: vec![2.0],
            ..all.clone()
        };
        let said = asked([Some(&all), Some(&fast)]).unwrap();
        assert!(said.ends_with(", the log at 2 times its rate"), "{said}");
        let said = asked([Some(&all), Some(&quick)]).unwrap();
        assert_eq!(
            said,
            "asked for: all, only subject kernel, then a first impression, only subject kernel"
        );
        let said = asked([None, Some(&quick)]).unwrap();
        assert!(said.ends_with("began the first run"), "{said}");
        assert!(asked([None, None]).is_some());
    }

    #[test]
    fn runs_differ_only_beyond_their_noise() {
        let noisy = [100.0, 110.0, 90.0, 105.0, 95.0];
        let same = ratio(&noisy, &noisy).unwrap();
        assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
        let twice = noisy.map(|value| value * 2.0);
        let other = ratio(&noisy, &twice).unwrap();
        assert!(other.low > 1.5 && other.high < 2.5, "{other:?}");
        // Too few to say anything.
        assert!(ratio(&noisy[..4], &twice).is_none());
    }
}
