//! The answers as a table, CSV and JSON.

use super::study::{Check, Study};
use super::written::duration;
use anyhow::Result;
use lab::table::Table;
use queueing::offload::Prediction;
use serde_json::{Value, json};
use std::fmt::Write;

/// Lines of a table that people read; the others are in CSV and JSON.
const ROWS: usize = 12;

/// The table.
pub fn table(study: &Study) -> String {
    let mut table = Table::new([
        "load/s",
        "host alone",
        "delay",
        "host",
        "engine",
        "delay",
        "best: offload",
        "delay",
    ]);
    table.left(6);
    let every = study.points.len().div_ceil(ROWS);
    for point in study.points.iter().step_by(every) {
        let share =
            |used: Option<f64>| used.map_or("—".into(), |used| format!("{:.0} %", used * 100.0));
        let delay = |prediction: Option<&Prediction>| {
            prediction.map_or("saturated".into(), |prediction| {
                let lost = if prediction.blocking > 0.0 {
                    format!(" ({:.1} % lost)", prediction.blocking * 100.0)
                } else {
                    String::new()
                };
                duration(prediction.delay) + &lost
            })
        };
        let (without, with) = (point.without.as_ref(), point.with.as_ref());
        let placed = point
            .best
            .as_ref()
            .map_or("nothing carries it".into(), |best| {
                let names: Vec<&str> = study
                    .server
                    .classes
                    .iter()
                    .zip(&best.offloaded)
                    .filter_map(|(class, offloaded)| offloaded.then_some(class.name.as_str()))
                    .collect();
                if names.is_empty() {
                    "nothing".into()
                } else {
                    names.join(", ")
                }
            });
        table.row([
            format!("{:.0}", point.rate),
            share(without.map(|p| p.host_utilisation)),
            delay(without),
            share(with.map(|p| p.host_utilisation)),
            share(with.and_then(|p| p.engine_utilisation)),
            delay(with),
            placed,
            delay(point.best.as_ref().map(|best| &best.prediction)),
        ]);
    }
    table.to_string()
}

/// A line a load and system: seconds and shares.
pub fn csv(study: &Study) -> String {
    let mut text = String::from(
        "rate,system,class,offloaded,host_utilisation,engine_utilisation,delay_seconds,blocking\n",
    );
    for point in &study.points {
        let best = point.best.as_ref().map(|best| &best.prediction);
        for (system, prediction) in [
            ("host", point.without.as_ref()),
            ("engine", point.with.as_ref()),
            ("best", best),
        ] {
            let Some(prediction) = prediction else {
                let _ = writeln!(text, "{},{system},all,,,,,", point.rate);
                continue;
            };
            let used = |used: Option<f64>| used.map_or(String::new(), |used| used.to_string());
            let _ = writeln!(
                text,
                "{},{system},all,,{},{},{},{}",
                point.rate,
                prediction.host_utilisation,
                used(prediction.engine_utilisation),
                prediction.delay,
                prediction.blocking
            );
            for class in &prediction.classes {
                let _ = writeln!(
                    text,
                    "{},{system},{},{},{},{},{},",
                    point.rate,
                    class.name.replace(',', ";"),
                    class.offloaded,
                    class.host_utilisation,
                    used(class.engine_utilisation),
                    class.delay
                );
            }
        }
    }
    text
}

/// Everything, for programs. Times in seconds; `null` where a system does not carry the load.
pub fn json(study: &Study, check: Option<&Check>) -> Result<String> {
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
    Ok(serde_json::to_string_pretty(&json!({
        "inputs": study.server.origin,
        "system": study.server.system,
        "classes": classes,
        "saturation_without_engine": study.saturation_without,
        "saturation_with_engine": study.saturation_with.0,
        "bottleneck_with_engine": study.saturation_with.1,
        "at_rate": study.at,
        "overhead_bounds": study.bounds,
        "elasticities": study.elasticities,
        "simulation": check,
        "policy": study.policy()?,
        "points": points,
    }))?)
}
