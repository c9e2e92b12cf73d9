//! M/G/1, first come first served: Pollaczek–Khinchin. Kleinrock 1, 5.6–5.7.

use super::Steady;
use crate::error::{non_negative, positive, stable};
use crate::{ModelError, Moments};

/// M/G/1 in its steady state: W = λE\[S²\]/(2(1−ρ)). Exact.
///
/// # Errors
/// A rate or mean outside its domain, or a load without a steady state.
pub fn mg1(arrival_rate: f64, service: &Moments) -> Result<Steady, ModelError> {
    let arrival_rate = non_negative("arrival rate", arrival_rate)?;
    let mean = positive("mean service time", service.mean)?;
    let second = positive("second moment of the service time", service.second)?;
    service.possible()?;
    let utilisation = stable("M/G/1", arrival_rate, 1.0 / mean)?;
    let wait = arrival_rate * second / (2.0 * (1.0 - utilisation));
    Ok(Steady::new(arrival_rate, utilisation, wait, mean))
}

/// The variance of the wait: E\[W\]² + λE\[S³\]/(3(1−ρ)), seconds squared. Exact.
///
/// # Errors
/// As [`mg1`]; and the service time has no third moment, or none is known.
pub fn wait_variance(arrival_rate: f64, service: &Moments) -> Result<f64, ModelError> {
    let steady = mg1(arrival_rate, service)?;
    let third = service.third.ok_or_else(|| ModelError::NoMoment {
        distribution: "the service time".into(),
        order: 3,
        needs: "a third moment".into(),
    })?;
    Ok(steady.wait * steady.wait + arrival_rate * third / (3.0 * (1.0 - steady.utilisation)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use crate::queue::mm1::mm1;

    #[test]
    fn exponential_service_is_mm1_and_constant_service_waits_half_as_long() {
        let exponential = Distribution::exponential(10.0).unwrap().moments().unwrap();
        let constant = Distribution::deterministic(0.1).unwrap().moments().unwrap();
        for rate in [0.0, 1.0, 5.0, 9.9] {
            let m = mm1(rate, 10.0).unwrap();
            let e = mg1(rate, &exponential).unwrap();
            let d = mg1(rate, &constant).unwrap();
            assert!((m.wait - e.wait).abs() < 1e-12 * (1.0 + m.wait));
            assert!((m.wait - 2.0 * d.wait).abs() < 1e-12 * (1.0 + m.wait));
        }
    }

    #[test]
    fn moments_that_no_time_has_are_refused() {
        let made = |second: f64| Moments {
            mean: 2.0,
            second,
            third: None,
        };
        assert_eq!(
            mg1(0.1, &made(3.9)),
            Err(ModelError::Impossible {
                mean: 2.0,
                second: 3.9
            })
        );
        // A constant, up to rounding, is possible.
        assert!(mg1(0.1, &made(4.0 - 1e-12)).is_ok());
        for refused in [
            crate::queue::many::mgk(0.1, &made(3.9), 2),
            crate::queue::tandem::gig1(0.1, 1.0, &made(3.9)),
        ] {
            assert!(matches!(refused, Err(ModelError::Impossible { .. })));
        }
        assert!(Moments::mixture(&[(1.0, made(3.9)), (1.0, made(40.0))]).is_err());
    }

    #[test]
    fn the_wait_of_mm1_has_its_known_variance() {
        // M/M/1: Var[W] = ρ(2−ρ)/(μ²(1−ρ)²).
        let exponential = Distribution::exponential(1.0).unwrap().moments().unwrap();
        let rho: f64 = 0.7;
        let exact = rho * (2.0 - rho) / (1.0 - rho).powi(2);
        assert!((wait_variance(rho, &exponential).unwrap() - exact).abs() < 1e-12);
    }

    #[test]
    fn a_service_time_without_a_third_moment_has_no_variance_of_the_wait() {
        let heavy = Distribution::pareto(0.01, 2.5).unwrap().moments().unwrap();
        assert!(mg1(1.0, &heavy).is_ok());
        assert!(matches!(
            wait_variance(1.0, &heavy),
            Err(ModelError::NoMoment { order: 3, .. })
        ));
    }
}
