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
    for line in savings(study) {
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
        0 => format!(
            "Do not offload: at no load that was looked at does it {}.{}",
            if study.server.bounded() {
                "turn fewer requests away or shorten the delay"
            } else {
                "shorten the delay"
            },
            spared(study)
        ),
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

/// What offloading would do to the host's CPU where it does not shorten the delay.
fn spared(study: &Study) -> String {
    let point = study.points.iter().find(|point| point.rate == study.at);
    let Some((without, with)) = point.and_then(|p| Some((p.without.as_ref()?, p.with.as_ref()?)))
    else {
        return String::new();
    };
    if with.host_utilisation >= without.host_utilisation {
        return String::new();
    }
    format!(
        " Offloading everything would spare the host, though: {:.0} % of its cores instead of \
         {:.0} % at {:.0} a second, for a delay of {} instead of {}.",
        with.host_utilisation * 100.0,
        without.host_utilisation * 100.0,
        study.at,
        duration(with.delay),
        duration(without.delay),
    )
}

fn saturations(study: &Study) -> String {
    let (with, stage) = study.saturation_with;
    let stage = match stage {
        _ if tied(study) => "host and engine saturate together",
        Bottleneck::Host => "the host saturates first",
        Bottleneck::Engine => "the engine saturates first",
    };
    let change = |rate: f64| (rate / study.saturation_without - 1.0) * 100.0;
    let mut text = format!(
        "Saturation: {:.0} requests a second without engine; {with:.0} with everything offloaded \
         ({:+.0} %), where {stage}.",
        study.saturation_without,
        change(with),
    );
    let (most, offloaded) = &study.greatest;
    if *most > with.max(study.saturation_without) * (1.0 + 1e-9) {
        let _ = write!(
            text,
            " Most of all, {most:.0} ({:+.0} %), with only {} offloaded.",
            change(*most),
            study.server.offloaded(offloaded),
        );
    }
    text
}

/// Whether both stages saturate at the same load, everything offloaded.
fn tied(study: &Study) -> bool {
    let with = study.points.iter().find_map(|point| point.with.as_ref());
    with.is_some_and(|with| {
        let engine = with.engine_utilisation.unwrap_or(0.0);
        !study.server.bounded() && (with.host_utilisation - engine).abs() < 1e-9
    })
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

/// A load at which a sensible host works: this share of its saturation.
const USUAL: f64 = 0.7;

/// What the best placement saves at a usual load, and at the busiest that the host alone carries.
fn savings(study: &Study) -> Vec<String> {
    let carried: Vec<&Point> = study
        .points
        .iter()
        .filter(|point| point.without.is_some() && point.best.is_some())
        .collect();
    let usual = study.saturation_without * USUAL;
    let away = |point: &Point| (point.rate - usual).abs();
    let near = carried.iter().min_by(|a, b| away(a).total_cmp(&away(b)));
    let mut chosen: Vec<&Point> = near.into_iter().chain(carried.last()).copied().collect();
    chosen.dedup_by_key(|point| point.rate.to_bits());
    let saves = |point: &&Point| {
        point
            .best
            .as_ref()
            .is_some_and(|best| best.offloaded.contains(&true))
    };
    chosen
        .into_iter()
        .filter(saves)
        .filter_map(|point| saving(study, point))
        .collect()
}

fn saving(study: &Study, point: &Point) -> Option<String> {
    let (without, best) = (point.without.as_ref()?, &point.best.as_ref()?.prediction);
    let lost = if without.blocking > 0.0 || best.blocking > 0.0 {
        format!(
            ", and {:.2} % are turned away instead of {:.2} %",
            best.blocking * 100.0,
            without.blocking * 100.0
        )
    } else {
        String::new()
    };
    let cores = |used: f64, cores: usize| used * cores as f64;
    let system = &study.server.system;
    let before = cores(without.host_utilisation, system.host.cores);
    let host = cores(best.host_utilisation, system.host.cores);
    let engine = cores(best.engine_utilisation.unwrap_or(0.0), system.engine.cores);
    Some(format!(
        "At {:.0} requests a second the best placement keeps {host:.2} host cores busy instead of \
         {before:.2}, and {engine:.2} engine cores: {:.2} in all ({:+.0} %). A request takes {} \
         instead of {}{lost}.",
        point.rate,
        host + engine,
        ((host + engine) / before - 1.0) * 100.0,
        duration(best.delay),
        duration(without.delay),
    ))
}

fn overhead(study: &Study) -> Option<String> {
    let bounds = study.bounds?;
    let or_never = |bound: Option<f64>| {
        bound.map_or("never".into(), |bound| format!("below {}", duration(bound)))
    };
    let what = if study.server.split {
        "talking to the engine costs the host, a request"
    } else {
        "a request costs the host (its own work and talking to the engine)"
    };
    Some(format!(
        "Everything offloaded pays while {what}: for CPU below {}, for saturation {}, for delay at \
         {:.0} a second {}.",
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
    let input = match most.input {
        _ if study.server.split => most.input,
        "overhead" => "host's",
        other => other,
    };
    Some(format!(
        "The delay with engine hangs most on the {input} time: 1 % more of it makes {:.1} % more \
         delay at {:.0} a second. Measure that one well.",
        most.with_engine, study.at,
    ))
}

fn exactness(study: &Study) -> &'static str {
    if study.server.bounded() {
        return "Room is bounded: every delay is of the accepted requests, simulated (200,000 a \
                load), and the best placement is sought among all and nothing.";
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
