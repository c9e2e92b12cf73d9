//! The model of an experiment: fitted to what it generates, it is found again; where it is not what
//! generates, that is said.

use super::fake::{Fake, Fixed, header, rules, scratch};
use lab::experiment::analysis::analyse;
use lab::experiment::bench::{At, Sample};
use lab::experiment::declaration::{Axis, Experiment, Measure, Model};
use lab::experiment::fitted::{Fit, Seen, curves};
use lab::experiment::{Directory, Runner, report};
use std::sync::atomic::AtomicBool;

/// What the kernel's figures are made of.
const TRUTH: Fit = Fit {
    background: 0.02,
    service: 50e-6,
    alone: 80e-6,
    second: 4e-9,
};

/// An axis of load, in hundreds a second, of which the model sees every second level.
pub fn experiment() -> Experiment {
    Experiment {
        axes: vec![Axis::of_numbers(
            "size",
            "100/s",
            &[20.0, 50.0, 80.0, 110.0, 140.0, 170.0],
        )],
        measures: vec![
            Measure::new("time", "ms"),
            Measure::new("rate", "1/s"),
            Measure::new("busy", "%"),
        ],
        pictures: Vec::new(),
        findings: Vec::new(),
        claims: Vec::new(),
        left_out: Vec::new(),
        model: Some(Model {
            axis: "size".into(),
            rate: "rate".into(),
            utilisation: "busy".into(),
            delay: "time".into(),
            shared_cores: true,
            held: ["50", "110", "170"].map(String::from).to_vec(),
        }),
        ..super::fake::experiment()
    }
}

/// By the truth on the kernel; on the engine a request gets dearer the more there are, and waits for
/// nobody.
fn answer(at: &At<'_>, _: u32) -> anyhow::Result<Sample> {
    let rate = at.number("size")? * 100.0;
    let (busy, delay) = if at.subject == "kernel" {
        (TRUTH.busy(rate), TRUTH.delay(rate).unwrap_or(f64::NAN))
    } else {
        (0.05 + (rate / 20_000.0).powi(2), 200e-6)
    };
    Ok(Sample::default()
        .with("rate", rate)
        .with("busy", busy * 100.0)
        .with("time", delay * 1e3))
}

fn measured() -> (super::fake::Scratch, Directory) {
    let scratch = scratch();
    let mut header = header(rules());
    header.experiment = experiment();
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    Runner {
        directory: &mut directory,
        surroundings: &mut Fixed::default(),
        stop: &AtomicBool::new(false),
    }
    .run(&mut Fake::new(answer), |_| ())
    .unwrap();
    (scratch, directory)
}

#[test]
fn a_model_finds_what_the_figures_are_made_of() {
    let (_scratch, directory) = measured();
    let curves = curves(&directory, &analyse(&directory));
    assert_eq!(curves.len(), 2);
    let kernel = &curves[0];
    assert_eq!((kernel.name().as_str(), kernel.points.len()), ("kernel", 6));
    for (found, truth) in [
        (kernel.fit.background, TRUTH.background),
        (kernel.fit.service, TRUTH.service),
        (kernel.fit.alone, TRUTH.alone),
        (kernel.fit.second, TRUTH.second),
    ] {
        assert!((found / truth - 1.0).abs() < 1e-6, "{found} {truth}");
    }
    assert!((kernel.fit.saturation() - 19_600.0).abs() < 1e-3);
    assert_eq!(kernel.held(), [(3, 3), (3, 3)]);
    assert_eq!(kernel.lacks(), Vec::<String>::new());
    let test = kernel.test.unwrap();
    // Rounding alone makes a step of six.
    assert!(test.distance < 0.17 && test.exact == Some(1.0), "{test:?}");
    // Six delays, and the same half as long again: nobody would notice.
    assert_eq!(kernel.has_power(), Some(false));
}

#[test]
fn where_a_model_misses_it_is_said_what_it_lacks() {
    let (scratch, directory) = measured();
    let curves = curves(&directory, &analyse(&directory));
    let engine = &curves[1];
    // Between and beyond three points of a square a line is off.
    assert_eq!(engine.has_power(), Some(true), "six times the same");
    let [busy, delay] = engine.held();
    assert!(busy.0 < 3 && busy.1 == 3, "{busy:?}");
    assert_eq!(delay, (3, 3), "nobody waits, and the model finds that");
    assert!(engine.fit.second < 1e-12, "{:?}", engine.fit);
    let lacks = engine.lacks().join("\n");
    let dearer = "has one cost at every load and knows nothing that gets dearer";
    assert!(lacks.contains(dearer), "{lacks}");
    report::write(&directory).unwrap();
    let text = std::fs::read_to_string(scratch.path().join("report.md")).unwrap();
    for part in [
        "## Model and measurement",
        "within 10 %, or within the run\'s interval, at",
        "and the time of a request within 15 % at 6 of 6",
        "half as long again for 1 of 2 curves",
        "| kernel (not seen) | 5000 |",
        "| kernel | 50.0 | 2.0 | 80.0 | 63.2 | 19600 |",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    for (file, words) in [
        ("model-1-utilisation.svg", ["kernel, model", "busy (%)"]),
        ("model-1-delay.svg", ["engine, measured", "requests (1/s)"]),
    ] {
        let plot = std::fs::read_to_string(scratch.path().join(file)).unwrap();
        for word in words {
            assert!(plot.contains(word), "{word} in {file}");
        }
    }
    let json = std::fs::read_to_string(scratch.path().join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["model"][0]["points"][1]["held"], true);
}

#[test]
fn too_little_is_no_fit() {
    let seen = |rate: f64| Seen {
        rate,
        busy: TRUTH.busy(rate),
        delay: TRUTH.alone,
    };
    assert_eq!(Fit::of(&[seen(1e3), seen(2e3)]), None);
    assert_eq!(Fit::of(&[seen(1e3); 3]), None);
    assert!(Fit::of(&[seen(1e3), seen(2e3), seen(3e3)]).is_some());
    assert_eq!(TRUTH.delay(30_000.0), None, "saturated");
}
