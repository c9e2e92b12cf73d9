//! Closed networks: so many clients, each of which asks again when it has its answer and has
//! thought.
//!
//! Such a network has a product form (Gordon and Newell, "Closed queuing systems with exponential
//! servers", Operations Research 15(2), 1967) where each stage is exponential and first come first
//! served, or a shared processor with whatever times. Its throughput is then G(N−1)/G(N), G being the
//! normalising constant (Buzen, "Computational algorithms for closed queueing networks with
//! exponential servers", Comm. ACM 16(9), 1973). G is kept as a logarithm and made of sums of
//! positive terms alone, so that neither many clients nor several cores cost digits, as they do in
//! mean value analysis.

use crate::ModelError;
use crate::error::{at_least_one, non_negative};
use serde::Serialize;

/// One stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Station {
    /// What a request needs of one core of it, seconds. Nothing: no stage.
    pub demand: f64,
    /// Its cores.
    pub cores: usize,
    /// Whether one queue feeds all cores; otherwise each has its own, and a request goes to any of
    /// them with the same probability.
    pub pooled: bool,
}

/// What so many clients get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Closed {
    /// How many.
    pub clients: u32,
    /// Requests that are answered, a second.
    pub throughput: f64,
    /// The time of a request at all stages, seconds.
    pub response: f64,
}

/// A network with its normalising constants up to a number of clients.
#[derive(Debug, Clone)]
pub struct Network {
    think: f64,
    /// ln G(n) for n clients, from 0 on.
    constants: Vec<f64>,
}

impl Network {
    /// Of `stages`, for up to `clients` clients who wait `think` seconds between an answer and their
    /// next request.
    ///
    /// # Errors
    /// A negative time, a stage without a core, or nothing that takes any time.
    pub fn new(stages: &[Station], think: f64, clients: u32) -> Result<Self, ModelError> {
        let think = non_negative("time to think", think)?;
        let mut work = 0.0;
        for stage in stages {
            at_least_one("number of cores", stage.cores)?;
            work += non_negative("demand of a request", stage.demand)?;
        }
        if work == 0.0 {
            return Err(ModelError::Undetermined {
                what: "the throughput of a closed loop",
                why: "its requests need no time",
            });
        }
        let mut network = Network {
            think,
            constants: thinking(think, clients as usize),
        };
        for stage in stages.iter().filter(|stage| stage.demand > 0.0) {
            network.add(stage);
        }
        Ok(network)
    }

    /// Takes a stage in: G with it is the convolution of G without it and of its own terms.
    fn add(&mut self, stage: &Station) {
        let constants = &mut self.constants;
        let each = (stage.demand / stage.cores as f64).ln();
        let queues = if stage.pooled { 1 } else { stage.cores };
        if stage.pooled && stage.cores > 1 {
            // The terms of k cores are Dⁿ/n! up to k, and grow by D/k from there on. So they are
            // those of one core of D/k behind a start of Dⁿ/n!·(1 − n/k), n < k.
            let mut term = 0.0;
            let start: Vec<f64> = (0..stage.cores)
                .map(|n| {
                    if n > 0 {
                        term += (stage.demand / n as f64).ln();
                    }
                    term + (-(n as f64) / stage.cores as f64).ln_1p()
                })
                .collect();
            for n in (0..constants.len()).rev() {
                let pairs = start.iter().zip(constants[..=n].iter().rev());
                constants[n] = pairs.fold(f64::NEG_INFINITY, |sum, (a, b)| log_sum(sum, a + b));
            }
        }
        for _ in 0..queues {
            for n in 1..constants.len() {
                constants[n] = log_sum(constants[n], each + constants[n - 1]);
            }
        }
    }

    /// What `clients` get; `None` of none, and of more than it was made for.
    pub fn with(&self, clients: u32) -> Option<Closed> {
        let at = clients as usize;
        let (now, before) = (
            self.constants.get(at)?,
            self.constants.get(at.checked_sub(1)?)?,
        );
        let throughput = (before - now).exp();
        Some(Closed {
            clients,
            throughput,
            response: (f64::from(clients) / throughput - self.think).max(0.0),
        })
    }
}

/// ln of Zⁿ/n!: clients who think, each for itself.
fn thinking(think: f64, clients: usize) -> Vec<f64> {
    let mut term = 0.0;
    (0..=clients)
        .map(|n| {
            if n > 0 {
                term += (think / n as f64).ln();
            }
            term
        })
        .collect()
}

/// ln(eᵃ + eᵇ).
fn log_sum(a: f64, b: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    if less == f64::NEG_INFINITY {
        more
    } else {
        more + (less - more).exp().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(demand: f64) -> Station {
        Station {
            demand,
            cores: 1,
            pooled: false,
        }
    }

    #[track_caller]
    fn gives(stages: &[Station], think: f64, clients: u32, throughput: f64, response: f64) {
        let network = Network::new(stages, think, clients + 3).unwrap();
        let found = network.with(clients).unwrap();
        assert!(
            (found.throughput / throughput - 1.0).abs() < 1e-9,
            "{found:?} instead of {throughput}"
        );
        assert!(
            (found.response / response - 1.0).abs() < 1e-9,
            "{found:?} instead of {response}"
        );
    }

    #[test]
    fn stages_of_one_core_are_what_theory_says() {
        // One stage without thought is always busy, and each waits for all.
        gives(&[one(0.01)], 0.0, 5, 100.0, 0.05);
        // n clients in k balanced stages: X = n / (D (n + k - 1)).
        gives(&[one(0.01), one(0.01)], 0.0, 3, 75.0, 0.04);
        // One client waits for nobody.
        gives(&[one(0.01), one(0.03)], 0.06, 1, 10.0, 0.04);
        // The machine repairman of two machines: P(idle) = 1 / (1 + 2r + 2r²), r = D / Z.
        let idle = 1.0 / (1.0 + 2.0 * 0.5 + 2.0 * 0.25);
        let rate = (1.0 - idle) / 0.02;
        gives(&[one(0.02)], 0.04, 2, rate, 2.0 / rate - 0.04);
    }

    #[test]
    fn several_cores_share_one_queue_or_have_one_each() {
        let two = |pooled| Station {
            demand: 0.01,
            cores: 2,
            pooled,
        };
        // Two clients never wait for two cores that both can take; three keep them busy.
        gives(&[two(true)], 0.0, 2, 200.0, 0.01);
        gives(&[two(true)], 0.0, 3, 200.0, 0.015);
        // Of queues of their own, two clients meet in the same one half of the time:
        // X = n / (D/k (n + k - 1)) of k balanced queues.
        gives(&[two(false)], 0.0, 2, 2.0 / (0.005 * 3.0), 0.015);
        // M/M/2 with three sources (Erlang's model with a queue), r = D/Z = 1/2: the states have
        // weights 1, 3r, 3r², 3r³/2; X = (p₁ + 2p₂ + 2p₃)/D.
        let weights = [1.0, 1.5, 0.75, 0.1875];
        let all: f64 = weights.iter().sum();
        let busy = (weights[1] + 2.0 * weights[2] + 2.0 * weights[3]) / all;
        gives(
            &[two(true)],
            0.02,
            3,
            busy / 0.01,
            3.0 / (busy / 0.01) - 0.02,
        );
        // A second stage behind it: all states of two clients are 2 at the pool, 1 and 1, 2 behind,
        // with weights D²/2, D·E, E².
        let behind = one(0.03);
        let weights = [0.01 * 0.01 / 2.0, 0.01 * 0.03, 0.03 * 0.03];
        let busy = (weights[1] + weights[2]) / weights.iter().sum::<f64>();
        gives(&[two(true), behind], 0.0, 2, busy / 0.03, 0.06 / busy);
    }

    #[test]
    fn many_clients_of_many_cores_reach_the_bottleneck() {
        let pool = Station {
            demand: 1.0,
            cores: 16,
            pooled: true,
        };
        let network = Network::new(&[pool, one(0.1)], 100.0, 50_000).unwrap();
        let rate = |clients| network.with(clients).unwrap().throughput;
        assert!((rate(50_000) - 10.0).abs() < 1e-9, "{}", rate(50_000));
        assert!((rate(1) - 1.0 / 101.1).abs() < 1e-12);
        assert!(rate(500) < 500.0 / 101.1 && rate(500) > 4.9);
        assert_eq!(network.with(0), None);
        assert_eq!(network.with(50_001), None);
    }

    #[test]
    fn what_takes_no_time_is_refused() {
        assert!(Network::new(&[one(0.0)], 1.0, 3).is_err());
        assert!(Network::new(&[one(0.1)], -1.0, 3).is_err());
        let none = Station {
            cores: 0,
            ..one(0.1)
        };
        assert!(Network::new(&[none], 0.0, 3).is_err());
    }
}
