//! Utilisation, delay and saturation, with and without an engine.

use super::{Class, ClassMoments, Discipline, Feeding, Stage, System, all_moments, one_each};
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
    /// The share of the requests that a full queue turns away: 0 with unbounded room.
    pub blocking: f64,
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
    /// Whether the engine does its protocol processing.
    pub offloaded: bool,
    /// The share of the host's cores that it uses.
    pub host_utilisation: f64,
    /// The share of the engine's cores that it uses; `None` without an engine.
    pub engine_utilisation: Option<f64>,
    /// The mean time of its requests in the system, seconds.
    pub delay: f64,
    /// The mean number of its requests that wait, at all stages together.
    pub waiting: f64,
}

/// The stage that saturates first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// The host's cores.
    Host,
    /// The engine's cores.
    Engine,
    /// Both, at the same load.
    Both,
}

/// Loads that differ by less, as a share of them, differ by rounding.
const SAME: f64 = 1e-9;

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

/// What a request needs of the host: everything, or the application and the overhead.
fn first(class: &ClassMoments, offloaded: bool) -> Moments {
    if offloaded { class.host } else { class.alone }
}

/// What a request needs of the engine; nothing, if it is not offloaded.
fn second(class: &ClassMoments, offloaded: bool) -> Moments {
    if offloaded {
        class.engine
    } else {
        Moments::ZERO
    }
}

/// The mixture of one stage's service times over all classes, and the rate of all.
fn mixed(
    classes: &[ClassMoments],
    offloaded: &[bool],
    stage: fn(&ClassMoments, bool) -> Moments,
) -> Result<(f64, Moments), ModelError> {
    let parts: Vec<(f64, Moments)> = classes
        .iter()
        .zip(offloaded)
        .map(|(class, offloaded)| (class.arrival_rate, stage(class, *offloaded)))
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
    saturation_of(
        &all_moments(classes, system)?,
        system,
        &vec![engine; classes.len()],
    )
}

/// The same where each class is offloaded or not.
///
/// # Errors
/// As [`saturation`]; `offloaded` does not have one entry a class.
pub fn saturation_placed(
    classes: &[Class],
    system: &System,
    offloaded: &[bool],
) -> Result<(f64, Bottleneck), ModelError> {
    one_each(classes, offloaded)?;
    saturation_of(&all_moments(classes, system)?, system, offloaded)
}

fn saturation_of(
    classes: &[ClassMoments],
    system: &System,
    offloaded: &[bool],
) -> Result<(f64, Bottleneck), ModelError> {
    system.host.check()?;
    system.engine.check()?;
    let limit = |stage: &Stage, mean: f64| {
        if mean == 0.0 {
            f64::INFINITY
        } else {
            stage.cores as f64 / mean
        }
    };
    let host = limit(&system.host, mixed(classes, offloaded, first)?.1.mean);
    let helper = limit(&system.engine, mixed(classes, offloaded, second)?.1.mean);
    let finite = helper.is_finite() && host.is_finite();
    if finite && (helper - host).abs() <= SAME * host {
        Ok((host, Bottleneck::Both))
    } else if helper < host {
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
    predict_placed(classes, system, &vec![engine; classes.len()])
}

/// The same where each class is offloaded or not: `offloaded` has one entry a class. What stays
/// on the host shares its cores with the overhead of what does not.
///
/// # Errors
/// As [`predict`]; `offloaded` does not have one entry a class.
pub fn predict_placed(
    classes: &[Class],
    system: &System,
    offloaded: &[bool],
) -> Result<Prediction, ModelError> {
    one_each(classes, offloaded)?;
    let moments = all_moments(classes, system)?;
    let engine = offloaded.contains(&true);
    if system.host.room.is_some() || (engine && system.engine.room.is_some()) {
        return Err(ModelError::Undetermined {
            what: "the delay with bounded room",
            why: "chains of bounded stages have no closed form; simulate the system instead",
        });
    }
    let (saturation, bottleneck) = saturation_of(&moments, system, offloaded)?;
    let (rate, host_service) = mixed(&moments, offloaded, first)?;
    // A mixture of exponentials is one only if they are all the same.
    let same = first(&moments[0], offloaded[0]).mean;
    let exponential = moments.iter().zip(offloaded).all(|(class, offloaded)| {
        let known = if *offloaded {
            class.host_exponential
        } else {
            class.alone_exponential
        };
        known && first(class, *offloaded).mean == same
    });
    let host = solve(rate, 1.0, &host_service, exponential, &system.host)?;
    let helper = if engine {
        Some(solve_engine(&moments, system, offloaded, &host)?)
    } else {
        None
    };
    let class = |(named, (class, offloaded)): (&Class, (&ClassMoments, &bool))| {
        let (here, there) = (
            first(class, *offloaded).mean,
            second(class, *offloaded).mean,
        );
        let helper_time = match &helper {
            Some(helper) if *offloaded => helper.time(there),
            _ => 0.0,
        };
        let delay = host.time(here) + helper_time;
        ClassPrediction {
            name: named.name.clone(),
            offloaded: *offloaded,
            waiting: class.arrival_rate * (delay - here - there),
            host_utilisation: class.arrival_rate * here / system.host.cores as f64,
            engine_utilisation: helper
                .as_ref()
                .map(|_| class.arrival_rate * there / system.engine.cores as f64),
            delay,
        }
    };
    let pairs = classes.iter().zip(moments.iter().zip(offloaded));
    let predicted: Vec<ClassPrediction> = pairs.map(class).collect();
    let shares = || moments.iter().map(|class| class.arrival_rate / rate);
    let delay = shares()
        .zip(&predicted)
        .map(|(share, class)| share * class.delay)
        .sum::<f64>();
    let (_, helper_service) = mixed(&moments, offloaded, second)?;
    Ok(Prediction {
        host_utilisation: host.utilisation,
        engine_utilisation: helper.as_ref().map(|helper| helper.utilisation),
        delay,
        waiting: rate * (delay - host_service.mean - helper_service.mean),
        saturation,
        bottleneck,
        blocking: 0.0,
        exact: host.exact && helper.is_none_or(|helper| helper.exact),
        classes: predicted,
    })
}

/// The engine's stage: what the host lets go of the offloaded classes arrives there.
fn solve_engine(
    classes: &[ClassMoments],
    system: &System,
    offloaded: &[bool],
    host: &Solved,
) -> Result<Solved, ModelError> {
    let theirs: Vec<ClassMoments> = classes
        .iter()
        .zip(offloaded)
        .filter_map(|(class, offloaded)| offloaded.then_some(*class))
        .collect();
    let (rate, service) = mixed(&theirs, &vec![true; theirs.len()], second)?;
    let all: f64 = classes.iter().map(|class| class.arrival_rate).sum();
    // A random part of a stream, and again one part a queue of the engine's:
    // c² becomes 1 + p(c² − 1) (Whitt 1983, equation 36). Poisson stays Poisson.
    let queues = match system.engine.feeding {
        Feeding::Separate => system.engine.cores as f64,
        Feeding::Pooled => 1.0,
    };
    let between = 1.0 + (host.departures - 1.0) * (rate / all) / queues;
    solve(rate, between, &service, false, &system.engine)
}
