use super::*;
use crate::queue::mm1::mm1;

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(1.0 / mean).unwrap()
}

fn nothing() -> Distribution {
    Distribution::deterministic(0.0).unwrap()
}

fn class(rate: f64, means: [f64; 5]) -> Class {
    let times = means.map(|mean| {
        if mean == 0.0 {
            nothing()
        } else {
            exponential(mean)
        }
    });
    Class::new("class", rate, times)
}

#[test]
fn exponential_stages_are_a_jackson_network() {
    let one = [class(5.0, [0.1, 0.0, 0.0, 0.0, 0.05])];
    let system = System::default();
    let with = predict(&one, &system, true).unwrap();
    let exact = mm1(5.0, 10.0).unwrap().time + mm1(5.0, 20.0).unwrap().time;
    assert!((with.delay - exact).abs() < 1e-12 && with.exact);
    assert_eq!(with.bottleneck, predict::Bottleneck::Host);
    assert!((with.saturation - 10.0).abs() < 1e-12);
}

#[test]
fn the_source_takes_the_greater_stage_where_the_sum_is_right() {
    let one = [class(5.0, [0.1, 0.0, 0.0, 0.0, 0.1])];
    let right = predict(&one, &System::default(), true).unwrap().delay;
    let source = source::predict(&one[0]).unwrap();
    assert!((right - 2.0 * source.delay_with).abs() < 1e-12);
}

#[test]
fn the_sources_first_stage_is_pessimistic_for_a_sum_of_exponentials() {
    let one = class(9.0, [0.05, 0.1, 0.05, 0.0, 0.001]);
    let source = source::predict(&Class {
        arrival_rate: 6.0,
        ..one.clone()
    })
    .unwrap();
    let right = predict(
        &[Class {
            arrival_rate: 6.0,
            ..one
        }],
        &System::default(),
        true,
    )
    .unwrap();
    assert!(source.host_delay > right.delay - source.engine_delay);
}

#[test]
fn classes_share_both_stages() {
    let small = class(50.0, [0.001, 0.001, 0.0005, 0.0001, 0.001]);
    let large = class(5.0, [0.001, 0.05, 0.001, 0.0001, 0.05]);
    for engine in [false, true] {
        let both = predict(&[small.clone(), large.clone()], &System::default(), engine).unwrap();
        let alone = predict(std::slice::from_ref(&small), &System::default(), engine).unwrap();
        assert!(
            both.classes[0].delay > 3.0 * alone.delay,
            "small requests wait behind large ones"
        );
        let weighted = (50.0 * both.classes[0].delay + 5.0 * both.classes[1].delay) / 55.0;
        assert!((weighted - both.delay).abs() < 1e-12);
        let used: f64 = both
            .classes
            .iter()
            .map(|class| class.host_utilisation)
            .sum();
        assert!((used - both.host_utilisation).abs() < 1e-12);
    }
}

#[test]
fn delay_may_fall_where_cpu_use_rises() {
    // A large protocol cost moves to a fast engine, at an overhead larger than it: the host is
    // busier, but protocol and application no longer queue behind each other's variance.
    let one = [Class {
        protocol: Distribution::bounded_pareto(0.001, 1.0, 1.1).unwrap(),
        overhead: Distribution::deterministic(0.008).unwrap(),
        engine: Distribution::deterministic(0.001).unwrap(),
        ..class(30.0, [0.005, 0.0, 0.0, 0.0, 0.0])
    }];
    let bounds = bounds::overhead_bounds(&one, &System::default()).unwrap();
    assert!(bounds.delay.unwrap() > bounds.cpu, "{bounds:?}");
    assert_eq!(bounds.saturation, Some(bounds.cpu));
}

#[test]
fn the_bound_on_delay_is_where_both_delays_meet() {
    let one = class(20.0, [0.01, 0.02, 0.002, 0.001, 0.01]);
    let system = System::default();
    let bound = bounds::overhead_bounds(std::slice::from_ref(&one), &system).unwrap();
    let at = Class {
        overhead: exponential(bound.delay.unwrap()),
        ..one
    };
    let without = predict(std::slice::from_ref(&at), &system, false)
        .unwrap()
        .delay;
    let with = predict(&[at], &system, true).unwrap().delay;
    assert!((with / without - 1.0).abs() < 1e-6, "{with} {without}");
}

#[test]
fn a_slow_engine_never_pays() {
    let bounds = bounds::overhead_bounds(
        &[class(5.0, [0.01, 0.01, 0.001, 0.0, 0.5])],
        &System::default(),
    );
    let bounds = bounds.unwrap();
    assert_eq!((bounds.delay, bounds.saturation), (None, None));
}

#[test]
fn an_overloaded_stage_is_named_with_what_it_could_carry() {
    let one = [class(150.0, [0.001, 0.001, 0.001, 0.0, 0.01])];
    let error = predict(&one, &System::default(), true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("below 100"), "{error}");
}

#[test]
fn the_delay_hangs_on_the_bottleneck() {
    let one = [class(80.0, [0.001, 0.001, 0.0005, 0.0001, 0.011])];
    let all = sensitivity::elasticities(&one, &System::default()).unwrap();
    let of = |name: &str| all.iter().find(|e| e.input == name).unwrap();
    assert!(of("engine").with_engine > 5.0);
    assert!(of("engine").without_engine.abs() < 1e-9);
    assert!(of("application").with_engine < 0.2);
}

#[test]
fn two_separate_cores_at_twice_the_load_are_as_one() {
    let system = System {
        host: Stage {
            cores: 2,
            ..Stage::default()
        },
        ..System::default()
    };
    let one = predict(
        &[class(5.0, [0.1, 0.0, 0.0, 0.0, 0.0])],
        &System::default(),
        false,
    )
    .unwrap();
    let two = predict(&[class(10.0, [0.1, 0.0, 0.0, 0.0, 0.0])], &system, false).unwrap();
    assert!((one.delay - two.delay).abs() < 1e-12);
    assert!((two.saturation - 20.0).abs() < 1e-12);
}

#[test]
fn a_class_whose_overhead_eats_the_gain_stays_on_the_host() {
    let small = class(400.0, [0.0003, 0.0001, 0.0004, 0.0001, 0.0001]);
    let large = class(20.0, [0.0003, 0.02, 0.0004, 0.0001, 0.01]);
    let placed = placement::best(&[small, large], &System::default())
        .unwrap()
        .unwrap();
    assert_eq!(placed.offloaded, [false, true]);
    assert!(!placed.prediction.classes[0].offloaded && placed.prediction.classes[1].offloaded);
}

#[test]
fn a_policy_opens_each_band_where_offloading_begins_to_pay() {
    let at = |rate: f64| {
        let small = class(rate * 0.95, [0.0003, 0.0001, 0.0004, 0.0001, 0.0001]);
        let large = class(rate * 0.05, [0.0003, 0.004, 0.001, 0.0001, 0.005]);
        (
            rate,
            placement::best(&[small, large], &System::default()).unwrap(),
        )
    };
    let loads: Vec<_> = (1..=40).map(|i| at(50.0 * f64::from(i))).collect();
    let connections = [(50.0, Some(false)), (700.0, Some(true)), (1_500.0, None)];
    let policy = placement::policy(&[10_240], &loads, &connections).unwrap();
    assert!(!policy.offload_connections(699.0) && policy.offload_connections(700.0));
    assert_eq!(
        policy.connections().offload_below_rate,
        None,
        "beyond that nothing is carried"
    );
    assert!(!policy.offload(100, 800.0), "small ones never");
    assert!(
        !policy.offload(1_000_000, 50.0),
        "the engine is slower than an idle host"
    );
    assert!(
        policy.offload(1_000_000, 1_200.0),
        "and faster than a busy one"
    );
}

#[test]
fn a_mixed_placement_may_carry_the_greatest_load() {
    // A slow engine that would choke on the small ones takes the large ones alone.
    let small = class(400.0, [0.0003, 0.0001, 0.0001, 0.0, 0.002]);
    let large = class(20.0, [0.0003, 0.02, 0.0004, 0.0001, 0.01]);
    let both = [small, large];
    let (most, offloaded) = placement::greatest_load(&both, &System::default()).unwrap();
    assert_eq!(offloaded, [false, true]);
    for engine in [false, true] {
        assert!(most > 1.5 * saturation(&both, &System::default(), engine).unwrap().0);
    }
}

#[test]
fn connections_go_where_all_that_they_ask_for_is_faster_or_carried_at_all() {
    let predicted = |rate: f64, engine| {
        let classes = [class(rate, [0.0003, 0.002, 0.0004, 0.0001, 0.0016])];
        predict(&classes, &System::default(), engine).ok()
    };
    let better = |rate: f64| {
        let (without, with) = (predicted(rate, false), predicted(rate, true));
        placement::engine_is_better(without.as_ref(), with.as_ref())
    };
    // The sum of the stages is longer than the host alone takes while nobody waits for it.
    assert_eq!(better(1.0), Some(false));
    assert_eq!(better(420.0), Some(true));
    assert_eq!(
        better(500.0),
        Some(true),
        "the host alone does not carry it"
    );
    assert_eq!(better(640.0), None, "and nobody this");
    let one = predicted(1.0, false);
    assert_eq!(
        placement::engine_is_better(one.as_ref(), one.as_ref()),
        Some(false)
    );
    assert_eq!(placement::engine_is_better(one.as_ref(), None), Some(false));
}

#[test]
fn nothing_carries_an_impossible_load() {
    let one = [class(1e6, [0.001, 0.001, 0.001, 0.001, 0.001])];
    assert_eq!(placement::best(&one, &System::default()).unwrap(), None);
}

#[test]
fn stages_that_saturate_together_are_told_so() {
    let time = |seconds: f64| Distribution::exponential(1.0 / seconds).unwrap();
    let none = || Distribution::deterministic(0.0).unwrap();
    let class = |engine: f64| {
        Class::new(
            "all",
            1.0,
            [time(0.1), time(0.3), none(), none(), time(engine)],
        )
    };
    let bottleneck = |engine: f64| {
        let (_, which) = saturation(&[class(engine)], &System::default(), true).unwrap();
        which
    };
    assert_eq!(bottleneck(0.1), predict::Bottleneck::Both);
    assert_eq!(bottleneck(0.2), predict::Bottleneck::Engine);
    assert_eq!(bottleneck(0.05), predict::Bottleneck::Host);
    // A stage without work is no bottleneck, and does not tie with one that has some.
    let idle = Class::new("all", 1.0, [none(), time(0.1), none(), none(), time(0.1)]);
    let (_, which) = saturation(&[idle], &System::default(), true).unwrap();
    assert_eq!(which, predict::Bottleneck::Engine);
}

#[test]
fn an_engine_on_the_hosts_cores_makes_one_service_of_all_work() {
    let one = class(3.0, [0.05, 0.08, 0.01, 0.02, 0.06]);
    let shared = System {
        shared: true,
        ..System::default()
    };
    let found = predict(std::slice::from_ref(&one), &shared, true).unwrap();
    let parts = [0.05, 0.01, 0.02, 0.06];
    let mean: f64 = parts.iter().sum();
    let second = mean * mean + parts.iter().map(|part| part * part).sum::<f64>();
    let delay = mean + 3.0 * second / 2.0 / (1.0 - 3.0 * mean);
    assert!((found.delay - delay).abs() < 1e-12, "{found:?}");
    assert!((found.saturation - 1.0 / mean).abs() < 1e-12);
    assert_eq!(found.bottleneck, predict::Bottleneck::Host);
    assert!(found.exact && found.engine_utilisation == Some(0.0));
    // Without an engine nothing is shared.
    let alone = |system| predict(std::slice::from_ref(&one), system, false).unwrap();
    assert_eq!(alone(&shared), alone(&System::default()));
    let run = crate::simulate::Run {
        requests: 100_000,
        ..crate::simulate::Run::default()
    };
    let seen = crate::simulate::simulate(&[one], &shared, &run).unwrap();
    assert!(seen.delay.contains(delay, 2.0), "{:?}", seen.delay);
}
