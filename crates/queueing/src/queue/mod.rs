//! The classical queues, each with its conditions and its source.
//!
//! | module | queue | exact? |
//! | --- | --- | --- |
//! | [`mm1`] | M/M/1 and M/M/1/K | yes |
//! | [`mg1`] | M/G/1, first come first served: Pollaczek–Khinchin, and the variance of the wait | yes |
//! | [`mg1k`] | M/G/1/K: blocking by the embedded chain | yes, numerically |
//! | [`sharing`] | M/G/1 under processor sharing | yes |
//! | [`many`] | M/M/k, M/G/k and k × M/G/1 | M/M/k and k × M/G/1 yes; M/G/k approximates |
//! | [`tandem`] | two stages in a row | only after an exponential first stage |
//! | [`classes`] | several classes that share one queue | yes |
//! | [`closed`] | so many clients, each of which asks again when it is answered | yes, where it has a product form |
//!
//! All but the last take arrivals from a Poisson process, `arrival_rate` a second; all give times in
//! seconds.

pub mod classes;
pub mod closed;
pub mod many;
pub mod mg1;
pub mod mg1k;
pub mod mm1;
pub mod sharing;
pub mod tandem;

use serde::Serialize;

/// What a queue does in its steady state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steady {
    /// The share of time that a server is busy, from 0 to 1.
    pub utilisation: f64,
    /// The mean wait before service, seconds.
    pub wait: f64,
    /// The mean time in the system, waiting and being served, seconds.
    pub time: f64,
    /// The mean number waiting.
    pub waiting: f64,
    /// The mean number in the system.
    pub present: f64,
}

impl Steady {
    /// From the wait and the service time, by Little's law.
    pub(crate) fn new(accepted_rate: f64, utilisation: f64, wait: f64, service: f64) -> Steady {
        let time = wait + service;
        Steady {
            utilisation,
            wait,
            time,
            waiting: accepted_rate * wait,
            present: accepted_rate * time,
        }
    }
}
