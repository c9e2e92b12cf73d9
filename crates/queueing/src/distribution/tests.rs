use super::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn all() -> Vec<Distribution> {
    let exponential = Distribution::exponential(3.0).unwrap();
    vec![
        Distribution::deterministic(0.7).unwrap(),
        exponential.clone(),
        Distribution::hypoexponential(&[2.0, 5.0, 5.0]).unwrap(),
        Distribution::erlang(4, 6.0).unwrap(),
        Distribution::log_normal(-1.0, 0.6).unwrap(),
        Distribution::pareto(0.2, 7.0).unwrap(),
        Distribution::bounded_pareto(0.1, 10.0, 1.1).unwrap(),
        Distribution::empirical(&[0.1, 0.2, 0.2, 4.0]).unwrap(),
        Distribution::mixture(vec![
            (3.0, exponential),
            (1.0, Distribution::deterministic(2.0).unwrap()),
        ])
        .unwrap(),
        Distribution::erlang(2, 1.0).unwrap().scaled(0.25).unwrap(),
        Distribution::exponential(3.0)
            .unwrap()
            .shifted(0.1)
            .unwrap(),
    ]
}

#[test]
fn sampled_moments_and_probabilities_agree_with_the_exact_ones() {
    for distribution in all() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let samples: Vec<f64> = (0..200_000)
            .map(|_| distribution.sample(&mut rng))
            .collect();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let exact = distribution.moments().unwrap();
        // Five standard errors of the mean.
        let tolerance = 5.0 * (exact.variance() / count).sqrt() + 1e-9;
        assert!(
            (mean - exact.mean).abs() < tolerance,
            "{distribution}: mean {mean}, not {}",
            exact.mean
        );
        for x in [0.05, 0.2, 0.5, 0.71, 1.0, 3.0] {
            let share = samples.iter().filter(|s| **s <= x).count() as f64 / count;
            let cdf = distribution.cdf(x);
            assert!(
                (share - cdf).abs() < 0.006,
                "{distribution}: P(X ≤ {x}) = {share}, not {cdf}"
            );
        }
    }
}

#[test]
fn a_pareto_refuses_the_moments_it_does_not_have_and_names_them() {
    let heavy = Distribution::pareto(1.0, 1.1).unwrap();
    assert!((heavy.moment(1).unwrap() - 11.0).abs() < 1e-9);
    let error = heavy.moments().unwrap_err();
    assert_eq!(
        error.to_string(),
        "moment 2 of pareto(scale 1, alpha 1.1) does not exist: it needs alpha > 2; \
         bound the tail (bounded Pareto) and state the bound"
    );
}

#[test]
fn a_bounded_pareto_is_continuous_where_the_order_meets_alpha() {
    let moment = |alpha: f64| {
        Distribution::bounded_pareto(1.0, 1e6, alpha)
            .unwrap()
            .moment(1)
            .unwrap()
    };
    // At n = α the closed form is c·ln(H/L), c = L/(1 − L/H).
    let exact = (1e6_f64).ln() / (1.0 - 1e-6);
    assert!((moment(1.0) - exact).abs() < 1e-9);
    assert!((moment(1.0 + 1e-9) - exact).abs() < 1e-6);
}

#[test]
fn hypoexponential_with_equal_rates_is_erlang() {
    let equal = Distribution::hypoexponential(&[3.0, 3.0, 3.0]).unwrap();
    let erlang = Distribution::erlang(3, 3.0).unwrap();
    for x in [0.0, 0.1, 1.0, 2.5, 9.0] {
        assert!((equal.cdf(x) - erlang.cdf(x)).abs() < 1e-12, "at {x}");
    }
    for order in 1..=3 {
        assert!((equal.moment(order).unwrap() - erlang.moment(order).unwrap()).abs() < 1e-12);
    }
}

#[test]
fn parameters_outside_their_domain_are_refused_with_their_value() {
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        assert!(Distribution::exponential(bad).is_err(), "rate {bad}");
        assert!(Distribution::pareto(bad, 2.0).is_err(), "scale {bad}");
        assert!(
            Distribution::bounded_pareto(1.0, bad, 2.0).is_err(),
            "high {bad}"
        );
        assert!(Distribution::log_normal(0.0, bad).is_err(), "sigma {bad}");
    }
    assert!(Distribution::deterministic(0.0).is_ok());
    assert!(Distribution::empirical(&[]).is_err());
    assert!(Distribution::mixture(vec![]).is_err());
    assert!(Distribution::erlang(0, 1.0).is_err());
    assert_eq!(
        Distribution::exponential(-2.0).unwrap_err().to_string(),
        "rate must be a finite number greater than 0, not -2"
    );
}

#[test]
fn a_quantile_inverts_the_probability() {
    for distribution in all() {
        for p in [0.001, 0.2, 0.5, 0.9, 0.9999] {
            let x = distribution.quantile(p);
            assert!(distribution.cdf(x) >= p - 1e-9, "{distribution} at {p}");
            assert!(
                distribution.cdf(x * (1.0 - 1e-6)) <= p + 1e-5,
                "{distribution} at {p}"
            );
        }
    }
}

#[test]
fn a_moment_beyond_what_numbers_hold_is_refused_by_name() {
    let vast = [
        (Distribution::exponential(1e-320).unwrap(), 1),
        (Distribution::log_normal(0.0, 40.0).unwrap(), 2),
        (Distribution::deterministic(1e200).unwrap(), 2),
    ];
    for (distribution, order) in vast {
        let error = distribution.moment(order).unwrap_err();
        assert!(
            matches!(error, ModelError::TooGreat { order: of, .. } if of == order),
            "{distribution}: {error}"
        );
        assert!(distribution.moments().is_err(), "{distribution}");
    }
    // The third may be missing, where two are enough.
    let third = Distribution::deterministic(1e150).unwrap();
    assert_eq!(third.moments().unwrap().third, None);
}

#[test]
fn a_shifted_time_has_the_moments_of_the_sum() {
    let one = Distribution::deterministic(0.7).unwrap();
    let one = one.shifted(0.3).unwrap();
    for order in 1..=3 {
        assert!((one.moment(order).unwrap() - 1.0).abs() < 1e-15, "{order}");
    }
    // E[(1 + X)³] = 1 + 3·1/2 + 3·2/4 + 6/8 of an exponential X with rate 2.
    let later = Distribution::exponential(2.0).unwrap();
    let later = later.shifted(1.0).unwrap();
    let moments = later.moments().unwrap();
    assert!((moments.mean - 1.5).abs() < 1e-15 && (moments.second - 2.5).abs() < 1e-15);
    assert!((moments.third.unwrap() - 4.75).abs() < 1e-14);
    assert!((later.quantile(0.5) - (1.0 + 0.5_f64.ln() / -2.0)).abs() < 1e-12);
    assert!(!later.is_exponential() && !later.is_zero());
    let nothing = Distribution::deterministic(0.0).unwrap();
    assert!(nothing.clone().shifted(0.0).unwrap().is_zero());
    assert!(!nothing.clone().shifted(1.0).unwrap().is_zero());
    assert!(nothing.shifted(-1.0).is_err());
}
