//! The course of something: several measures, one after another, in one plot, with a line for each subject.

use super::analysis::{Analysis, Found};
use super::declaration::{Axis, Experiment, Picture};
use super::plot::{Line, Point, Style, draw_lines};
use anyhow::Result;

/// Draws a picture of moments as SVG; `None` if there is nothing to draw.
///
/// # Errors
/// It cannot be drawn.
pub fn draw(
    experiment: &Experiment,
    analysis: &Analysis,
    picture: &Picture,
) -> Result<Option<String>> {
    let moments: Vec<&str> = picture.moments.iter().map(String::as_str).collect();
    let axis = Axis::of_words(&picture.x, &moments);
    let lines: Vec<Line> = lines(experiment, analysis, picture);
    draw_lines(experiment, picture, &axis, &lines)
}

fn lines(experiment: &Experiment, analysis: &Analysis, picture: &Picture) -> Vec<Line> {
    let is_here = |found: &&Found| {
        let levels = found.cell.levels(experiment);
        let mut levels = experiment.axes.iter().zip(levels);
        levels.all(|(axis, level)| {
            let wanted = picture.at.iter().find(|(name, _)| *name == axis.name);
            wanted.is_none_or(|(_, wanted)| *wanted == level.name)
        })
    };
    let is_of_it = |found: &&Found| picture.is_of(&experiment.subjects[found.cell.subject]);
    let found = analysis.found.iter().filter(is_here).filter(is_of_it);
    let ours = found.map(|found| line(experiment, found, picture));
    // Who has none of them has no line, and no name beside it.
    let ours = ours.filter(|line| !line.points.is_empty());
    ours.chain(sources(experiment, picture)).collect()
}

/// The source's figures of these moments: one line for all that have a name.
fn sources(experiment: &Experiment, picture: &Picture) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for finding in &experiment.findings {
        let moment = picture.moments.iter().position(|m| *m == finding.measure);
        let here = picture.at.iter().find(|(axis, _)| *axis == finding.axis);
        let (Some(moment), Some((axis, level))) = (moment, here) else {
            continue;
        };
        let at = experiment.axis(axis).and_then(|axis| axis.place_of(level));
        let Some((_, y)) = finding.points.iter().find(|(x, _)| Some(*x) == at) else {
            continue;
        };
        if picture.log_y && *y <= 0.0 {
            continue;
        }
        let point = Point {
            x: moment as f64,
            y: *y,
            low: *y,
            high: *y,
        };
        let name = format!("{} ({})", finding.name, finding.citation.document);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
                style: Style::Source,
                number: None,
            }),
        }
    }
    lines
}

/// A subject's moments, those that it has.
fn line(experiment: &Experiment, found: &Found, picture: &Picture) -> Line {
    let values = picture.moments.iter().enumerate();
    let points = values.filter_map(|(index, moment)| {
        let value = found.values.get(moment)?;
        let is_shown = !picture.log_y || value.low > 0.0;
        is_shown.then_some(Point {
            x: index as f64,
            y: value.median,
            low: value.low,
            high: value.high,
        })
    });
    Line {
        name: experiment.subjects[found.cell.subject].clone(),
        points: points.collect(),
        style: Style::Measured,
        number: Some(found.cell.subject),
    }
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::experiment::analysis::{Analysis, Found, interval};
    use crate::experiment::declaration::{Axis, Citation, Experiment, Finding, Measure, Picture};
    use crate::experiment::order::Cell;

    /// Each subject's moments stand in their order, at the level that the picture is of, and one that it has not is
    /// left out; so do the source's.
    #[test]
    fn a_line_goes_through_the_moments_of_its_subject() {
        let finding = |measure: &str, points: &[(f64, f64)]| Finding {
            name: "there".into(),
            axis: "place".into(),
            measure: measure.into(),
            points: points.to_vec(),
            at: Vec::new(),
            citation: Citation::goal(),
        };
        let experiment = Experiment {
            axes: vec![Axis::of_words("place", &["near", "far"])],
            subjects: vec!["one".into(), "two".into()],
            measures: ["begins", "ends"]
                .map(|name| Measure::new(name, "µs"))
                .to_vec(),
            pictures: vec![
                Picture::course("A course", "moment", "since", &["begins", "ends"])
                    .at("place", "far"),
            ],
            findings: vec![
                finding("begins", &[(0.0, 3.0), (1.0, 4.0)]),
                finding("ends", &[(1.0, 6.0)]),
            ],
            ..Experiment::default()
        };
        assert!(
            experiment.mistakes().is_empty(),
            "{:?}",
            experiment.mistakes()
        );
        let found = |place: usize, subject: usize, values: &[(&str, f64)]| Found {
            cell: Cell {
                levels: vec![place],
                subject,
            },
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), interval(&[*value]).unwrap()))
                .collect(),
        };
        let analysis = Analysis {
            found: vec![
                found(0, 0, &[("begins", 9.0)]),
                found(1, 0, &[("ends", 5.0), ("begins", 1.0)]),
                found(1, 1, &[("ends", 7.0)]),
            ],
            verdicts: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            limited: (0, 0),
            client_known: 0,
        };
        let drawn = lines(&experiment, &analysis, &experiment.pictures[0]);
        let points = |line: &super::Line| -> Vec<(f64, f64)> {
            line.points.iter().map(|point| (point.x, point.y)).collect()
        };
        let names: Vec<&str> = drawn.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "there (goal)"]);
        assert_eq!(points(&drawn[0]), [(0.0, 1.0), (1.0, 5.0)]);
        assert_eq!(points(&drawn[1]), [(1.0, 7.0)]);
        // The source's figures at that level, in a line of their own.
        assert_eq!(points(&drawn[2]), [(0.0, 4.0), (1.0, 6.0)]);
        let mut wrong = experiment.clone();
        wrong.pictures[0].moments.push("never".into());
        assert_eq!(wrong.mistakes(), ["no measure never"]);
    }
}
