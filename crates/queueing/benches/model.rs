//! How long the model's questions take: `cargo bench -p outboard-queueing`.

use queueing::Distribution;
use queueing::offload::{Class, System, predict};
use queueing::simulate::{Run, simulate};
use std::hint::black_box;
use std::time::Instant;

fn per_call(name: &str, calls: u32, mut call: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(calls);
    println!("{name}: {each:.1} ns a call");
}

fn classes() -> Vec<Class> {
    let exponential = |mean: f64| Distribution::exponential(1.0 / mean).unwrap();
    let sizes = [1e3, 1e4, 1e5, 1e6, 1e7];
    sizes
        .iter()
        .map(|size| Class {
            name: format!("{size}"),
            arrival_rate: 2e5 / size,
            application: exponential(2e-4),
            protocol: Distribution::log_normal_from_mean_and_scv(size * 2e-9, 2.0).unwrap(),
            overhead: exponential(5e-5),
            control: exponential(1e-5),
            engine: Distribution::bounded_pareto(size * 1e-9, size * 1e-7, 1.1).unwrap(),
        })
        .collect()
}

fn main() {
    let (classes, system) = (classes(), System::default());
    per_call("two-system prediction, five classes", 20_000, || {
        black_box(predict(black_box(&classes), &system, true).unwrap());
    });
    let exponential = Distribution::exponential(10.0).unwrap();
    let nothing = Distribution::deterministic(0.0).unwrap();
    let one = [Class {
        name: "one".into(),
        arrival_rate: 8.0,
        application: exponential.clone(),
        protocol: nothing.clone(),
        overhead: nothing.clone(),
        control: nothing,
        engine: exponential,
    }];
    for engine in [false, true] {
        let run = Run {
            requests: 10_000_000,
            engine,
            ..Run::default()
        };
        let start = Instant::now();
        black_box(simulate(&one, &system, &run).unwrap());
        println!(
            "ten million requests, engine {engine}: {:.2} s",
            start.elapsed().as_secs_f64()
        );
    }
}
