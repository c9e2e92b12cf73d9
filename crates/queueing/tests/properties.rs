//! What holds for every input: Little's law, monotonicity, limits to known cases, units.

use proptest::prelude::*;
use queueing::offload::{Class, System, predict, saturation};
use queueing::queue::{mg1, mg1k, mm1, sharing};
use queueing::{Distribution, Moments};

fn service() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        (0.001..1.0f64).prop_map(|mean| Distribution::exponential(1.0 / mean).unwrap()),
        (0.001..1.0f64).prop_map(|value| Distribution::deterministic(value).unwrap()),
        (1..6u32, 1.0..100.0f64)
            .prop_map(|(stages, rate)| Distribution::erlang(stages, rate).unwrap()),
        (0.001..1.0f64, 0.1..8.0f64)
            .prop_map(|(mean, scv)| Distribution::log_normal_from_mean_and_scv(mean, scv).unwrap()),
        (0.001..0.1f64, 2.0..1e4f64, 0.5..3.0f64).prop_map(|(low, ratio, alpha)| {
            Distribution::bounded_pareto(low, low * ratio, alpha).unwrap()
        }),
    ]
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #[test]
    fn littles_law_holds(service in service(), load in 0.01..0.99f64) {
        let moments = service.moments().unwrap();
        let rate = load / moments.mean;
        let steady = mg1::mg1(rate, &moments).unwrap();
        prop_assert!(close(steady.present, rate * steady.time));
        prop_assert!(close(steady.present, steady.waiting + load));
    }

    #[test]
    fn delay_grows_with_load_and_ends_at_the_service_time(service in service(), load in 0.02..0.98f64) {
        let moments = service.moments().unwrap();
        let at = |load: f64| mg1::mg1(load / moments.mean, &moments).unwrap().time;
        prop_assert!(at(load) > at(load * 0.9));
        prop_assert!(close(at(0.0), moments.mean));
    }

    #[test]
    fn the_unit_of_time_does_not_matter(service in service(), load in 0.05..0.95f64, unit in 1e-3..1e3f64) {
        let scaled = service.clone().scaled(unit).unwrap();
        let (here, there) = (service.moments().unwrap(), scaled.moments().unwrap());
        let a = mg1::mg1(load / here.mean, &here).unwrap();
        let b = mg1::mg1(load / there.mean, &there).unwrap();
        prop_assert!((b.wait / (a.wait * unit) - 1.0).abs() < 1e-9);
        prop_assert!(close(a.waiting, b.waiting));
    }

    #[test]
    fn sharing_ignores_the_shape_and_meets_mm1(mean in 0.001..1.0f64, load in 0.01..0.99f64) {
        let shared = sharing::mg1_ps(load / mean, mean).unwrap();
        let exponential = mm1::mm1(load / mean, 1.0 / mean).unwrap();
        prop_assert!(close(shared.time, exponential.time));
    }

    #[test]
    fn a_larger_room_blocks_less(service in service(), load in 0.1..3.0f64, room in 1..30usize) {
        let rate = load / service.moment(1).unwrap();
        let small = mg1k::mg1k(rate, &service, room).unwrap();
        let large = mg1k::mg1k(rate, &service, room + 1).unwrap();
        prop_assert!(large.blocking <= small.blocking + 1e-12);
        prop_assert!((0.0..=1.0).contains(&small.blocking));
        prop_assert!(small.blocking >= 1.0 - 1.0 / load - 1e-9, "less than what cannot be carried");
    }

    #[test]
    fn moments_obey_jensen(service in service()) {
        let Moments { mean, second, third } = service.moments().unwrap();
        prop_assert!(second >= mean * mean * (1.0 - 1e-12));
        prop_assert!(third.unwrap() * mean >= second * second * (1.0 - 1e-9));
    }

    #[test]
    fn an_engine_that_costs_the_host_nothing_never_lowers_its_limit(
        application in service(), protocol in service(), engine in service(), load in 0.05..0.9f64
    ) {
        let nothing = Distribution::deterministic(0.0).unwrap();
        let mean = application.moment(1).unwrap() + protocol.moment(1).unwrap();
        let one = Class::new("class", load / mean, [application, protocol, nothing.clone(), nothing, engine]);
        let classes = [one];
        let without = predict(&classes, &System::default(), false).unwrap();
        match predict(&classes, &System::default(), true) {
            Ok(with) => prop_assert!(with.host_utilisation < without.host_utilisation),
            Err(_) => prop_assert!(saturation(&classes, &System::default(), true).unwrap().0 <= classes[0].arrival_rate),
        }
    }
}
