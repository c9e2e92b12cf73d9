//! The answers in words, before any table.

use super::headline::headline;
use super::ranges::Ranges;
use super::study::{Point, Study};
use super::uncertain::Open;
use super::written::duration;
use queueing::offload::predict::Bottleneck;
use std::fmt::Write;

/// What to do, and why; `open` is what intervals of the inputs leave open.
pub fn words(study: &Study, open: Option<&Open>) -> String {
    let mut text = String::new();
    let doubt = match open {
        Some(open) if open.is_open => " But the measurements leave that open: see below.",
        _ => "",
    };
    let _ = writeln!(text, "{}{doubt}", headline(study));
    let _ = writeln!(text, "{}", saturations(study));
    for line in classes(study) {
        let _ = writeln!(text, "{line}");
    }
    for line in savings(study) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(open) = open {
        text += &open.words(study.usual);
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

fn saturations(study: &Study) -> String {
    let (with, stage) = study.saturation_with;
    let stage = match stage {
        Bottleneck::Both => "host and engine saturate together",
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

fn classes(study: &Study) -> Vec<String> {
    if study.server.classes.len() == 1 {
        return Vec::new();
    }
    let line = |(index, class): (usize, &queueing::offload::Class)| {
        let when = match Ranges::of(study, |offloaded| offloaded[index]) {
            Ranges::Never => "not offloaded at any load".into(),
            ranges => format!("offload {}", ranges.words()),
        };
        format!("  {:<12} {when}", class.name)
    };
    study.server.classes.iter().enumerate().map(line).collect()
}

/// What the best placement saves at a usual load, and at the busiest that the host alone carries.
fn savings(study: &Study) -> Vec<String> {
    let carried: Vec<&Point> = study
        .points
        .iter()
        .filter(|point| point.without.is_some() && point.best.is_some())
        .collect();
    let usual = study.saturation_without * super::study::USUAL;
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
        most.with_engine, study.usual,
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
    if study.server.system.shared {
        return "The engine shares the host's cores: all work of a request is taken for one \
                service.";
    }
    if predictions.flatten().all(|prediction| prediction.exact) {
        "Delays are exact for these inputs."
    } else {
        "Delays with engine are approximations (QNA); --simulate checks them."
    }
}
