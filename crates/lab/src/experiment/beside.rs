//! Model and measurement in a report: words, a table, and plots as figures 4-1 to 4-7 of 003 are,
//! the model as lines, what was measured as marks.

use super::by_stage;
use super::declaration::{Axis, Experiment, Picture};
use super::document::Part;
use super::fitted::{Beside, Curve, DELAY_WITHIN, Point as Load, Stages, UTILISATION_WITHIN};
use super::lacks;
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
    let ((busy, shares), (delay, delays)) = (of(0), of(1));
    let powerless = curves
        .iter()
        .filter(|curve| curve.has_power() == Some(false))
        .count();
    let mut text = format!(
        "At loads that it was not fitted to, the model says the busy share within {:.0} %, or within \
         the run's interval, at {busy} of {shares}, and the time of a request within {:.0} % at {delay} of \
         {delays}.",
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
    let two = curves.iter().filter(|curve| curve.is_of_two()).count();
    if two > 0 {
        text += &format!(
            " For {two} of {} curves the engine is a stage of its own: both busy shares count there.",
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

/// Whether it says what is to hold, a row for the busy share of each curve and one for the time of a request, as those of
/// claims are.
pub fn claimed(experiment: &Experiment, curves: &[Curve]) -> Vec<Vec<String>> {
    let Some(model) = &experiment.model else {
        return Vec::new();
    };
    let each = curves.iter().flat_map(|curve| {
        let measures = [&model.utilisation, &model.delay];
        let within = [UTILISATION_WITHIN, DELAY_WITHIN];
        let what = measures.into_iter().zip(within);
        let came = curve.held().into_iter().zip(curve.outcomes());
        what.zip(came)
            .map(|((measure, within), ((holding, all), outcome))| {
                let within = within * 100.0;
                vec![
                    "The model says what happens at loads that it has not seen (goal, of this project)".into(),
                    curve.others.join(", "),
                    format!("{}, {measure}", curve.subject),
                    format!("{holding} of {all}"),
                    format!("all within {within:.0} %, or the run's interval"),
                    outcome.word().into(),
                ]
            })
            .collect::<Vec<_>>()
    });
    each.collect()
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
    let subjects = experiment.subjects.iter();
    let subjects = subjects.filter(|subject| !model.without.contains(subject));
    subjects.count() * levels.product::<usize>()
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
    let lacks: Vec<String> = curves.iter().flat_map(lacks::of).collect();
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
        for (measure, name, whats) in [
            (
                &model.utilisation,
                "utilisation",
                &[What::Server, What::Engine][..],
            ),
            (&model.delay, "delay", &[What::Delay][..]),
        ] {
            let picture = Picture::new(
                format!("{}: {measure}, model and measured", others.join(", ")),
                "requests",
                measure.clone(),
            );
            let each = of
                .iter()
                .flat_map(|curve| whats.iter().map(move |what| lines(curve, *what)));
            let lines: Vec<Line> = each.flatten().collect();
            let axis = Axis::of_numbers("requests", "1/s", &[0.0]);
            if let Some(svg) = draw_lines(experiment, &picture, &axis, &lines)? {
                parts.push(Part::Picture {
                    title: picture.title,
                    file: format!("model-{}-{name}.svg", number + 1),
                    svg,
                });
            }
        }
    }
    parts.push(Part::Text(MEANING.into()));
    parts.push(table(curves));
    parts.extend(by_stage::parts(curves));
    Ok(parts)
}

const MEANING: &str = "Loads that the model has not seen are marked. Errors are (model − measured) / \
    measured, with 95 % intervals by bootstrap: rounds drawn anew, fitted and compared.";

/// What a line is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The time of a request, in milliseconds.
    Delay,
    /// The busy share of the server's core, in percent.
    Server,
    /// That of an engine which is a stage of its own.
    Engine,
}

impl What {
    fn measured(self, load: &Load) -> Option<(&Beside, f64)> {
        match self {
            Self::Delay => Some((&load.delay, 1e3)),
            Self::Server => Some((&load.utilisation, 100.0)),
            Self::Engine => Some((load.engine.as_ref()?, 100.0)),
        }
    }

    fn modelled(self, fit: &Stages, rate: f64) -> Option<f64> {
        match self {
            Self::Delay => Some(fit.delay(rate)? * 1e3),
            Self::Server => Some(fit.busy(rate) * 100.0),
            Self::Engine => Some(fit.engine(rate)? * 100.0),
        }
    }
}

/// The model as a line and what was measured as marks, in the units of the measures.
fn lines(curve: &Curve, what: What) -> Vec<Line> {
    let measured = |load: &Load| {
        let (beside, scale) = what.measured(load)?;
        Some(Point {
            x: load.rate,
            y: beside.measured.median * scale,
            low: beside.measured.low * scale,
            high: beside.measured.high * scale,
        })
    };
    let points: Vec<Point> = curve.points.iter().filter_map(measured).collect();
    if points.is_empty() {
        return Vec::new();
    }
    let rates = curve.points.iter().map(|point| point.rate);
    let most = rates.fold(0.0, f64::max) * 1.05;
    let modelled = (1..=STEPS).filter_map(|step| {
        let rate = most * f64::from(step) / f64::from(STEPS);
        let y = what.modelled(&curve.fit, rate)?;
        Some(Point {
            x: rate,
            y,
            low: y,
            high: y,
        })
    });
    // Close to saturation it leaves every picture.
    let top = points.iter().map(|point| point.high).fold(0.0, f64::max) * 1.5;
    let whose = match (what, curve.fit) {
        (What::Server, Stages::Two(_)) => ", server",
        (What::Engine, _) => ", engine",
        _ => "",
    };
    let name = |kind: &str| format!("{}{whose}, {kind}", curve.subject);
    vec![
        Line {
            name: name("model"),
            points: modelled.take_while(|point| point.y <= top).collect(),
            style: Style::Model,
            number: None,
        },
        Line {
            name: name("measured"),
            points,
            style: Style::Marks,
            number: None,
        },
    ]
}

fn table(curves: &[Curve]) -> Part {
    let mut rows = Vec::new();
    for curve in curves {
        for point in &curve.points {
            let mut row = by_stage::beginning(curve, point).to_vec();
            row.extend(by_stage::cells(
                &point.utilisation,
                100.0,
                UTILISATION_WITHIN,
            ));
            row.extend(by_stage::cells(&point.delay, 1e3, DELAY_WITHIN));
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
