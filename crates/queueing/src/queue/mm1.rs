//! M/M/1 and M/M/1/K: exponential service. Kleinrock, *Queueing Systems* 1, 3.2 and 3.6.

use super::Steady;
use crate::ModelError;
use crate::error::{at_least_one, non_negative, positive, stable};

/// M/M/1: service exponential with `service_rate` a second. Exact.
///
/// # Errors
/// A rate outside its domain, or a load without a steady state.
pub fn mm1(arrival_rate: f64, service_rate: f64) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    let service_rate = positive("service rate", service_rate)?;
    let utilisation = stable("M/M/1", arrival_rate, service_rate)?;
    let service = 1.0 / service_rate;
    let wait = utilisation * service / (1.0 - utilisation);
    Ok(Steady::new(arrival_rate, utilisation, wait, service))
}

/// A queue with room for a bounded number, and what is turned away.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Bounded {
    /// What the accepted requests see. The utilisation is that of the server, below 1 at any load.
    pub steady: Steady,
    /// The probability that an arrival finds the room full and is lost.
    pub blocking: f64,
}

/// M/M/1/K: room for `room` requests, the one in service included. Exact, at any load.
///
/// # Errors
/// A rate outside its domain, or no room at all.
pub fn mm1k(arrival_rate: f64, service_rate: f64, room: usize) -> Result<Bounded, ModelError> {
    let arrival_rate = positive("arrival rate", arrival_rate)?;
    let service_rate = positive("service rate", service_rate)?;
    at_least_one("room", room)?;
    let load = arrival_rate / service_rate;
    // Probabilities relative to the largest one, so that no power overflows at any load.
    let base = if load <= 1.0 { load } else { 1.0 / load };
    let mut weights: Vec<f64> = Vec::with_capacity(room + 1);
    let mut weight = 1.0;
    for _ in 0..=room {
        weights.push(weight);
        weight *= base;
    }
    if load > 1.0 {
        weights.reverse();
    }
    let total: f64 = weights.iter().sum();
    let present = weights
        .iter()
        .enumerate()
        .map(|(n, weight)| n as f64 * weight)
        .sum::<f64>()
        / total;
    let blocking = weights[room] / total;
    let utilisation = 1.0 - weights[0] / total;
    let accepted = arrival_rate * (1.0 - blocking);
    let time = present / accepted;
    let service = 1.0 / service_rate;
    Ok(Bounded {
        steady: Steady::new(accepted, utilisation, time - service, service),
        blocking,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_half_load_a_request_takes_twice_its_service() {
        let steady = mm1(5.0, 10.0).unwrap();
        assert!((steady.time - 0.2).abs() < 1e-15);
        assert!((steady.present - 1.0).abs() < 1e-15);
    }

    #[test]
    fn an_overloaded_queue_is_refused_with_the_load_it_could_carry() {
        let error = mm1(12.0, 10.0).unwrap_err().to_string();
        assert!(
            error.contains("1.2000") && error.contains("below 10 a second"),
            "{error}"
        );
    }

    #[test]
    fn a_room_of_one_is_erlangs_loss_formula() {
        let bounded = mm1k(3.0, 2.0, 1).unwrap();
        assert!((bounded.blocking - 1.5 / 2.5).abs() < 1e-15);
        assert!(bounded.steady.wait.abs() < 1e-15);
    }

    #[test]
    fn a_large_room_is_no_bound_and_a_heavy_load_does_not_overflow() {
        let bounded = mm1k(5.0, 10.0, 500).unwrap();
        assert!((bounded.steady.time - 0.2).abs() < 1e-12);
        let flooded = mm1k(1e6, 10.0, 1000).unwrap();
        assert!((flooded.blocking - (1.0 - 1e-5)).abs() < 1e-12);
        assert!((flooded.steady.utilisation - 1.0).abs() < 1e-12);
    }
}
