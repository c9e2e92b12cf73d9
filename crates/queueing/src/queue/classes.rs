//! Several classes of requests that share one first-come-first-served queue.
//!
//! Classes must be solved together: each waits behind all the others. The wait is the same for
//! every class (an arrival of any class sees the same queue, by PASTA), the time in the system
//! differs by the service time.

use super::{Steady, mg1::mg1};
use crate::error::{at_least_one, non_negative, positive};
use crate::{ModelError, Moments};
use serde::Serialize;

/// One class: its arrivals a second and its service time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Class {
    /// Arrivals of this class, a second.
    pub arrival_rate: f64,
    /// Its service time.
    pub service: Moments,
}

/// The shared queue: each class, and all together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shared {
    /// One a class, in the order given. `utilisation` is the share of the server that the class
    /// uses.
    pub classes: Vec<Steady>,
    /// All classes as one stream.
    pub together: Steady,
}

/// The service time of a request drawn from all classes in proportion to their rates, and the sum
/// of the rates.
///
/// # Errors
/// No class, a rate outside its domain, or no arrivals at all.
pub fn merge(classes: &[Class]) -> Result<(f64, Moments), ModelError> {
    at_least_one("number of classes", classes.len())?;
    let mut total = 0.0;
    let mut parts = Vec::with_capacity(classes.len());
    for class in classes {
        total += non_negative("arrival rate", class.arrival_rate)?;
        parts.push((class.arrival_rate, class.service));
    }
    positive("total arrival rate", total)?;
    Ok((total, Moments::mixture(&parts)?))
}

/// M/G/1 shared by `classes`, first come first served. Exact.
///
/// # Errors
/// As [`merge`]; a load without a steady state.
pub fn shared(classes: &[Class]) -> Result<Shared, ModelError> {
    let (rate, service) = merge(classes)?;
    let together = mg1(rate, &service)?;
    let classes = classes
        .iter()
        .map(|class| {
            let own = class.arrival_rate * class.service.mean;
            Steady::new(class.arrival_rate, own, together.wait, class.service.mean)
        })
        .collect();
    Ok(Shared { classes, together })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_add_up_to_the_whole() {
        let class = |arrival_rate, mean: f64, scv| Class {
            arrival_rate,
            service: Moments::from_mean_and_scv(mean, scv).unwrap(),
        };
        let shared = shared(&[
            class(3.0, 0.05, 1.0),
            class(1.0, 0.4, 4.0),
            class(0.0, 9.0, 0.0),
        ])
        .unwrap();
        let sum = |f: fn(&Steady) -> f64| shared.classes.iter().map(f).sum::<f64>();
        assert!((sum(|s| s.utilisation) - shared.together.utilisation).abs() < 1e-12);
        assert!((sum(|s| s.present) - shared.together.present).abs() < 1e-12);
        assert!((sum(|s| s.waiting) - shared.together.waiting).abs() < 1e-12);
    }
}
