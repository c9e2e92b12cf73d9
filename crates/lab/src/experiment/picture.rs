//! Plots that survive a black-and-white printer: lines differ by dash and mark, not by colour. The
//! source's own figures are in the same plot, in grey.

use super::analysis::{Analysis, Found};
use super::declaration::{Axis, Experiment, Finding, Picture};
use super::plot::{Line, Point, Style, draw_lines};
use anyhow::Result;
use itertools::Itertools;
use std::collections::BTreeMap;

/// Draws a picture as SVG; `None` if there is nothing to draw.
///
/// # Errors
/// It cannot be drawn.
pub fn draw(
    experiment: &Experiment,
    analysis: &Analysis,
    picture: &Picture,
) -> Result<Option<String>> {
    if !picture.moments.is_empty() {
        return super::course::draw(experiment, analysis, picture);
    }
    let lines = lines(experiment, analysis, picture);
    let Some(axis) = experiment.axis(&picture.x) else {
        return Ok(None);
    };
    draw_lines(experiment, picture, axis, &lines)
}

fn lines(experiment: &Experiment, analysis: &Analysis, picture: &Picture) -> Vec<Line> {
    let Some(at) = experiment.axes.iter().position(|a| a.name == picture.x) else {
        return Vec::new();
    };
    let axis = &experiment.axes[at];
    // Of the other axes, those whose level the title says.
    let fixed = |axis: &Axis| picture.at.iter().find(|(name, _)| *name == axis.name);
    let is_here = |levels: &[usize]| {
        let mut levels = experiment.axes.iter().zip(levels);
        levels.all(|(axis, &index)| {
            fixed(axis).is_none_or(|(_, level)| axis.levels[index].name == *level)
        })
    };
    let is_shown = |x: f64, y: f64| (!picture.log_x || x > 0.0) && (!picture.log_y || y > 0.0);
    let mut found: BTreeMap<(usize, Vec<usize>), Vec<Point>> = BTreeMap::new();
    for Found { cell, values } in &analysis.found {
        let (Some(value), Some(&index)) = (values.get(&picture.y), cell.levels.get(at)) else {
            continue;
        };
        let Some(x) = axis.place(index) else {
            continue;
        };
        let is_of_it = picture.is_of(&experiment.subjects[cell.subject]);
        if !is_of_it || !is_shown(x, value.median) || !is_here(&cell.levels) {
            continue;
        }
        let mut others = cell.levels.clone();
        others.remove(at);
        found
            .entry((cell.subject, others))
            .or_default()
            .push(Point {
                x,
                y: value.median,
                low: value.low,
                high: value.high,
            });
    }
    let name = |subject: usize, others: &[usize]| {
        let axes = experiment.axes.iter().enumerate();
        let axes = axes.filter(|(index, _)| *index != at).map(|(_, axis)| axis);
        let mut words = vec![experiment.subjects[subject].clone()];
        words.extend(
            axes.zip(others)
                .filter(|(axis, _)| fixed(axis).is_none())
                .map(|(axis, &index)| axis.levels[index].name.clone()),
        );
        words.join(", ")
    };
    // Of the levels that the title does not say, how many there are for each subject, and which one this is.
    let free = |index: usize| index != at && fixed(&experiment.axes[index]).is_none();
    let number = |subject: usize, others: &[usize]| {
        let axes = (0..experiment.axes.len()).filter(|index| *index != at);
        let free = axes.zip(others).filter(|(index, _)| free(*index));
        free.fold(subject, |number, (index, level)| {
            number * experiment.axes[index].levels.len() + level
        })
    };
    let mut lines: Vec<Line> = found
        .into_iter()
        .map(|((subject, others), mut points)| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line {
                name: name(subject, &others),
                points,
                style: Style::Measured,
                number: Some(number(subject, &others)),
            }
        })
        .collect();
    // What the source has of other levels than these says nothing of what is measured here.
    let is_of_here = |finding: &Finding| {
        let both = finding.at.iter().cartesian_product(&picture.at);
        let mut same_axis = both.filter(|(of, at)| of.0 == at.0);
        same_axis.all(|(of, at)| of.1 == at.1)
    };
    for finding in &experiment.findings {
        if finding.axis != picture.x || finding.measure != picture.y || !is_of_here(finding) {
            continue;
        }
        let points = finding.points.iter().filter(|(x, y)| is_shown(*x, *y));
        lines.push(Line {
            name: format!("{} ({})", finding.name, finding.citation.document),
            points: points
                .map(|&(x, y)| Point {
                    x,
                    y,
                    low: y,
                    high: y,
                })
                .collect(),
            style: Style::Source,
            number: None,
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::experiment::analysis::Analysis;
    use crate::experiment::declaration::{Axis, Citation, Experiment, Finding, Picture};

    #[test]
    fn what_the_source_has_of_another_level_is_not_shown() {
        let experiment = Experiment {
            axes: vec![
                Axis::of_numbers("size", "B", &[1.0]),
                Axis::of_words("place", &["near", "far"]),
            ],
            findings: vec![Finding {
                name: "there".into(),
                axis: "size".into(),
                measure: "rate".into(),
                points: vec![(1.0, 2.0)],
                at: vec![("place".into(), "near".into())],
                citation: Citation::goal(),
            }],
            ..Experiment::default()
        };
        let analysis = Analysis {
            found: Vec::new(),
            verdicts: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            limited: (0, 0),
            client_known: 0,
        };
        let shown = |picture: Picture| lines(&experiment, &analysis, &picture).len();
        let all = Picture::new("All", "size", "rate");
        assert_eq!(shown(all.clone()), 1);
        assert_eq!(shown(all.clone().at("place", "near")), 1);
        assert_eq!(shown(all.at("place", "far")), 0);
    }
}
