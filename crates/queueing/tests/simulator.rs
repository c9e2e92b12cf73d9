//! Every formula of the crate beside a simulation of the same system.
//!
//! What is exact has to lie within the simulation's 99.9 % interval, and the interval has to be
//! narrow, or it would prove nothing. What approximates has to be as good as its documentation
//! says. Seeds are fixed, so that a failure is not luck.

use queueing::offload::{
    Class, Discipline, Feeding, Stage, System, predict, predict_placed, saturation,
};
use queueing::queue::{classes, many, mg1, mg1k, mm1, sharing, tandem};
use queueing::simulate::{Estimate, Observation, Run, simulate, simulate_placed};
use queueing::{Distribution, Moments};

/// The half-width of an interval, as a share of its mean, above which it is not worth the name.
const NARROW: f64 = 0.06;

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(1.0 / mean).unwrap()
}

fn constant(value: f64) -> Distribution {
    Distribution::deterministic(value).unwrap()
}

fn log_normal(mean: f64, scv: f64) -> Distribution {
    Distribution::log_normal_from_mean_and_scv(mean, scv).unwrap()
}

fn erlang(stages: u32, mean: f64) -> Distribution {
    Distribution::erlang(stages, f64::from(stages) / mean).unwrap()
}

/// Nine tenths short, one tenth nine times as long: c² = 3.6.
fn two_kinds(mean: f64) -> Distribution {
    let short = mean / 1.8;
    Distribution::mixture(vec![
        (9.0, exponential(short)),
        (1.0, exponential(9.0 * short)),
    ])
    .unwrap()
}

fn moments(service: &Distribution) -> Moments {
    service.moments().unwrap()
}

/// A class that needs `service` of the host and nothing else.
fn host_only(rate: f64, service: &Distribution) -> Class {
    let nothing = || constant(0.0);
    Class::new(
        "class",
        rate,
        [service.clone(), nothing(), nothing(), nothing(), nothing()],
    )
}

/// A class that needs `first` of the host and `second` of the engine.
fn two_stages(rate: f64, first: &Distribution, second: &Distribution) -> Class {
    Class {
        engine: second.clone(),
        ..host_only(rate, first)
    }
}

fn host(stage: Stage) -> System {
    System {
        host: stage,
        ..System::default()
    }
}

fn run(engine: bool) -> Run {
    Run {
        requests: 600_000,
        engine,
        confidence: 0.999,
        seed: 2_026,
        ..Run::default()
    }
}

/// One stage at the host, simulated.
fn one_stage(rate: f64, service: &Distribution, stage: Stage) -> Observation {
    simulate(&[host_only(rate, service)], &host(stage), &run(false)).unwrap()
}

#[track_caller]
fn agrees(what: &str, seen: &Estimate, formula: f64) {
    assert!(
        seen.contains(formula, 1.0),
        "{what}: {formula}, simulated {} ± {}",
        seen.mean,
        seen.half_width
    );
    assert!(
        seen.half_width <= NARROW * seen.mean,
        "{what}: {} ± {} tells nothing",
        seen.mean,
        seen.half_width
    );
}

#[track_caller]
fn close(what: &str, seen: &Estimate, formula: f64, error: f64) {
    assert!(
        (formula - seen.mean).abs() <= error * seen.mean + seen.half_width / 2.0,
        "{what}: {formula}, simulated {} ± {}",
        seen.mean,
        seen.half_width
    );
}

#[test]
fn mm1() {
    let seen = one_stage(6.0, &exponential(0.1), Stage::default());
    let exact = mm1::mm1(6.0, 10.0).unwrap();
    agrees("time", &seen.delay, exact.time);
    agrees("wait", &seen.wait, exact.wait);
    assert!((seen.host_utilisation - exact.utilisation).abs() < 0.005);
    assert!((seen.present / exact.present - 1.0).abs() < 0.03);
}

#[test]
fn mg1_and_the_variance_of_its_wait() {
    for service in [
        exponential(0.1),
        constant(0.1),
        erlang(3, 0.1),
        Distribution::hypoexponential(&[50.0, 12.5]).unwrap(),
        log_normal(0.1, 0.5),
        Distribution::bounded_pareto(0.05, 0.5, 1.5).unwrap(),
        Distribution::empirical(&[0.02, 0.05, 0.1, 0.2]).unwrap(),
    ] {
        let rate = 0.6 / service.moment(1).unwrap();
        let seen = one_stage(rate, &service, Stage::default());
        let exact = mg1::mg1(rate, &moments(&service)).unwrap();
        agrees(&service.to_string(), &seen.wait, exact.wait);
        agrees(&service.to_string(), &seen.delay, exact.time);
        let variance = mg1::wait_variance(rate, &moments(&service)).unwrap();
        assert!(
            seen.wait_variance.contains(variance, 1.0)
                && seen.wait_variance.half_width < 0.1 * variance,
            "{service}: {variance}, simulated {:?}",
            seen.wait_variance
        );
    }
}

#[test]
fn mm1k_below_at_and_beyond_saturation() {
    for (load, room) in [(0.7, 4), (1.0, 10), (1.6, 6)] {
        let stage = Stage {
            room: Some(room),
            ..Stage::default()
        };
        let seen = one_stage(load, &exponential(1.0), stage);
        let exact = mm1::mm1k(load, 1.0, room).unwrap();
        agrees("time", &seen.delay, exact.steady.time);
        agrees("blocking", &seen.blocking, exact.blocking);
        assert!((seen.host_utilisation - exact.steady.utilisation).abs() < 0.005);
    }
}

#[test]
fn mg1k_below_and_beyond_saturation() {
    for service in [constant(1.0), erlang(4, 1.0), log_normal(1.0, 1.5)] {
        for (load, room) in [(0.9, 5), (1.5, 8)] {
            let stage = Stage {
                room: Some(room),
                ..Stage::default()
            };
            let seen = one_stage(load, &service, stage);
            let exact = mg1k::mg1k(load, &service, room).unwrap();
            agrees(&service.to_string(), &seen.delay, exact.steady.time);
            agrees(&service.to_string(), &seen.blocking, exact.blocking);
        }
    }
}

#[test]
fn mmk() {
    for servers in [2, 3, 8] {
        let stage = Stage {
            cores: servers,
            feeding: Feeding::Pooled,
            ..Stage::default()
        };
        let rate = 8.0 * servers as f64;
        let seen = one_stage(rate, &exponential(0.1), stage);
        let exact = many::mmk(rate, 10.0, servers).unwrap();
        agrees("time", &seen.delay, exact.time);
        assert!((seen.host_utilisation - 0.8).abs() < 0.005);
    }
}

/// Lee and Longton's formula is documented as good to a hundredth of the time for c² ≤ 1 and to six
/// for c² up to 5, and as far too high for a heavy tail.
#[test]
fn mgk_is_as_good_as_it_says() {
    let heavy = Distribution::bounded_pareto(1.0, 5_000.0, 1.1).unwrap();
    let mean = heavy.moment(1).unwrap();
    let heavy = heavy.scaled(0.1 / mean).unwrap();
    for servers in [2, 4] {
        let stage = Stage {
            cores: servers,
            feeding: Feeding::Pooled,
            ..Stage::default()
        };
        let rate = 7.5 * servers as f64;
        for (service, error) in [
            (constant(0.1), 0.015),
            (erlang(2, 0.1), 0.015),
            (two_kinds(0.1), 0.06),
        ] {
            let seen = one_stage(rate, &service, stage);
            let near = many::mgk(rate, &moments(&service), servers).unwrap();
            close(&service.to_string(), &seen.delay, near.time, error);
        }
        let seen = one_stage(5.0 * servers as f64, &heavy, stage);
        let over = many::mgk(5.0 * servers as f64, &moments(&heavy), servers).unwrap();
        assert!(over.wait > 1.3 * seen.wait.mean);
    }
}

#[test]
fn separate_queues() {
    for service in [exponential(0.1), log_normal(0.1, 0.5)] {
        let stage = Stage {
            cores: 3,
            ..Stage::default()
        };
        let seen = one_stage(18.0, &service, stage);
        let exact = many::k_mg1(18.0, &moments(&service), 3).unwrap();
        agrees(&service.to_string(), &seen.delay, exact.time);
        assert!((seen.present / exact.present - 1.0).abs() < 0.03);
    }
}

#[test]
fn a_shared_processor_and_what_each_request_sees_of_it() {
    let system = host(Stage {
        discipline: Discipline::ProcessorSharing,
        ..Stage::default()
    });
    for service in [exponential(0.1), constant(0.1), log_normal(0.1, 3.0)] {
        let seen = simulate(&[host_only(6.0, &service)], &system, &run(false)).unwrap();
        let exact = sharing::mg1_ps(6.0, 0.1).unwrap();
        agrees(&service.to_string(), &seen.delay, exact.time);
    }
    // Two constants: each class is a service time, so its mean is the conditional one.
    let two = [
        host_only(8.0, &constant(0.02)),
        host_only(2.0, &constant(0.2)),
    ];
    let seen = simulate(&two, &system, &run(false)).unwrap();
    for (seen, service) in seen.classes.iter().zip([0.02, 0.2]) {
        let exact = sharing::conditional_time(10.0, 0.056, service).unwrap();
        agrees("conditional time", &seen.unwrap(), exact);
    }
}

#[test]
fn classes_that_share_a_queue() {
    let services = [exponential(0.01), erlang(2, 0.03), log_normal(0.06, 0.5)];
    let rates = [20.0, 6.0, 2.0];
    let all: Vec<Class> = services
        .iter()
        .zip(rates)
        .map(|(service, rate)| host_only(rate, service))
        .collect();
    let seen = simulate(&all, &System::default(), &run(false)).unwrap();
    let each: Vec<classes::Class> = services
        .iter()
        .zip(rates)
        .map(|(service, arrival_rate)| classes::Class {
            arrival_rate,
            service: moments(service),
        })
        .collect();
    let exact = classes::shared(&each).unwrap();
    agrees("together", &seen.delay, exact.together.time);
    for (seen, exact) in seen.classes.iter().zip(&exact.classes) {
        agrees("a class", &seen.unwrap(), exact.time);
    }
}

#[test]
fn stages_in_a_row_behind_an_exponential_one() {
    for second in [exponential(0.12), constant(0.1), log_normal(0.1, 0.8)] {
        let first = exponential(0.1);
        let both = [two_stages(6.0, &first, &second)];
        let seen = simulate(&both, &System::default(), &run(true)).unwrap();
        let exact = tandem::tandem(
            6.0,
            &moments(&first),
            true,
            &moments(&second),
            tandem::Between::Qna,
        )
        .unwrap();
        assert!(exact.exact);
        agrees(&second.to_string(), &seen.delay, exact.time);
        let wait = exact.first.wait + exact.second.wait;
        agrees(&second.to_string(), &seen.wait, wait);
    }
}

/// QNA is documented as good to a tenth of the time, and to be better than taking the stream
/// between the stages for Poisson.
#[test]
fn stages_in_a_row_behind_any_other_one() {
    for (first, second) in [
        (constant(0.1), exponential(0.1)),
        (erlang(4, 0.1), log_normal(0.1, 0.5)),
        (log_normal(0.1, 2.0), exponential(0.1)),
    ] {
        let both = [two_stages(7.0, &first, &second)];
        let seen = simulate(&both, &System::default(), &run(true)).unwrap();
        let by = |between| {
            tandem::tandem(7.0, &moments(&first), false, &moments(&second), between).unwrap()
        };
        let (qna, poisson) = (by(tandem::Between::Qna), by(tandem::Between::Poisson));
        let what = format!("{first}, then {second}");
        close(&what, &seen.delay, qna.time, 0.1);
        let misses = |time: f64| (time - seen.delay.mean).abs();
        assert!(misses(qna.time) < misses(poisson.time), "{what}");
    }
}

#[test]
fn the_two_systems_together() {
    let small = Class::new(
        "class",
        30.0,
        [0.004, 0.004, 0.001, 0.001, 0.003].map(exponential),
    );
    let large = Class::new(
        "class",
        3.0,
        [0.01, 0.1, 0.005, 0.002, 0.08].map(exponential),
    );
    let both = [small, large];
    let system = System::default();
    let alone = predict(&both, &system, false).unwrap();
    let seen = simulate(&both, &system, &run(false)).unwrap();
    agrees("the host alone", &seen.delay, alone.delay);
    assert!((seen.host_utilisation - alone.host_utilisation).abs() < 0.01);
    for offloaded in [[true, true], [false, true], [true, false]] {
        let model = predict_placed(&both, &system, &offloaded).unwrap();
        let seen = simulate_placed(&both, &system, &offloaded, &run(true)).unwrap();
        let what = format!("offloaded {offloaded:?}");
        close(&what, &seen.delay, model.delay, 0.1);
        for (seen, model) in seen.classes.iter().zip(&model.classes) {
            close(&what, &seen.unwrap(), model.delay, 0.12);
        }
        assert!((seen.host_utilisation - model.host_utilisation).abs() < 0.01);
        let engine = (seen.engine_utilisation, model.engine_utilisation);
        let (Some(seen_engine), Some(model_engine)) = engine else {
            panic!("no engine")
        };
        assert!((seen_engine - model_engine).abs() < 0.01);
        // The number waiting, by Little's law from what was simulated.
        assert!((33.0 * seen.wait.mean / model.waiting - 1.0).abs() < 0.15);
    }
}

/// Saturation is where a stage with bounded room, flooded, stops carrying more.
#[test]
fn a_flooded_system_carries_what_saturates_it() {
    let one = Class::new(
        "class",
        400.0,
        [0.002, 0.008, 0.001, 0.001, 0.004].map(exponential),
    );
    let bounded = Stage {
        room: Some(60),
        ..Stage::default()
    };
    let system = System {
        host: bounded,
        engine: bounded,
        shared: false,
    };
    for engine in [false, true] {
        let seen = simulate(std::slice::from_ref(&one), &system, &run(engine)).unwrap();
        let (limit, _) = saturation(std::slice::from_ref(&one), &system, engine).unwrap();
        let carried = 400.0 * (1.0 - seen.blocking.mean);
        assert!(
            (carried / limit - 1.0).abs() < 0.02,
            "engine {engine}: carries {carried}, saturates at {limit}"
        );
    }
}
