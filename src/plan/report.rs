//! The answers as a table, CSV and JSON.

use super::check::Check;
use super::measurement::Fit;
use super::study::{Point, Study};
use super::uncertain::Open;
use super::written::duration;
use anyhow::Result;
use lab::table::Table;
use queueing::offload::Prediction;
use serde_json::{Value, json};
use std::fmt::Write;

/// Lines of a table that people read, besides those where the placement changes; the others are in
/// CSV and JSON. With [`super::study::POINTS`] points, every second one: the first and the last too.
const ROWS: usize = 13;

/// The table.
pub fn table(study: &Study) -> String {
    let several = study.server.classes.len() > 1;
    let mut header = vec![
        "load/s",
        "alone: host",
        "delay",
        "offloaded: host",
        "engine",
        "delay",
        "best: offload",
    ];
    if several {
        header.push("delay");
    }
    let mut table = Table::new(header);
    table.left(6);
    let even: Vec<&Point> = study.points.iter().filter(|point| !point.turn).collect();
    let every = even.len().div_ceil(ROWS);
    let shown: Vec<f64> = even.iter().step_by(every).map(|point| point.rate).collect();
    for point in &study.points {
        if !point.turn && !shown.contains(&point.rate) {
            continue;
        }
        let (without, with) = (point.without.as_ref(), point.with.as_ref());
        let best = point.best.as_ref();
        let placed = best.map_or("nothing carries it".into(), |best| {
            study.server.offloaded(&best.offloaded)
        });
        let mut row = vec![
            format!("{:.0}", point.rate),
            share(without.map(|p| p.host_utilisation)),
            delay(without),
            share(with.map(|p| p.host_utilisation)),
            share(with.and_then(|p| p.engine_utilisation)),
            delay(with),
            placed,
        ];
        if several {
            row.push(delay(best.map(|best| &best.prediction)));
        }
        table.row(row);
    }
    table.to_string()
}

fn share(used: Option<f64>) -> String {
    used.map_or("—".into(), |used| format!("{:.0} %", used * 100.0))
}

fn delay(prediction: Option<&Prediction>) -> String {
    prediction.map_or("saturated".into(), |prediction| {
        let lost = if prediction.blocking > 0.0 {
            format!(" ({:.1} % lost)", prediction.blocking * 100.0)
        } else {
            String::new()
        };
        duration(prediction.delay) + &lost
    })
}

/// A line a load, system and class (`*`: all classes together): seconds, shares and numbers. What a
/// system cannot carry has empty fields.
pub fn csv(study: &Study) -> String {
    let mut text = String::from(
        "rate,system,class,offloaded,host_utilisation,engine_utilisation,delay_seconds,waiting,blocking\n",
    );
    for point in &study.points {
        let best = point.best.as_ref().map(|best| &best.prediction);
        for (system, prediction) in [
            ("host", point.without.as_ref()),
            ("engine", point.with.as_ref()),
            ("best", best),
        ] {
            let Some(prediction) = prediction else {
                let _ = writeln!(text, "{},{system},*,,,,,,", point.rate);
                continue;
            };
            let used = |used: Option<f64>| used.map_or(String::new(), |used| used.to_string());
            let _ = writeln!(
                text,
                "{},{system},*,,{},{},{},{},{}",
                point.rate,
                prediction.host_utilisation,
                used(prediction.engine_utilisation),
                prediction.delay,
                prediction.waiting,
                prediction.blocking
            );
            for class in &prediction.classes {
                let _ = writeln!(
                    text,
                    "{},{system},{},{},{},{},{},{},",
                    point.rate,
                    quoted(&class.name),
                    class.offloaded,
                    class.host_utilisation,
                    used(class.engine_utilisation),
                    class.delay,
                    class.waiting
                );
            }
        }
    }
    text
}

/// A field as RFC 4180 wants it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}

/// Everything, for programs. Times in seconds; `null` where a system does not carry the load.
pub fn json(
    study: &Study,
    check: Option<&Check>,
    fitted: &[Fit],
    open: Option<&Open>,
) -> Result<Value> {
    let points: Vec<Value> = study
        .points
        .iter()
        .map(|point| {
            json!({ "rate": point.rate, "host": point.without, "engine": point.with, "best": point.best })
        })
        .collect();
    let classes: Vec<&str> = study
        .server
        .classes
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    Ok(json!({
        "inputs": study.server.origin,
        "fitted": fitted,
        "intervals": open.map(Open::json),
        "system": study.server.system,
        "classes": classes,
        "saturation_without_engine": study.saturation_without,
        "saturation_with_engine": study.saturation_with.0,
        "bottleneck_with_engine": study.saturation_with.1,
        "greatest_load": study.greatest.0,
        "greatest_load_offloads": study.greatest.1,
        "at_rate": study.at,
        "overhead_bounds": study.bounds,
        "verdict": super::headline::headline(study),
        "elasticities": study.elasticities,
        "elasticities_at_rate": study.usual,
        "simulation": check,
        "policy": study.policy()?,
        "points": points,
    }))
}
