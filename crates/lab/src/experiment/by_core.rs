//! What each core did, by what its time was spent on: of everything that ran there, whoever it was.

use super::directory::{Directory, Record};
use super::document::Part;
use super::order::{Cell, cells};
use crate::sampler::cores::Times;
use std::collections::BTreeSet;

/// A core that used less than this, in percent, is not told of: a large machine has many.
const TOLD: f64 = 1.0;

/// A heading, what the cores were there for, and a row for each of them in each combination; nothing, if it is not
/// known.
pub fn parts(directory: &Directory) -> Vec<Part> {
    let experiment = &directory.header().experiment;
    let mut head: Option<Vec<String>> = None;
    let mut rows = Vec::new();
    for cell in cells(experiment) {
        for (number, passed, times) in of(directory.records(), &cell) {
            if 100.0 * times.used(passed) / passed < TOLD {
                continue;
            }
            let shares = times.shares(passed);
            head.get_or_insert_with(|| {
                let names = shares.iter().map(|(name, _)| (*name).to_owned());
                let names = std::iter::once(String::new()).chain(names);
                names.chain(["±".to_owned()]).collect()
            });
            let name = format!("{}: core {number}", cell.describe(experiment));
            let figures = shares.iter().map(|(_, share)| format!("{share:.1}"));
            let doubt = format!("{:.1}", times.doubt(passed));
            rows.push(
                std::iter::once(name)
                    .chain(figures)
                    .chain([doubt])
                    .collect(),
            );
        }
    }
    let Some(head) = head else {
        return Vec::new();
    };
    vec![
        Part::Heading("CPU by core, %".into()),
        Part::Text(format!(
            "{}. Of all rounds together, of the whole of each measurement, with what starts and ends in it; cores that \
             used less than {TOLD} % are left out. What a core used is measured, and divided as the kernel's tick has \
             found it: ± is how far that may be off where it is most, a standard deviation with a tick of 4 ms.",
            experiment.roles
        )),
        Part::Table { head, rows },
    ]
}

/// Each core's seconds in a combination: its number, those that passed, and what they were spent on.
fn of(records: &[Record], cell: &Cell) -> Vec<(usize, f64, Times)> {
    let made: Vec<&Record> = records
        .iter()
        .filter(|record| record.cell == *cell && record.sample.is_some())
        .collect();
    let each = made.iter().flat_map(|record| &record.conditions.cores);
    let numbers: BTreeSet<usize> = each.map(|(number, _)| *number).collect();
    let one = |number: usize| {
        let there = made.iter().filter_map(|record| {
            let mut cores = record.conditions.cores.iter();
            let (_, times) = cores.find(|(known, _)| *known == number)?;
            Some((record.conditions.passed, *times))
        });
        let passed: f64 = there.clone().map(|(passed, _)| passed).sum();
        let times: Times = there.map(|(_, times)| times).sum();
        (number, passed, times)
    };
    let known = numbers.into_iter().map(one);
    known.filter(|(_, passed, _)| *passed > 0.0).collect()
}
