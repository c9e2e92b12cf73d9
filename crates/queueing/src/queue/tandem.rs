//! Two stages in a row: a host and the engine behind it.
//!
//! After an exponential first stage the second sees a Poisson stream (Burke 1956), and its
//! Pollaczek–Khinchin formula is exact. After any other the stream between the stages is not
//! Poisson; the QNA approximation (Whitt 1983) corrects for its variability.

use super::{Steady, mg1::mg1};
use crate::error::{non_negative, positive, stable};
use crate::{ModelError, Moments};
use serde::Serialize;

/// How the second stage's arrivals are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// As a Poisson stream, as the source does. Exact only after an exponential first stage.
    Poisson,
    /// With the departure variability of QNA, c_d² = ρ²c_s² + (1−ρ²)c_a².
    Qna,
}

/// Two stages in a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tandem {
    /// The first stage: exact.
    pub first: Steady,
    /// The second stage.
    pub second: Steady,
    /// The time through both, seconds: the **sum** (the source takes the maximum, its 3.25).
    pub time: f64,
    /// Whether every figure is exact: the first stage's squared coefficient of variation is that
    /// of an exponential, given as such by the caller.
    pub exact: bool,
}

/// The squared coefficient of variation of the departures of a single server: QNA's
/// c_d² = ρ²c_s² + (1−ρ²)c_a² (Whitt 1983, equation 38).
pub fn departure_scv(utilisation: f64, service_scv: f64, arrival_scv: f64) -> f64 {
    let busy = utilisation * utilisation;
    busy * service_scv + (1.0 - busy) * arrival_scv
}

/// The wait of GI/G/1 from two moments: ρE\[S\](c_a² + c_s²)/(2(1−ρ)), the heavy-traffic form that
/// is Pollaczek–Khinchin for c_a² = 1.
///
/// **Approximation** unless the arrivals are Poisson.
///
/// # Errors
/// A rate, mean or variability outside its domain, or a load without a steady state.
pub fn gig1(arrival_rate: f64, arrival_scv: f64, service: &Moments) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    let arrival_scv = non_negative("squared coefficient of variation of arrivals", arrival_scv)?;
    let mean = positive("mean service time", service.possible()?.mean)?;
    let utilisation = stable("GI/G/1", arrival_rate, 1.0 / mean)?;
    let variability = (arrival_scv + service.scv()) / 2.0;
    let wait = utilisation * mean * variability / (1.0 - utilisation);
    Ok(Steady::new(arrival_rate, utilisation, wait, mean))
}

/// Two stages in a row, Poisson arrivals at the first, independent service times.
///
/// `first_is_exponential` says that the first stage's service is known to be exponential: then
/// Burke's theorem makes the second stage's arrivals Poisson and everything is exact.
///
/// # Errors
/// A rate or mean outside its domain, or a stage without a steady state.
pub fn tandem(
    arrival_rate: f64,
    first_service: &Moments,
    first_is_exponential: bool,
    second_service: &Moments,
    between: Between,
) -> Result<Tandem, ModelError> {
    let first = mg1(arrival_rate, first_service)?;
    let second = if first_is_exponential || between == Between::Poisson {
        mg1(arrival_rate, second_service)?
    } else {
        let scv = departure_scv(first.utilisation, first_service.scv(), 1.0);
        gig1(arrival_rate, scv, second_service)?
    };
    Ok(Tandem {
        first,
        second,
        time: first.time + second.time,
        exact: first_is_exponential,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn two_exponential_stages_are_a_jackson_network() {
        let service = Distribution::exponential(2.0).unwrap().moments().unwrap();
        let both = tandem(1.0, &service, true, &service, Between::Qna).unwrap();
        assert!((both.time - 2.0).abs() < 1e-12 && both.exact);
    }

    #[test]
    fn a_regular_first_stage_smooths_the_second() {
        let constant = Distribution::deterministic(0.8).unwrap().moments().unwrap();
        let qna = tandem(1.0, &constant, false, &constant, Between::Qna).unwrap();
        let poisson = tandem(1.0, &constant, false, &constant, Between::Poisson).unwrap();
        assert!(qna.second.wait < poisson.second.wait && !qna.exact);
    }
}
