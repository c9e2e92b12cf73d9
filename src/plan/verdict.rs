//! The answers in words, before any table.

use super::study::{Point, Study};
use super::written::duration;
use queueing::offload::predict::Bottleneck;
use std::fmt::Write;

/// What to do, and why.
pub fn words(study: &Study) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", headline(study));
    let _ = writeln!(text, "{}", saturations(study));
    for line in classes(study) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(line) = savings(study) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(line) = overhead(study) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(line) = hangs_on(study) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "Inputs: {}; arrivals Poisson. {}",
        study.server.origin,
        exactness(study)
    );
    text
}

fn headline(study: &Study) -> String {
    let count = study.server.classes.len();
    let mut ever = vec![false; count];
    for placement in study.points.iter().filter_map(|point| point.best.as_ref()) {
        for (ever, offloaded) in ever.iter_mut().zip(&placement.offloaded) {
            *ever |= offloaded;
        }
    }
    let names: Vec<&str> = study
        .server
        .classes
        .iter()
        .zip(&ever)
        .filter_map(|(class, ever)| ever.then_some(class.name.as_str()))
        .collect();
    match names.len() {
        0 => "Do not offload: at no load that was looked at does it shorten the delay.".into(),
        n if n == count && first_load(study, |_| true).is_none() => {
            "Offload everything, at every load.".into()
        }
        n if n == count && count == 1 => match first_load(study, |point| offloads(point, 0)) {
            Some(rate) => format!("Offload from {rate:.0} requests a second on."),
            None => "Offload, at every load.".into(),
        },
        n if n == count => "Offload every class, each from its own load on.".into(),
        _ => format!("Offload {}; leave the rest to the host.", names.join(", ")),
    }
}

fn offloads(point: &Point, class: usize) -> bool {
    point
        .best
        .as_ref()
        .is_some_and(|best| best.offloaded[class])
}

/// The first load at which something holds, unless it holds from the first one on.
fn first_load(study: &Study, holds: impl Fn(&Point) -> bool) -> Option<f64> {
    let everything = |point: &&Point| {
        holds(point)
            && point
                .best
                .as_ref()
                .is_some_and(|best| best.offloaded.iter().any(|offloaded| *offloaded))
    };
    let first = study.points.iter().position(|point| everything(&point))?;
    (first > 0).then(|| study.points[first].rate)
}

fn saturations(study: &Study) -> String {
    let (with, stage) = study.saturation_with;
    let stage = match stage {
        Bottleneck::Host => "the host",
        Bottleneck::Engine => "the engine",
    };
    let change = with / study.saturation_without - 1.0;
    format!(
        "Saturation: {:.0} requests a second without engine; {with:.0} with everything offloaded \
         ({:+.0} %), where {stage} saturates first.",
        study.saturation_without,
        change * 100.0,
    )
}

fn classes(study: &Study) -> Vec<String> {
    if study.server.classes.len() == 1 {
        return Vec::new();
    }
    let carried: Vec<&Point> = study
        .points
        .iter()
        .filter(|point| point.best.is_some())
        .collect();
    let line = |(index, class): (usize, &queueing::offload::Class)| {
        let first = carried.iter().position(|point| offloads(point, index));
        let last = carried.iter().rposition(|point| offloads(point, index));
        let when = match (first, last) {
            (None, _) | (_, None) => "not offloaded at any load".into(),
            (Some(first), Some(last)) => {
                let from = if first == 0 {
                    "offload from the lightest load on".to_string()
                } else {
                    format!(
                        "offload from {:.0} requests a second on",
                        carried[first].rate
                    )
                };
                match carried.get(last + 1) {
                    Some(end) => format!("{from}, up to {:.0}", end.rate),
                    None => from,
                }
            }
        };
        format!("  {:<12} {when}", class.name)
    };
    study.server.classes.iter().enumerate().map(line).collect()
}

/// What the best placement saves at the busiest load that the host alone carries too.
fn savings(study: &Study) -> Option<String> {
    let point = study
        .points
        .iter()
        .rev()
        .find(|point| point.without.is_some() && point.best.is_some())?;
    let (without, best) = (point.without.as_ref()?, &point.best.as_ref()?.prediction);
    let engine = best.engine_utilisation.map_or(String::new(), |used| {
        format!(" (and {:.0} % of the engine's cores)", used * 100.0)
    });
    let lost = if without.blocking > 0.0 || best.blocking > 0.0 {
        format!(
            ", and {:.2} % are turned away instead of {:.2} %",
            best.blocking * 100.0,
            without.blocking * 100.0
        )
    } else {
        String::new()
    };
    Some(format!(
        "At {:.0} requests a second the best placement uses {:.0} % of the host's cores{engine} \
         instead of {:.0} %, a request takes {} instead of {}{lost}.",
        point.rate,
        best.host_utilisation * 100.0,
        without.host_utilisation * 100.0,
        duration(best.delay),
        duration(without.delay),
    ))
}

fn overhead(study: &Study) -> Option<String> {
    let bounds = study.bounds?;
    let or_never = |bound: Option<f64>| {
        bound.map_or("never".into(), |bound| format!("below {}", duration(bound)))
    };
    Some(format!(
        "Everything offloaded pays while talking to the engine costs the host, a request: \
         for CPU below {}, for saturation {}, for delay at {:.0} a second {}.",
        duration(bounds.cpu),
        or_never(bounds.saturation),
        study.at,
        or_never(bounds.delay),
    ))
}

fn hangs_on(study: &Study) -> Option<String> {
    let most = study
        .elasticities
        .iter()
        .filter(|elasticity| elasticity.input != "arrival_rate")
        .max_by(|a, b| a.with_engine.abs().total_cmp(&b.with_engine.abs()))?;
    Some(format!(
        "The delay with engine hangs most on the {} time: 1 % more of it makes {:.1} % more delay \
         at {:.0} a second. Measure that one well.",
        most.input, most.with_engine, study.at,
    ))
}

fn exactness(study: &Study) -> &'static str {
    if study.server.bounded() {
        return "Room is bounded: every delay is of the accepted requests, simulated (200,000 a load).";
    }
    let predictions = study
        .points
        .iter()
        .flat_map(|point| [&point.without, &point.with]);
    if predictions.flatten().all(|prediction| prediction.exact) {
        "Delays are exact for these inputs."
    } else {
        "Delays with engine are approximations (QNA); --simulate checks them."
    }
}
