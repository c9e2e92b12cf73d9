use super::*;
use crate::offload::{Discipline, Feeding, Stage, predict};
use crate::queue::mg1k::mg1k;
use crate::queue::{many, mm1};

/// Three half-widths of a 95 % interval: a right formula fails once in about 10⁸ runs, and the
/// seeds are fixed.
const WIDE: f64 = 3.0;

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(1.0 / mean).unwrap()
}

fn class(rate: f64, parts: [Distribution; 5]) -> Class {
    let [application, protocol, overhead, control, engine] = parts;
    Class {
        name: "class".into(),
        arrival_rate: rate,
        application,
        protocol,
        overhead,
        control,
        engine,
    }
}

fn nothing() -> Distribution {
    Distribution::deterministic(0.0).unwrap()
}

fn host_only(rate: f64, service: Distribution) -> Vec<Class> {
    vec![class(
        rate,
        [service, nothing(), nothing(), nothing(), nothing()],
    )]
}

fn run(engine: bool) -> Run {
    Run {
        requests: 400_000,
        engine,
        ..Run::default()
    }
}

#[test]
fn one_stage_agrees_with_pollaczek_and_khinchin() {
    for service in [
        exponential(0.1),
        Distribution::deterministic(0.1).unwrap(),
        Distribution::log_normal_from_mean_and_scv(0.1, 2.0).unwrap(),
        Distribution::erlang(3, 30.0).unwrap(),
    ] {
        let classes = host_only(7.0, service);
        let seen = simulate(&classes, &System::default(), &run(false)).unwrap();
        let exact = predict(&classes, &System::default(), false).unwrap();
        assert!(
            seen.delay.contains(exact.delay, WIDE),
            "{:?} {}",
            seen.delay,
            exact.delay
        );
        assert!((seen.host_utilisation - 0.7).abs() < 0.01);
        assert!(
            (seen.present / (7.0 * exact.delay) - 1.0).abs() < 0.1,
            "Little's law"
        );
    }
}

#[test]
fn sharing_a_processor_agrees_for_any_service_time() {
    let system = System {
        host: Stage {
            discipline: Discipline::ProcessorSharing,
            ..Stage::default()
        },
        ..System::default()
    };
    for service in [
        exponential(0.1),
        Distribution::log_normal_from_mean_and_scv(0.1, 4.0).unwrap(),
    ] {
        let classes = host_only(6.0, service);
        let seen = simulate(&classes, &system, &run(false)).unwrap();
        assert!(seen.delay.contains(0.25, WIDE), "{:?}", seen.delay);
    }
}

#[test]
fn several_cores_agree_pooled_and_separate() {
    for (feeding, exact) in [
        (Feeding::Pooled, many::mmk(24.0, 10.0, 3).unwrap().time),
        (Feeding::Separate, mm1::mm1(8.0, 10.0).unwrap().time),
    ] {
        let system = System {
            host: Stage {
                cores: 3,
                feeding,
                ..Stage::default()
            },
            ..System::default()
        };
        let seen = simulate(&host_only(24.0, exponential(0.1)), &system, &run(false)).unwrap();
        assert!(seen.delay.contains(exact, WIDE), "{:?} {exact}", seen.delay);
        assert!((seen.host_utilisation - 0.8).abs() < 0.01);
    }
}

#[test]
fn bounded_room_agrees_with_the_embedded_chain_also_beyond_saturation() {
    for (load, room) in [(0.8, 5), (1.5, 8)] {
        let service = Distribution::log_normal_from_mean_and_scv(1.0, 1.5).unwrap();
        let system = System {
            host: Stage {
                room: Some(room),
                ..Stage::default()
            },
            ..System::default()
        };
        let exact = mg1k(load, &service, room).unwrap();
        let seen = simulate(&host_only(load, service), &system, &run(false)).unwrap();
        assert!(
            (seen.blocking - exact.blocking).abs() < 0.004,
            "{} {}",
            seen.blocking,
            exact.blocking
        );
        assert!(
            seen.delay.contains(exact.steady.time, WIDE),
            "{:?} {:?}",
            seen.delay,
            exact.steady
        );
    }
}

#[test]
fn two_exponential_stages_agree_exactly_and_others_within_the_approximation() {
    let jackson = vec![class(
        6.0,
        [
            exponential(0.1),
            nothing(),
            nothing(),
            nothing(),
            exponential(0.12),
        ],
    )];
    let seen = simulate(&jackson, &System::default(), &run(true)).unwrap();
    let exact = predict(&jackson, &System::default(), true).unwrap();
    assert!(
        exact.exact && seen.delay.contains(exact.delay, WIDE),
        "{:?} {}",
        seen.delay,
        exact.delay
    );
    let constant = Distribution::deterministic(0.1).unwrap();
    let regular = vec![class(
        8.0,
        [constant, nothing(), nothing(), nothing(), exponential(0.1)],
    )];
    let seen = simulate(&regular, &System::default(), &run(true)).unwrap();
    let close = predict(&regular, &System::default(), true).unwrap();
    assert!(
        (seen.delay.mean / close.delay - 1.0).abs() < 0.1,
        "{:?} {}",
        seen.delay,
        close.delay
    );
}

#[test]
fn classes_agree_each_by_itself() {
    let classes = vec![
        class(
            40.0,
            [
                exponential(0.002),
                exponential(0.002),
                nothing(),
                nothing(),
                nothing(),
            ],
        ),
        class(
            4.0,
            [
                exponential(0.01),
                exponential(0.1),
                nothing(),
                nothing(),
                nothing(),
            ],
        ),
    ];
    let seen = simulate(&classes, &System::default(), &run(false)).unwrap();
    let exact = predict(&classes, &System::default(), false).unwrap();
    for (seen, exact) in seen.classes.iter().zip(&exact.classes) {
        assert!(
            seen.unwrap().contains(exact.delay, WIDE),
            "{seen:?} {}",
            exact.delay
        );
    }
}

#[test]
fn the_same_size_at_both_stages_waits_differently() {
    let heavy = || Distribution::log_normal_from_mean_and_scv(0.05, 4.0).unwrap();
    let classes = vec![class(
        8.0,
        [heavy(), nothing(), nothing(), nothing(), heavy()],
    )];
    let independent = simulate(&classes, &System::default(), &run(true)).unwrap();
    let same = Run {
        coupling: Coupling::SameSize,
        ..run(true)
    };
    let same = simulate(&classes, &System::default(), &same).unwrap();
    assert!((same.delay.mean - independent.delay.mean).abs() > independent.delay.half_width);
}

#[test]
fn a_seed_reproduces_a_run_and_another_does_not() {
    let classes = host_only(5.0, exponential(0.1));
    let short = Run {
        requests: 5_000,
        ..run(false)
    };
    let again = simulate(&classes, &System::default(), &short).unwrap();
    assert_eq!(
        simulate(&classes, &System::default(), &short).unwrap(),
        again
    );
    let other = Run { seed: 2, ..short };
    assert_ne!(
        simulate(&classes, &System::default(), &other).unwrap(),
        again
    );
}

#[test]
fn what_could_never_catch_up_is_refused_unless_its_room_is_bounded() {
    let classes = host_only(15.0, exponential(0.1));
    assert!(matches!(
        simulate(&classes, &System::default(), &run(false)),
        Err(ModelError::Unstable { .. })
    ));
    assert!(matches!(
        simulate(
            &classes,
            &System::default(),
            &Run {
                requests: 10,
                ..run(false)
            }
        ),
        Err(ModelError::TooFewSamples { given: 10, .. })
    ));
}
