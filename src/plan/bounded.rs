//! Queues with bounded room: a chain of them has no formula, so every answer is simulated.

use super::input::Server;
use queueing::offload::placement::Placement;
use queueing::offload::predict::ClassPrediction;
use queueing::offload::{Class, Prediction, saturation};
use queueing::simulate::{Run, simulate};
use queueing::{Distribution, ModelError};

/// Requests that are simulated at each load.
const REQUESTS: u64 = 200_000;

/// What one system does at one load, observed. `Unstable` only where one of its stages has
/// unbounded room.
pub fn observe(server: &Server, classes: &[Class], engine: bool) -> Result<Prediction, ModelError> {
    let run = Run {
        requests: REQUESTS,
        engine,
        ..Run::default()
    };
    let seen = simulate(classes, &server.system, &run)?;
    let (saturation, bottleneck) = saturation(classes, &server.system, engine)?;
    let works = classes
        .iter()
        .map(|class| Work::of(class, engine, server.system.shared))
        .collect::<Result<Vec<_>, _>>()?;
    let total = |of: fn(&Work) -> f64| works.iter().map(of).sum::<f64>().max(f64::MIN_POSITIVE);
    let (host, helper) = (total(|work| work.host), total(|work| work.engine));
    let accepted = 1.0 - seen.blocking.mean;
    let shares = classes.iter().zip(&works).zip(&seen.classes);
    let classes: Vec<ClassPrediction> = shares
        .map(|((class, work), delay)| {
            let delay = delay.map_or(f64::NAN, |delay| delay.mean);
            let rate = class.arrival_rate;
            let service = if rate > 0.0 {
                (work.host + work.engine) / rate
            } else {
                0.0
            };
            ClassPrediction {
                name: class.name.clone(),
                offloaded: engine,
                host_utilisation: seen.host_utilisation * work.host / host,
                engine_utilisation: seen
                    .engine_utilisation
                    .map(|used| used * work.engine / helper),
                delay,
                // A full queue turns every class away alike.
                waiting: (rate * accepted * (delay - service)).max(0.0),
            }
        })
        .collect();
    let arrivals: f64 = works.iter().map(|work| work.rate).sum();
    Ok(Prediction {
        host_utilisation: seen.host_utilisation,
        engine_utilisation: seen.engine_utilisation,
        delay: seen.delay.mean,
        waiting: arrivals * accepted * seen.wait.mean,
        saturation,
        bottleneck,
        blocking: seen.blocking.mean,
        exact: false,
        classes,
    })
}

/// What a class asks of each stage, seconds a second.
struct Work {
    rate: f64,
    host: f64,
    engine: f64,
}

impl Work {
    fn of(class: &Class, engine: bool, shared: bool) -> Result<Work, ModelError> {
        let rate = class.arrival_rate;
        let sum = |a: &Distribution, b: &Distribution| -> Result<f64, ModelError> {
            Ok(rate * (a.moment(1)? + b.moment(1)?))
        };
        Ok(if engine {
            let host = sum(&class.application, &class.overhead)?;
            let helper = sum(&class.control, &class.engine)?;
            Work {
                rate,
                host: if shared { host + helper } else { host },
                engine: if shared { 0.0 } else { helper },
            }
        } else {
            Work {
                rate,
                host: sum(&class.application, &class.protocol)?,
                engine: 0.0,
            }
        })
    }
}

/// The better of both systems, all or nothing: the one that turns fewer requests away, and of
/// equals the faster one.
pub fn better(
    classes: usize,
    without: Option<&Prediction>,
    with: Option<&Prediction>,
) -> Option<Placement> {
    let candidates = [(false, without), (true, with)];
    let better = candidates
        .into_iter()
        .filter_map(|(engine, prediction)| Some((engine, prediction?)))
        .min_by(|(_, a), (_, b)| {
            // Differences of a thousandth are noise of the simulation.
            let lost = |prediction: &Prediction| (prediction.blocking * 1e3).round();
            lost(a)
                .total_cmp(&lost(b))
                .then(a.delay.total_cmp(&b.delay))
        });
    better.map(|(engine, prediction)| Placement {
        offloaded: vec![engine; classes],
        prediction: prediction.clone(),
    })
}
