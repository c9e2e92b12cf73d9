//! M/G/1/K: a server with room for a bounded number of requests, by the embedded Markov chain.
//!
//! The number left behind by a departure is a Markov chain whose steps are the numbers of arrivals
//! during one service. With π₀ the probability that a departure leaves the system empty, the
//! blocking probability is 1 − 1/(π₀ + ρ) (Takagi, *Queueing Analysis* 2, 5.1).

use super::Steady;
use super::mm1::Bounded;
use crate::error::{at_least_one, positive};
use crate::{Distribution, ModelError};

/// M/G/1/K with room for `room` requests, the one in service included, at any load.
///
/// Exact up to the numerical integration of the arrivals during a service (relative error below
/// 10⁻⁹ for the distributions of this crate). The wait is that of the accepted requests.
///
/// # Errors
/// A rate outside its domain, no room, or a service time without a mean.
pub fn mg1k(arrival_rate: f64, service: &Distribution, room: usize) -> Result<Bounded, ModelError> {
    let arrival_rate = positive("arrival rate", arrival_rate)?;
    at_least_one("room", room)?;
    let mean = positive("mean service time", service.moment(1)?)?;
    let load = arrival_rate * mean;
    let mut step = vec![0.0; room];
    service.arrivals(arrival_rate, &mut step);
    let left_behind = left_behind(&step, room);
    // Rounding alone can take what is nearly nothing below zero.
    let blocking = (1.0 - 1.0 / (left_behind[0] + load)).max(0.0);
    let accepted = arrival_rate * (1.0 - blocking);
    // Departures see what an arrival that is let in sees; the time average adds the full state.
    let mut present = room as f64 * blocking;
    for (n, probability) in left_behind.iter().enumerate() {
        present += n as f64 * probability * (1.0 - blocking);
    }
    let time = present / accepted;
    Ok(Bounded {
        steady: Steady::new(accepted, accepted * mean, (time - mean).max(0.0), mean),
        blocking,
    })
}

/// The distribution of the number left behind by a departure, 0 to `room` − 1.
///
/// Solved from level to level: a departure from above n needs n + 1 first, and the chain goes down
/// by one at most, so each probability follows from those below it. Only the ratios of positive
/// numbers are used where the textbook's recursion subtracts (Grassmann, Taksar and Heyman), so it
/// stays accurate for any room and load.
fn left_behind(step: &[f64], room: usize) -> Vec<f64> {
    // tail[n]: P(more than n arrivals during one service), from the complement.
    let mut tail = Vec::with_capacity(room);
    let mut left = 1.0;
    for probability in step {
        left = (left - probability).max(0.0);
        tail.push(left);
    }
    let mut weights = vec![0.0; room];
    weights[0] = 1.0;
    // Cut between {0..n} and {n+1..}: what crosses upwards equals what comes down, and down goes
    // only n+1 → n, with no arrival at all during the service.
    for n in 0..room.saturating_sub(1) {
        let mut up = weights[0] * tail[n];
        for (m, weight) in weights.iter().enumerate().take(n + 1).skip(1) {
            up += weight * tail[n + 1 - m];
        }
        weights[n + 1] = up / step[0];
        if weights[n + 1] > 1e200 {
            for weight in &mut weights[..=n + 1] {
                *weight *= 1e-200;
            }
        }
    }
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::mg1::mg1;
    use crate::queue::mm1::mm1k;

    #[test]
    fn exponential_service_is_mm1k_at_any_load() {
        for load in [0.3, 0.95, 1.0, 1.7, 6.0] {
            // The last is beyond what a number can hold without scaling: 6^300.
            for room in [1, 2, 7, 60, 300] {
                let exact = mm1k(load, 1.0, room).unwrap();
                let exponential = Distribution::exponential(1.0).unwrap();
                let embedded = mg1k(load, &exponential, room).unwrap();
                let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + b.abs());
                assert!(
                    close(embedded.blocking, exact.blocking),
                    "load {load}, room {room}"
                );
                assert!(
                    close(embedded.steady.wait, exact.steady.wait),
                    "load {load}, room {room}"
                );
            }
        }
    }

    #[test]
    fn a_large_room_is_no_bound() {
        let service = Distribution::log_normal_from_mean_and_scv(1.0, 2.0).unwrap();
        let bounded = mg1k(0.5, &service, 400).unwrap();
        let free = mg1(0.5, &service.moments().unwrap()).unwrap();
        assert!(bounded.blocking < 1e-9, "{}", bounded.blocking);
        assert!((bounded.steady.wait / free.wait - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_accepted_is_served() {
        for service in [
            Distribution::bounded_pareto(0.1, 100.0, 1.1).unwrap(),
            Distribution::deterministic(0.5).unwrap(),
            Distribution::exponential(3.0)
                .unwrap()
                .shifted(0.2)
                .unwrap(),
        ] {
            let bounded = mg1k(1.8, &service, 12).unwrap();
            let carried = 1.8 * (1.0 - bounded.blocking) * service.moment(1).unwrap();
            assert!((bounded.steady.utilisation - carried).abs() < 1e-12);
            assert!(bounded.steady.utilisation < 1.0 && bounded.steady.present < 12.0);
        }
    }
}
