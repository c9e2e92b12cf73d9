//! Utilisation, delay and saturation, with and without an engine.

use super::{Class, ClassMoments, Discipline, Feeding, Stage, System, all_moments};
use crate::queue::many::{k_mg1, mgk};
use crate::queue::tandem::{departure_scv, gig1};
use crate::{ModelError, Moments};
use serde::Serialize;

/// What one system does at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The share of the host's cores that is busy, 0 to 1.
    pub host_utilisation: f64,
    /// The share of the engine's cores that is busy; `None` without an engine.
    pub engine_utilisation: Option<f64>,
    /// The mean time of a request in the system, over all classes, seconds.
    pub delay: f64,
    /// The mean number of requests that wait, at all stages together.
    pub waiting: f64,
    /// The total arrival rate at which the first stage saturates, a second, the mix of classes
    /// being kept.
    pub saturation: f64,
    /// Which stage that is.
    pub bottleneck: Bottleneck,
    /// Whether the delay is exact under the model's assumptions or rests on an approximation.
    pub exact: bool,
    /// Each class, in the order given.
    pub classes: Vec<ClassPrediction>,
}

/// What one class sees.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassPrediction {
    /// Its name.
    pub name: String,
    /// The share of the host's cores that it uses.
    pub host_utilisation: f64,
    /// The share of the engine's cores that it uses; `None` without an engine.
    pub engine_utilisation: Option<f64>,
    /// The mean time of its requests in the system, seconds.
    pub delay: f64,
}

/// The stage that saturates first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// The host's cores.
    Host,
    /// The engine's cores.
    Engine,
}

/// One stage solved: its utilisation, wait, and the slowing of the work itself under sharing.
struct Solved {
    utilisation: f64,
    /// Wait before service (first come first served), seconds.
    wait: f64,
    /// The factor by which service is slowed: 1 unless the processor is shared.
    slowdown: f64,
    /// The squared coefficient of variation of what leaves, a queue.
    departures: f64,
    exact: bool,
}

impl Solved {
    fn time(&self, service: f64) -> f64 {
        self.wait + self.slowdown * service
    }
}

/// Solves one stage with unbounded room. `arrival_scv` is exactly 1 for a Poisson stream;
/// `exponential` says that the service is known to be exponential, which two moments cannot say.
fn solve(
    rate: f64,
    arrival_scv: f64,
    service: &Moments,
    exponential: bool,
    stage: &Stage,
) -> Result<Solved, ModelError> {
    if service.mean == 0.0 {
        return Ok(Solved {
            utilisation: 0.0,
            wait: 0.0,
            slowdown: 1.0,
            departures: arrival_scv,
            exact: true,
        });
    }
    let poisson = arrival_scv == 1.0;
    let one_queue = stage.cores == 1 || stage.feeding == Feeding::Separate;
    let share = rate / stage.cores as f64;
    match stage.discipline {
        Discipline::ProcessorSharing => {
            let one = crate::queue::sharing::mg1_ps(share, service.mean)?;
            Ok(Solved {
                utilisation: one.utilisation,
                wait: 0.0,
                slowdown: 1.0 / (1.0 - one.utilisation),
                // M/G/1-PS is quasi-reversible: it lets a Poisson stream out again.
                departures: arrival_scv,
                exact: poisson && one_queue,
            })
        }
        Discipline::Fcfs => {
            let (steady, exact) = if !one_queue {
                let scaled = mgk(rate, service, stage.cores)?;
                (scaled, poisson && exponential)
            } else if poisson {
                (k_mg1(rate, service, stage.cores)?, true)
            } else {
                (gig1(share, arrival_scv, service)?, false)
            };
            Ok(Solved {
                utilisation: steady.utilisation,
                wait: steady.wait,
                slowdown: 1.0,
                // Burke: a Poisson stream through exponential servers leaves as a Poisson stream.
                departures: if poisson && exponential {
                    1.0
                } else {
                    departure_scv(steady.utilisation, service.scv(), arrival_scv)
                },
                exact,
            })
        }
    }
}

/// The mixture of one stage's service times over all classes.
fn mixed(
    classes: &[ClassMoments],
    stage: impl Fn(&ClassMoments) -> Moments,
) -> Result<(f64, Moments), ModelError> {
    let parts: Vec<(f64, Moments)> = classes
        .iter()
        .map(|class| (class.arrival_rate, stage(class)))
        .collect();
    let rate = parts.iter().map(|(rate, _)| rate).sum();
    Ok((rate, Moments::mixture(&parts)?))
}

/// The greatest total arrival rate that each stage can carry, the mix of classes being kept:
/// without engine cores/(E\[Xa\]+E\[Xp\]), with it the lesser of both stages.
///
/// # Errors
/// No class, or an input outside its domain.
pub fn saturation(
    classes: &[Class],
    system: &System,
    engine: bool,
) -> Result<(f64, Bottleneck), ModelError> {
    saturation_of(&all_moments(classes)?, system, engine)
}

pub(super) fn saturation_of(
    classes: &[ClassMoments],
    system: &System,
    engine: bool,
) -> Result<(f64, Bottleneck), ModelError> {
    let limit = |stage: &Stage, mean: f64| {
        if mean == 0.0 {
            f64::INFINITY
        } else {
            stage.cores as f64 / mean
        }
    };
    if !engine {
        let (_, alone) = mixed(classes, |class| class.alone)?;
        return Ok((limit(&system.host, alone.mean), Bottleneck::Host));
    }
    let host = limit(&system.host, mixed(classes, |class| class.host)?.1.mean);
    let helper = limit(&system.engine, mixed(classes, |class| class.engine)?.1.mean);
    if helper < host {
        Ok((helper, Bottleneck::Engine))
    } else {
        Ok((host, Bottleneck::Host))
    }
}

/// Utilisation, delay and saturation of the system, with or without its engine.
///
/// Without an engine and first come first served this is Pollaczek–Khinchin (003, 3.1–3.10). With
/// it, the host is P–K with E\[S₁²\] of the *sum* Xa + Xo (the source takes M/M/1, its 3.14), the
/// delay is the **sum** over both stages (the source takes the greater, its 3.25), and the stream
/// between the stages is corrected by QNA unless it is exactly Poisson.
///
/// # Errors
/// No class, an input outside its domain, a second moment that does not exist, a load that a stage
/// cannot carry, or a stage with bounded room (see [`crate::queue::mg1k`]; chains of bounded
/// stages have no closed form: simulate).
pub fn predict(classes: &[Class], system: &System, engine: bool) -> Result<Prediction, ModelError> {
    let moments = all_moments(classes)?;
    let (total_saturation, bottleneck) = saturation_of(&moments, system, engine)?;
    if system.host.room.is_some() || (engine && system.engine.room.is_some()) {
        return Err(ModelError::Undetermined {
            what: "the delay with bounded room",
            why: "chains of bounded stages have no closed form; simulate the system instead",
        });
    }
    let mut prediction = if engine {
        with_engine(&moments, system)?
    } else {
        without_engine(&moments, system)?
    };
    prediction.saturation = total_saturation;
    prediction.bottleneck = bottleneck;
    for (named, class) in prediction.classes.iter_mut().zip(classes) {
        named.name.clone_from(&class.name);
    }
    Ok(prediction)
}

fn without_engine(classes: &[ClassMoments], system: &System) -> Result<Prediction, ModelError> {
    let (rate, service) = mixed(classes, |class| class.alone)?;
    let host = solve(rate, 1.0, &service, false, &system.host)?;
    let cores = system.host.cores as f64;
    let own = |class: &ClassMoments| ClassPrediction {
        name: String::new(),
        host_utilisation: class.arrival_rate * class.alone.mean / cores,
        engine_utilisation: None,
        delay: host.time(class.alone.mean),
    };
    let delay = host.time(service.mean);
    Ok(Prediction {
        host_utilisation: host.utilisation,
        engine_utilisation: None,
        delay,
        waiting: rate * (delay - service.mean),
        saturation: 0.0,
        bottleneck: Bottleneck::Host,
        exact: host.exact,
        classes: classes.iter().map(own).collect(),
    })
}

fn with_engine(classes: &[ClassMoments], system: &System) -> Result<Prediction, ModelError> {
    let (rate, first) = mixed(classes, |class| class.host)?;
    let (_, second) = mixed(classes, |class| class.engine)?;
    let exponential = classes
        .iter()
        .all(|class| class.host_exponential && class.host.mean == classes[0].host.mean);
    let host = solve(rate, 1.0, &first, exponential, &system.host)?;
    let between = if system.engine.cores == 1 || system.engine.feeding == Feeding::Pooled {
        host.departures
    } else {
        // A random split over k queues: (c² − 1)/k + 1 (Whitt 1983, equation 36).
        1.0 + (host.departures - 1.0) / system.engine.cores as f64
    };
    let engine = solve(rate, between, &second, false, &system.engine)?;
    let own = |class: &ClassMoments| ClassPrediction {
        name: String::new(),
        host_utilisation: class.arrival_rate * class.host.mean / system.host.cores as f64,
        engine_utilisation: Some(
            class.arrival_rate * class.engine.mean / system.engine.cores as f64,
        ),
        delay: host.time(class.host.mean) + engine.time(class.engine.mean),
    };
    let delay = host.time(first.mean) + engine.time(second.mean);
    Ok(Prediction {
        host_utilisation: host.utilisation,
        engine_utilisation: Some(engine.utilisation),
        delay,
        waiting: rate * (delay - first.mean - second.mean),
        saturation: 0.0,
        bottleneck: Bottleneck::Host,
        exact: host.exact && engine.exact,
        classes: classes.iter().map(own).collect(),
    })
}
