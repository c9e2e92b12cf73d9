//! The simulator by itself; `tests/simulator.rs` holds the formulas against it.

use super::*;

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(1.0 / mean).unwrap()
}

fn nothing() -> Distribution {
    Distribution::deterministic(0.0).unwrap()
}

fn host_only(rate: f64, service: Distribution) -> Vec<Class> {
    vec![Class::new(
        "class",
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
fn the_same_size_at_both_stages_waits_differently() {
    let heavy = || Distribution::log_normal_from_mean_and_scv(0.05, 4.0).unwrap();
    let classes = vec![Class::new(
        "class",
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

#[test]
fn a_stage_without_room_or_cores_is_refused() {
    let classes = host_only(5.0, exponential(0.1));
    let with = |host: Stage| System {
        host,
        ..System::default()
    };
    let no_room = with(Stage {
        room: Some(0),
        ..Stage::default()
    });
    let no_cores = with(Stage {
        cores: 0,
        ..Stage::default()
    });
    for system in [no_room, no_cores] {
        assert!(matches!(
            simulate(&classes, &system, &run(false)),
            Err(ModelError::Zero { .. })
        ));
    }
    assert!(matches!(
        simulate_placed(&classes, &System::default(), &[true, false], &run(true)),
        Err(ModelError::OutOfRange { value: 2.0, .. })
    ));
}

#[test]
fn delays_are_spread_as_those_of_mm1_are() {
    let times = [1.0, 0.0].map(|mean| match mean {
        0.0 => Distribution::deterministic(0.0).unwrap(),
        mean => Distribution::exponential(1.0 / mean).unwrap(),
    });
    let [one, none] = times;
    let class = Class::new(
        "all",
        0.6,
        [one, none.clone(), none.clone(), none.clone(), none],
    );
    let run = Run {
        engine: false,
        ..Run::default()
    };
    let seen = simulate(&[class], &System::default(), &run).unwrap();
    let spread = seen.percentiles.unwrap();
    // The time in M/M/1 is exponential with rate μ − λ.
    for (value, share) in [
        (spread.p50, 0.5_f64),
        (spread.p90, 0.9),
        (spread.p99, 0.99),
        (spread.p999, 0.999),
    ] {
        let exact = -(1.0 - share).ln() / 0.4;
        assert!((value / exact - 1.0).abs() < 0.05, "{value}, not {exact}");
    }
}
