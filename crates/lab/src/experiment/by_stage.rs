//! What was fitted, in tables: of models of one stage and of two, and of these what a request takes at each.

use super::document::Part;
use super::fitted::{Beside, Curve, Point, Stages, UTILISATION_WITHIN};
use queueing::fit::two_stages::TwoStages;

/// What was fitted, and the source's test of it; of engines that are stages of their own how busy they were, and the
/// times at both stages.
pub fn parts(curves: &[Curve]) -> Vec<Part> {
    let mut parts = Vec::new();
    let one = curves.iter().filter_map(|curve| {
        let mut row = one_stage(curve)?;
        row.extend(there(curve, curves));
        Some(row)
    });
    let one: Vec<Vec<String>> = one.collect();
    if !one.is_empty() {
        parts.push(table(&head(&ONE, curves), one));
    }
    let two: Vec<(&Curve, &TwoStages)> = curves.iter().filter_map(of_two).collect();
    if !two.is_empty() {
        let rows = two.iter().map(|(curve, fit)| {
            let mut row = two_stages(curve, fit);
            row.extend(there(curve, curves));
            row
        });
        parts.push(Part::Text(TWO_MEAN.into()));
        parts.push(table(&head(&TWO, curves), rows.collect()));
        let at_each = |(curve, fit): &(&Curve, &TwoStages)| -> Vec<Vec<String>> {
            let points = curve.points.iter();
            points.map(|point| times(curve, fit, point)).collect()
        };
        parts.push(Part::Text(TIMES_MEAN.into()));
        parts.push(table(&TIMES, two.iter().flat_map(at_each).collect()));
    }
    parts
}

const ONE: [&str; 9] = [
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

const TWO: [&str; 12] = [
    "",
    "server: E[S], µs",
    "its scv",
    "busy without load, %",
    "engine: E[S], µs",
    "its scv",
    "busy without load, %",
    "time alone, µs",
    "saturates at, 1/s",
    "K–S distance",
    "its p",
    "p of delays half as long again",
];

/// What a source has of its own models, behind that.
const THERE: [&str; 3] = [
    "there: saturated at, 1/s",
    "there: K–S distance",
    "there: its p",
];

/// Whether the source has anything of any of them.
fn is_there(curves: &[Curve]) -> bool {
    curves.iter().any(|curve| curve.there.is_some())
}

fn head(own: &[&'static str], curves: &[Curve]) -> Vec<&'static str> {
    let there = if is_there(curves) { &THERE[..] } else { &[] };
    [own, there].concat()
}

/// What stands below [`THERE`].
fn there(curve: &Curve, curves: &[Curve]) -> Vec<String> {
    if !is_there(curves) {
        return Vec::new();
    }
    let told = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".into(), |value| format!("{value:.digits$}"))
    };
    let there = curve.there.as_ref();
    vec![
        told(there.and_then(|there| there.saturation), 0),
        told(there.map(|there| there.distance), 4),
        told(there.map(|there| there.p), 4),
    ]
}

const TWO_MEAN: &str = "Where the engine is a stage of its own, a request is served by the server's core and then by \
    the engine's: the squared coefficients of variation (scv) of both services are fitted to the delays, with the time \
    that a request takes alone.";

const TIMES: [&str; 8] = [
    "",
    "requests, 1/s",
    "engine busy, %",
    "model",
    "off by",
    "at the server, ms",
    "at the engine, ms",
    "elsewhere, ms",
];

const TIMES_MEAN: &str = "Of these the time at a stage, waiting and being served, is the model's: nobody measures it. What \
    is elsewhere is the way, and the waking of those who sleep; it is below nothing where a core has work for a request \
    that the answer does not wait for.";

fn table(head: &[&str], rows: Vec<Vec<String>>) -> Part {
    Part::Table {
        head: head.iter().copied().map(String::from).collect(),
        rows,
    }
}

fn one_stage(curve: &Curve) -> Option<Vec<String>> {
    let Stages::One(fit) = &curve.fit else {
        return None;
    };
    let mut row = vec![
        curve.name(),
        format!("{:.1}", fit.service * 1e6),
        format!("{:.1}", fit.background * 100.0),
        format!("{:.1}", fit.alone * 1e6),
        format!("{:.1}", fit.second.sqrt() * 1e6),
    ];
    row.extend(tested(curve));
    Some(row)
}

fn of_two(curve: &Curve) -> Option<(&Curve, &TwoStages)> {
    match &curve.fit {
        Stages::One(_) => None,
        Stages::Two(fit) => Some((curve, fit)),
    }
}

fn two_stages(curve: &Curve, fit: &TwoStages) -> Vec<String> {
    let mut row = vec![curve.name()];
    for stage in [&fit.first, &fit.second] {
        row.push(format!("{:.1}", stage.service * 1e6));
        row.push(format!("{:.2}", stage.scv));
        row.push(format!("{:.1}", stage.background * 100.0));
    }
    row.push(format!("{:.1}", fit.alone * 1e6));
    row.extend(tested(curve));
    row
}

fn tested(curve: &Curve) -> [String; 4] {
    let or_none = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    [
        format!("{:.0}", curve.fit.saturation()),
        or_none(curve.test.map(|test| test.distance)),
        or_none(curve.test.and_then(|test| test.exact)),
        or_none(curve.far_off),
    ]
}

fn times(curve: &Curve, fit: &TwoStages, point: &Point) -> Vec<String> {
    let mut row = beginning(curve, point).to_vec();
    match &point.engine {
        Some(engine) => row.extend(cells(engine, 100.0, UTILISATION_WITHIN)),
        None => row.extend([const { String::new() }; 3]),
    }
    let times = fit.at(point.rate).ok().map(|at| {
        let served = at.first.time - at.first.wait + at.second.time - at.second.wait;
        [at.first.time, at.second.time, fit.alone - served]
    });
    match times {
        Some(times) => row.extend(times.map(|time| format!("{:.3}", time * 1e3))),
        None => row.extend(["saturated"; 3].map(String::from)),
    }
    row
}

/// What a row is of: a curve, whether the model has seen the load, and that.
pub fn beginning(curve: &Curve, point: &Point) -> [String; 2] {
    let seen = if point.held { " (not seen)" } else { "" };
    [
        format!("{}{seen}", curve.name()),
        format!("{:.0}", point.rate),
    ]
}

/// What was measured, what the model says, and how far it is off.
pub fn cells(beside: &Beside, scale: f64, within: f64) -> [String; 3] {
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
}
