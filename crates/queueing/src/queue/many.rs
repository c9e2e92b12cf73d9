//! Several servers: one pooled queue, or one queue each.
//!
//! Receive-side scaling hashes flows to cores, so a server with it is k *separate* queues; a
//! threaded server with one accept queue is a *pooled* one. At the same load the first waits far
//! longer.

use super::{Steady, mg1::mg1};
use crate::error::{at_least_one, non_negative, positive, stable};
use crate::{ModelError, Moments};

/// The probability that an arrival has to wait in M/M/k (Erlang C), from the offered load in
/// Erlangs. Computed through Erlang B's recursion, which neither overflows nor cancels.
///
/// # Errors
/// No server, a load outside its domain or not below the number of servers.
pub fn erlang_c(servers: usize, load: f64) -> Result<f64, ModelError> {
    at_least_one("number of servers", servers)?;
    let load = non_negative("offered load", load)?;
    let count = servers as f64;
    let utilisation = stable("M/M/k", load, count)?;
    let mut blocking = 1.0;
    for n in 1..=servers {
        blocking = load * blocking / (n as f64 + load * blocking);
    }
    Ok(blocking / (1.0 - utilisation * (1.0 - blocking)))
}

/// M/M/k: `servers` exponential servers of `service_rate` each behind one queue. Exact.
///
/// # Errors
/// A rate outside its domain, no server, or a load without a steady state.
pub fn mmk(arrival_rate: f64, service_rate: f64, servers: usize) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    let service_rate = positive("service rate", service_rate)?;
    at_least_one("number of servers", servers)?;
    let capacity = servers as f64 * service_rate;
    let utilisation = stable("M/M/k", arrival_rate, capacity)?;
    let wait = erlang_c(servers, arrival_rate / service_rate)? / (capacity - arrival_rate);
    Ok(Steady::new(
        arrival_rate,
        utilisation,
        wait,
        1.0 / service_rate,
    ))
}

/// M/G/k by Lee and Longton (1959), the case c_a² = 1 of Allen and Cunneen: the wait of M/M/k times
/// (1 + c_s²)/2.
///
/// **Approximation.** Exact for k = 1 and for exponential service. Beside simulations with 2 to 16
/// servers at utilisations of 0.5 to 0.9, the *time* is within 1 % for c_s² ≤ 1 and within 6 % for
/// c_s² up to 5 (lognormal, mixtures of exponentials). The *wait* alone is up to a third too short
/// for constant and up to two thirds too long for variable service where it is small anyway: half
/// loaded, many servers. For a heavy tail (a bounded Pareto of c_s² 65) the time came out twice as
/// long as simulated, the wait many times: two moments do not determine it; simulate instead.
///
/// # Errors
/// As [`mmk`].
pub fn mgk(arrival_rate: f64, service: &Moments, servers: usize) -> Result<Steady, ModelError> {
    let mean = positive("mean service time", service.possible()?.mean)?;
    let exponential = mmk(arrival_rate, 1.0 / mean, servers)?;
    let wait = exponential.wait * (1.0 + service.scv()) / 2.0;
    Ok(Steady::new(
        arrival_rate,
        exponential.utilisation,
        wait,
        mean,
    ))
}

/// k × M/G/1: arrivals split at random over `servers` queues of their own, as receive-side scaling
/// does with many flows. Exact for a random split; the numbers present are of all queues together.
///
/// # Errors
/// A rate or mean outside its domain, no server, or a load without a steady state.
pub fn k_mg1(arrival_rate: f64, service: &Moments, servers: usize) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    at_least_one("number of servers", servers)?;
    let one = mg1(arrival_rate / servers as f64, service)?;
    Ok(Steady::new(
        arrival_rate,
        one.utilisation,
        one.wait,
        service.mean,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::mm1::mm1;

    #[test]
    fn one_server_is_mm1() {
        let one = mmk(0.7, 1.0, 1).unwrap();
        assert!((one.wait - mm1(0.7, 1.0).unwrap().wait).abs() < 1e-13);
    }

    #[test]
    fn two_servers_have_their_closed_form() {
        // M/M/2: W = ρ²/(μ(1−ρ²)).
        let rho: f64 = 0.8;
        let steady = mmk(2.0 * rho, 1.0, 2).unwrap();
        assert!((steady.wait - rho * rho / (1.0 - rho * rho)).abs() < 1e-13);
    }

    #[test]
    fn a_pooled_queue_waits_less_than_separate_ones() {
        let service = Moments::from_mean_and_scv(1.0, 1.0).unwrap();
        let pooled = mgk(3.2, &service, 4).unwrap();
        let separate = k_mg1(3.2, &service, 4).unwrap();
        assert!((pooled.utilisation - separate.utilisation).abs() < 1e-13);
        assert!(pooled.wait * 2.0 < separate.wait);
    }

    #[test]
    fn many_servers_do_not_overflow() {
        let steady = mmk(9_900.0, 1.0, 10_000).unwrap();
        assert!(steady.wait.is_finite() && steady.wait > 0.0);
    }
}
