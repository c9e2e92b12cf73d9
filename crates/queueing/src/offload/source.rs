//! The source's own formulas (003, chapter 3), named as such, so that its figures can be redrawn
//! and compared with what is right ([`super::predict()`]).
//!
//! They differ from the right ones in two places: the host's stage is M/M/1 although Xa + Xo is
//! not exponential (its 3.14: up to 29 % too high a delay of that stage), and the delay of the
//! system is the **maximum** over the stages (its 3.25: 43–47 % too low where they are equal). One
//! class at a time, one core a stage, first come first served.

use super::{Class, ClassMoments};
use crate::ModelError;
use crate::error::{non_negative, positive, stable};
use serde::Serialize;

/// What the source's formulas give for one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SourcePrediction {
    /// U_noe of 3.1, the utilisation of the host without engine.
    pub utilisation_without: f64,
    /// T_noe of 3.10, its delay, seconds.
    pub delay_without: f64,
    /// U'_cpu of 3.12, the utilisation of the host with engine.
    pub host_utilisation: f64,
    /// U_oe of 3.13, the utilisation of the engine.
    pub engine_utilisation: f64,
    /// T_cpu of 3.14, seconds: M/M/1 for the host's stage.
    pub host_delay: f64,
    /// T_oe of 3.24, seconds: P–K for the engine's stage.
    pub engine_delay: f64,
    /// T of 3.25, seconds: the greater of the two.
    pub delay_with: f64,
    /// N_q of 3.32, the number waiting at the engine.
    pub waiting_at_engine: f64,
    /// N_oe of 3.33, the number at the engine.
    pub present_at_engine: f64,
}

/// 3.1 and 3.10: the host without an engine; these are right.
fn without(rate: f64, moments: &ClassMoments) -> Result<(f64, f64), ModelError> {
    let service = &moments.alone;
    let utilisation = stable("the host without engine", rate, 1.0 / service.mean)?;
    let wait = rate * service.second / (2.0 * (1.0 - utilisation));
    Ok((utilisation, wait + service.mean))
}

/// The source's prediction for one class at its arrival rate.
///
/// # Errors
/// An input outside its domain, a missing moment (a Pareto tail needs α > 2, which the source does
/// not check), or a stage that cannot carry the load.
pub fn predict(class: &Class) -> Result<SourcePrediction, ModelError> {
    let rate = non_negative("arrival rate", class.arrival_rate)?;
    let moments = class.moments()?;
    positive("mean of Xa + Xp", moments.alone.mean)?;
    let host_mean = positive("mean of Xa + Xo", moments.host.mean)?;
    let engine_mean = positive("mean of Xc + Xq", moments.engine.mean)?;
    let (utilisation_without, delay_without) = without(rate, &moments)?;
    let host_utilisation = stable("the host's stage", rate, 1.0 / host_mean)?;
    let engine_utilisation = stable("the engine's stage", rate, 1.0 / engine_mean)?;
    let host_delay = host_mean / (1.0 - host_utilisation);
    let engine_wait = rate * moments.engine.second / (2.0 * (1.0 - engine_utilisation));
    let engine_delay = engine_wait + engine_mean;
    Ok(SourcePrediction {
        utilisation_without,
        delay_without,
        host_utilisation,
        engine_utilisation,
        host_delay,
        engine_delay,
        delay_with: host_delay.max(engine_delay),
        waiting_at_engine: rate * engine_wait,
        present_at_engine: rate * engine_delay,
    })
}
