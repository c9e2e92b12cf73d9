//! Model and measurement in a report: words, a table, and plots as figures 4-1 to 4-7 of 003 are,
//! the model as lines, what was measured as marks.

use super::declaration::{Axis, Experiment, Picture};
use super::document::Part;
use super::fitted::{Beside, Curve, DELAY_WITHIN, Point as Load, UTILISATION_WITHIN};
use super::plot::{Line, Point, Style, draw_lines};
use anyhow::Result;
use std::collections::BTreeSet;

/// Points of a model's line.
const STEPS: u32 = 60;

/// What came of it, in words.
pub fn words(experiment: &Experiment, curves: &[Curve]) -> String {
    let of = |which: usize| {
        let all = curves.iter().map(|curve| curve.held()[which]);
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let ((busy, all), (delay, _)) = (of(0), of(1));
    let powerless = curves
        .iter()
        .filter(|curve| curve.has_power() == Some(false))
        .count();
    let mut text = format!(
        "At loads that it was not fitted to, the model says the busy share within {:.0} %, or within \
         the run's interval, at {busy} of {all}, and the time of a request within {:.0} % at {delay} of \
         {all}.",
        UTILISATION_WITHIN * 100.0,
        DELAY_WITHIN * 100.0,
    );
    if powerless > 0 {
        text += &format!(
            " A Kolmogorov–Smirnov test of so few means, the source's, would let delays pass that are \
             half as long again for {powerless} of {} curves.",
            curves.len()
        );
    }
    let missing = expected(experiment).saturating_sub(curves.len());
    if missing > 0 {
        text += &format!(
            " For {missing} more there is no model: too little was measured, or the busy share does not \
             grow with the load."
        );
    }
    text
}

/// Curves that there could be.
fn expected(experiment: &Experiment) -> usize {
    let Some(model) = &experiment.model else {
        return 0;
    };
    let others = experiment
        .axes
        .iter()
        .filter(|axis| axis.name != model.axis);
    let levels = others.map(|axis| axis.levels.len());
    experiment.subjects.len() * levels.product::<usize>()
}

/// The section; nothing without a curve.
///
/// # Errors
/// A plot cannot be drawn.
pub fn parts(experiment: &Experiment, curves: &[Curve]) -> Result<Vec<Part>> {
    let Some(model) = experiment.model.as_ref().filter(|_| !curves.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut parts = vec![
        Part::Heading("Model and measurement".into()),
        Part::Text(words(experiment, curves)),
    ];
    let lacks: Vec<String> = curves.iter().flat_map(Curve::lacks).collect();
    if lacks.is_empty() {
        parts.push(Part::Text("It misses at none of them.".into()));
    } else {
        parts.push(Part::Text(
            "Where the model misses, and what it lacks:".into(),
        ));
        parts.push(Part::List(lacks));
    }
    let groups: BTreeSet<&Vec<String>> = curves.iter().map(|curve| &curve.others).collect();
    for (number, others) in groups.into_iter().enumerate() {
        let of: Vec<&Curve> = curves.iter().filter(|c| c.others == *others).collect();
        for (measure, what) in [(&model.utilisation, "utilisation"), (&model.delay, "delay")] {
            let picture = Picture::new(
                format!("{}: {measure}, model and measured", others.join(", ")),
                "requests",
                measure.clone(),
            );
            let lines: Vec<Line> = of
                .iter()
                .flat_map(|curve| lines(curve, what == "delay"))
                .collect();
            let axis = Axis::of_numbers("requests", "1/s", &[0.0]);
            if let Some(svg) = draw_lines(experiment, &picture, &axis, &lines)? {
                parts.push(Part::Picture {
                    title: picture.title,
                    file: format!("model-{}-{what}.svg", number + 1),
                    svg,
                });
            }
        }
    }
    parts.push(Part::Text(MEANING.into()));
    parts.push(table(curves));
    parts.push(fits(curves));
    Ok(parts)
}

const MEANING: &str = "Loads that the model has not seen are marked. Errors are (model − measured) / \
    measured, with 95 % intervals by bootstrap: rounds drawn anew, fitted and compared.";

/// The model as a line and what was measured as marks, in the units of the measures: percent, or
/// milliseconds.
fn lines(curve: &Curve, is_delay: bool) -> [Line; 2] {
    let most = curve
        .points
        .iter()
        .map(|point| point.rate)
        .fold(0.0, f64::max)
        * 1.05;
    let at = |step: u32| most * f64::from(step) / f64::from(STEPS);
    let modelled = (1..=STEPS).filter_map(|step| {
        let rate = at(step);
        let y = if is_delay {
            curve.fit.delay(rate)? * 1e3
        } else {
            curve.fit.busy(rate) * 100.0
        };
        Some(Point {
            x: rate,
            y,
            low: y,
            high: y,
        })
    });
    // Close to saturation it leaves every picture.
    let measured = |load: &Load| {
        let (beside, scale) = if is_delay {
            (&load.delay, 1e3)
        } else {
            (&load.utilisation, 100.0)
        };
        Point {
            x: load.rate,
            y: beside.measured.median * scale,
            low: beside.measured.low * scale,
            high: beside.measured.high * scale,
        }
    };
    let points: Vec<Point> = curve.points.iter().map(measured).collect();
    let top = points.iter().map(|point| point.high).fold(0.0, f64::max) * 1.5;
    [
        Line {
            name: format!("{}, model", curve.subject),
            points: modelled.take_while(|point| point.y <= top).collect(),
            style: Style::Model,
            number: None,
        },
        Line {
            name: format!("{}, measured", curve.subject),
            points,
            style: Style::Marks,
            number: None,
        },
    ]
}

fn table(curves: &[Curve]) -> Part {
    let cells = |beside: &Beside, scale: f64, within: f64| -> [String; 3] {
        let value = |value: f64| format!("{:.3}", value * scale);
        let Beside {
            model, measured, ..
        } = beside;
        [
            format!(
                "{} ({} to {})",
                value(measured.median),
                value(measured.low),
                value(measured.high)
            ),
            model.map_or("saturated".into(), value),
            match beside.error {
                Some((error, low, high)) => format!(
                    "{:+.0} % ({:+.0} to {:+.0}){}",
                    error * 100.0,
                    low * 100.0,
                    high * 100.0,
                    if beside.holds(within) { "" } else { ", misses" }
                ),
                None => "misses".into(),
            },
        ]
    };
    let mut rows = Vec::new();
    for curve in curves {
        for point in &curve.points {
            let mut row = vec![
                format!(
                    "{}{}",
                    curve.name(),
                    if point.held { " (not seen)" } else { "" }
                ),
                format!("{:.0}", point.rate),
            ];
            row.extend(cells(&point.utilisation, 100.0, UTILISATION_WITHIN));
            row.extend(cells(&point.delay, 1e3, DELAY_WITHIN));
            rows.push(row);
        }
    }
    let head = [
        "",
        "requests, 1/s",
        "busy, %",
        "model",
        "off by",
        "time, ms",
        "model",
        "off by",
    ];
    Part::Table {
        head: head.map(String::from).to_vec(),
        rows,
    }
}

/// What was fitted, and the source's test of it.
fn fits(curves: &[Curve]) -> Part {
    let rows = curves.iter().map(|curve| {
        let fit = &curve.fit;
        let or_none =
            |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
        vec![
            curve.name(),
            format!("{:.1}", fit.service * 1e6),
            format!("{:.1}", fit.background * 100.0),
            format!("{:.1}", fit.alone * 1e6),
            format!("{:.1}", fit.second.sqrt() * 1e6),
            format!("{:.0}", fit.saturation()),
            or_none(curve.test.map(|test| test.distance)),
            or_none(curve.test.and_then(|test| test.exact)),
            or_none(curve.far_off),
        ]
    });
    let head = [
        "",
        "E[S], µs",
        "busy without load, %",
        "time alone, µs",
        "√E[S²], µs",
        "saturates at, 1/s",
        "K–S distance",
        "its p",
        "p of delays half as long again",
    ];
    Part::Table {
        head: head.map(String::from).to_vec(),
        rows: rows.collect(),
    }
}
