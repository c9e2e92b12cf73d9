//! Up to which overhead Xo offloading pays. Three questions, three different answers.
//!
//! The source says that the engine "degrades" the system when E\[Xo\] > E\[Xp\]. That is the answer
//! to the first question only.
//!
//! | question | offloading pays while |
//! | --- | --- |
//! | CPU of the host | E\[Xo\] < E\[Xp\] |
//! | saturation | E\[Xo\] < E\[Xp\], **and** the engine itself carries more than the host did |
//! | delay | both waits and both services together stay below the host's alone: found by bisection |

use super::predict::{predict, saturation};
use super::{Class, System};
use crate::{Distribution, ModelError};
use serde::Serialize;

/// The largest mean overhead E\[Xo\] of a request, seconds, for which offloading pays; `None` where
/// it never does, however small the overhead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverheadBounds {
    /// For less CPU use on the host: the mean of Xp, over all requests.
    pub cpu: f64,
    /// For a higher saturation point. Above it the host or the engine saturates earlier than the
    /// host alone did.
    pub saturation: Option<f64>,
    /// For less delay at the given load. Beyond the CPU bound where a fast engine makes up for a
    /// busier host.
    pub delay: Option<f64>,
}

/// Relative width at which the bisection for the delay stops.
const PRECISION: f64 = 1e-10;

/// The bounds at the classes' arrival rates. The overhead of every class is scaled alike, its
/// distribution keeping its shape; classes whose overhead is zero stay at zero.
///
/// # Errors
/// As [`predict`] without an engine: the comparison needs a host that works alone.
pub fn overhead_bounds(classes: &[Class], system: &System) -> Result<OverheadBounds, ModelError> {
    let alone = predict(classes, system, false)?;
    let rate: f64 = classes.iter().map(|class| class.arrival_rate).sum();
    let mean = |of: fn(&Class) -> &Distribution| -> Result<f64, ModelError> {
        let mut sum = 0.0;
        for class in classes {
            sum += class.arrival_rate / rate * of(class).moment(1)?;
        }
        Ok(sum)
    };
    let protocol = mean(|class| &class.protocol)?;
    let overhead = mean(|class| &class.overhead)?;
    let (engine_limit, _) = saturation(&free_of_overhead(classes)?, system, true)?;
    Ok(OverheadBounds {
        cpu: protocol,
        saturation: (engine_limit > alone.saturation).then_some(protocol),
        delay: delay_bound(classes, system, alone.delay, overhead, protocol)?,
    })
}

/// The same classes with an overhead that costs nothing.
fn free_of_overhead(classes: &[Class]) -> Result<Vec<Class>, ModelError> {
    let nothing = Distribution::deterministic(0.0)?;
    Ok(classes
        .iter()
        .map(|class| Class {
            overhead: nothing.clone(),
            ..class.clone()
        })
        .collect())
}

/// The same classes with every overhead `factor` times as long; exponential with mean `protocol` ×
/// `factor` where no overhead was given at all.
fn with_overhead(
    classes: &[Class],
    factor: f64,
    given: bool,
    protocol: f64,
) -> Result<Vec<Class>, ModelError> {
    classes
        .iter()
        .map(|class| {
            let overhead = if given {
                class.overhead.clone().scaled(factor)?
            } else {
                Distribution::exponential(1.0 / (factor * protocol))?
            };
            Ok(Class {
                overhead,
                ..class.clone()
            })
        })
        .collect()
}

/// Bisects for the overhead at which both delays are equal. The delay with engine grows with the
/// overhead, so there is one crossing at most.
fn delay_bound(
    classes: &[Class],
    system: &System,
    alone: f64,
    overhead: f64,
    protocol: f64,
) -> Result<Option<f64>, ModelError> {
    let given = overhead > 0.0;
    let unit = if given { overhead } else { protocol };
    let pays = |factor: f64| -> Result<bool, ModelError> {
        let trial = with_overhead(classes, factor, given, protocol)?;
        match predict(&trial, system, true) {
            Ok(prediction) => Ok(prediction.delay < alone),
            Err(ModelError::Unstable { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    };
    match predict(&free_of_overhead(classes)?, system, true) {
        Ok(prediction) if prediction.delay < alone => {}
        Ok(_) | Err(ModelError::Unstable { .. }) => return Ok(None),
        Err(error) => return Err(error),
    }
    // The delay with engine is at least the overhead itself, so this is an upper bound.
    let (mut low, mut high) = (0.0, alone / unit);
    while high - low > PRECISION * high {
        let middle = f64::midpoint(low, high);
        if middle == 0.0 {
            break;
        }
        if pays(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low * unit))
}
