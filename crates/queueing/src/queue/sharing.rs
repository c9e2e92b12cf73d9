//! M/G/1 under processor sharing: a prefork or threaded server, whose requests share the core.
//! Kleinrock, *Queueing Systems* 2, 4.4.

use super::Steady;
use crate::ModelError;
use crate::error::{non_negative, positive, stable};

/// M/G/1-PS: T = E\[S\]/(1−ρ), whatever the distribution of the service time. Exact.
///
/// The "wait" is the time beyond the service time: nobody queues, everybody is slowed.
///
/// # Errors
/// A rate or mean outside its domain, or a load without a steady state.
pub fn mg1_ps(arrival_rate: f64, mean_service: f64) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    let mean_service = positive("mean service time", mean_service)?;
    let utilisation = stable("M/G/1-PS", arrival_rate, 1.0 / mean_service)?;
    let wait = mean_service * utilisation / (1.0 - utilisation);
    Ok(Steady::new(arrival_rate, utilisation, wait, mean_service))
}

/// The mean time in the system of a request that needs `service` seconds: service/(1−ρ). Every
/// request is slowed by the same factor, which is what makes the discipline fair.
///
/// # Errors
/// As [`mg1_ps`], and a `service` that is negative.
pub fn conditional_time(
    arrival_rate: f64,
    mean_service: f64,
    service: f64,
) -> Result<f64, ModelError> {
    let service = non_negative("service time", service)?;
    let steady = mg1_ps(arrival_rate, mean_service)?;
    Ok(service / (1.0 - steady.utilisation))
}
