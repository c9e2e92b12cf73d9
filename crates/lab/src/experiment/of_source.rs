//! A source's figures beside ours: of what they are of, at the same level of the axis where we have it.

use super::analysis::{Analysis, Found};
use super::declaration::{Experiment, Finding};
use super::document::Part;
use crate::table::figure;

/// The section; nothing without a figure.
pub fn parts(experiment: &Experiment, analysis: &Analysis) -> Vec<Part> {
    if experiment.findings.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Heading("The source's figures beside ours".into())];
    for finding in &experiment.findings {
        parts.push(Part::Text(title(experiment, finding)));
        parts.push(beside(experiment, analysis, finding));
    }
    parts
}

/// What it is a figure of, and where it stands.
fn title(experiment: &Experiment, finding: &Finding) -> String {
    let citation = &finding.citation;
    let at = finding.at.iter().map(|(name, level)| {
        let is_of_numbers = experiment.axis(name).is_some_and(|axis| {
            let mut levels = axis.levels.iter();
            levels.any(|known| known.name == *level && known.value.is_some())
        });
        match is_of_numbers {
            true => format!("{name} {level}"),
            false => level.clone(),
        }
    });
    let at = at.collect::<Vec<String>>().join(", ");
    let said = format!(
        "{}: {}, {}, {}",
        finding.name, finding.measure, citation.document, citation.place
    );
    match at.is_empty() {
        true => said,
        false => format!("{said}; {at}"),
    }
}

fn beside(experiment: &Experiment, analysis: &Analysis, finding: &Finding) -> Part {
    let at = experiment.axes.iter().position(|a| a.name == finding.axis);
    let ours = |x: f64, subject: usize| -> Vec<String> {
        let here = analysis.found.iter().filter(|found| {
            let level = at.and_then(|at| {
                let index = *found.cell.levels.get(at)?;
                experiment.axes[at].place(index)
            });
            let is_same = found.cell.subject == subject && level == Some(x);
            is_same && finding.is_at(experiment, &found.cell.levels)
        });
        let value = |found: &Found| {
            let figure = found.values.get(&finding.measure)?.told();
            // What all of them have in common stands above.
            let axes = experiment.axes.iter().enumerate();
            let others =
                axes.filter(|(index, axis)| Some(*index) != at && !finding.says(&axis.name));
            let others: Vec<&str> = others
                .map(|(index, axis)| axis.levels[found.cell.levels[index]].name.as_str())
                .collect();
            Some(match others.is_empty() {
                true => figure,
                false => format!("{}: {figure}", others.join(", ")),
            })
        };
        here.filter_map(value).collect()
    };
    // Of an axis of words a source's figure has the place of one.
    let level_name = |x: f64| {
        let named = at.and_then(|at| {
            let axis = &experiment.axes[at];
            let level = (0..axis.levels.len()).find(|index| axis.place(*index) == Some(x))?;
            Some(axis.levels[level].name.clone())
        });
        named.unwrap_or_else(|| x.to_string())
    };
    let mut head = vec![finding.axis.clone(), "source".into()];
    head.extend(experiment.subjects.iter().cloned());
    let rows = finding.points.iter().map(|&(x, y)| {
        let mut row = vec![level_name(x), figure(Some(y))];
        row.extend((0..experiment.subjects.len()).map(|subject| {
            let ours = ours(x, subject);
            if ours.is_empty() {
                "–".into()
            } else {
                ours.join("; ")
            }
        }));
        row
    });
    Part::Table {
        head,
        rows: rows.collect(),
    }
}
