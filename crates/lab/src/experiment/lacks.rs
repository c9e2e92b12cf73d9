//! What a model lacks, where it misses what was measured.

use super::fitted::{Beside, Curve, DELAY_WITHIN, Point, Stages, UTILISATION_WITHIN};

/// Of a curve, in sentences; nothing where it does not miss.
pub fn of(curve: &Curve) -> Vec<String> {
    let mut lacks = Vec::new();
    let missed = |point: &&Point| point.held && !point.holds();
    if curve.points.iter().filter(missed).count() == 0 {
        return lacks;
    }
    lacks.extend(costs(curve));
    if let Stages::Two(fit) = &curve.fit {
        let stages = [
            ("the server", fit.first.scv),
            ("the engine", fit.second.scv),
        ];
        for (stage, _) in stages.iter().filter(|(_, scv)| *scv == 0.0) {
            lacks.push(format!(
                "{}: what waits for {stage} waits no longer than if all services took the same time, the least that \
                 the model knows; it knows nothing of batches.",
                curve.name()
            ));
        }
    }
    for point in curve.points.iter().filter(missed) {
        match point.delay.error {
            None => lacks.push(format!(
                "{}: at {:.0} a second the model is saturated and the server was not.",
                curve.name(),
                point.rate
            )),
            Some((error, ..)) if !point.delay.holds(DELAY_WITHIN) => {
                let (direction, unknown) = if error > 0.0 {
                    ("less", "programs that are awake already, nor of batches")
                } else {
                    (
                        "more",
                        "other work on the core, nor of a client that is late",
                    )
                };
                let shares = curve.shares.as_ref().filter(|_| error <= 0.0);
                let shares = shares.map_or(String::new(), |who| {
                    format!(" Nor does it know of {who}, on the engine's core.")
                });
                lacks.push(format!(
                    "{}: at {:.0} a second requests took {:.0} % {direction} than the model says. It \
                     knows nothing of {unknown}.{shares}",
                    curve.name(),
                    point.rate,
                    (1.0 / (1.0 + error) - 1.0).abs() * 100.0,
                ));
            }
            Some(_) => {}
        }
    }
    lacks
}

/// What one more request costs, by the core, where that is not the same at every load. What the core does without any
/// is in no difference of two loads.
fn costs(curve: &Curve) -> Vec<String> {
    let ([first, second, ..], [.., last_but_one, last]) = (&curve.points[..], &curve.points[..])
    else {
        return Vec::new();
    };
    let one = |core: &str, share: fn(&Point) -> Option<&Beside>| {
        let cost = |less: &Point, more: &Point| {
            let [less_busy, more_busy] = [share(less)?, share(more)?].map(|it| it.measured.median);
            Some((more_busy - less_busy) / (more.rate - less.rate) * 1e6)
        };
        let (light, heavy) = cost(first, second).zip(cost(last_but_one, last))?;
        let changes = (heavy / light - 1.0).abs() > UTILISATION_WITHIN;
        if light <= 0.0 || !light.is_finite() || !heavy.is_finite() || !changes {
            return None;
        }
        Some(format!(
            "{}: one more request costs {light:.1} µs of {core} at the lightest loads and {heavy:.1} \
             µs at the busiest; the model has one cost at every load{}.",
            curve.name(),
            if heavy < light {
                " and knows neither batches nor the waking that they save"
            } else {
                " and knows nothing that gets dearer as it fills: caches, more connections at \
                 once"
            },
        ))
    };
    let server = match curve.is_of_two() {
        true => "the server's core",
        false => "the core",
    };
    let found = [
        one(server, |point| Some(&point.utilisation)),
        one("the engine", |point| point.engine.as_ref()),
    ];
    found.into_iter().flatten().collect()
}
