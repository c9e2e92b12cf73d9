//! The model of an experiment: fitted to what it generates, it is found again; where it is not what
//! generates, that is said.

use super::fake::{Fake, Fixed, header, rules, scratch};
use lab::experiment::analysis::analyse;
use lab::experiment::bench::{At, Sample};
use lab::experiment::declaration::{Axis, Experiment, Measure, Model, Second, There};
use lab::experiment::fitted::{Fit, Seen, Stages, curves};
use lab::experiment::group::Group;
use lab::experiment::lacks;
use lab::experiment::left_out::LeftOut;
use lab::experiment::{Directory, Runner, report};
use queueing::fit::two_stages::{Stage, TwoStages};
use std::path::Path;
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
            second: None,
            there: Vec::new(),
            without: Vec::new(),
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
    measured_of(experiment(), answer)
}

fn measured_of(
    experiment: Experiment,
    answer: fn(&At<'_>, u32) -> anyhow::Result<Sample>,
) -> (super::fake::Scratch, Directory) {
    let scratch = scratch();
    let mut header = header(rules());
    header.experiment = experiment;
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
    let Stages::One(fit) = kernel.fit else {
        panic!("{:?}", kernel.fit);
    };
    for (found, truth) in [
        (fit.background, TRUTH.background),
        (fit.service, TRUTH.service),
        (fit.alone, TRUTH.alone),
        (fit.second, TRUTH.second),
    ] {
        assert!((found / truth - 1.0).abs() < 1e-6, "{found} {truth}");
    }
    assert!((kernel.fit.saturation() - 19_600.0).abs() < 1e-3);
    assert_eq!(kernel.held(), [(3, 3), (3, 3)]);
    assert_eq!(lacks::of(kernel), Vec::<String>::new());
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
    assert!(
        matches!(engine.fit, Stages::One(fit) if fit.second < 1e-12),
        "{:?}",
        engine.fit
    );
    let lacks = lacks::of(engine).join("\n");
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

/// What a model is to say stands with what else is to hold, in its report and on the page of its group.
#[test]
fn what_a_model_says_is_among_what_was_to_hold() {
    let scratch = scratch();
    let mut header = header(rules());
    header.experiment = experiment();
    let model = header.experiment.model.as_mut().unwrap();
    model.there = vec![There {
        subject: "engine".into(),
        at: Vec::new(),
        distance: 0.1818,
        p: 0.9934,
        saturation: Some(350.0),
    }];
    let mut directory = Directory::create(&scratch.path().join("fake"), header).unwrap();
    crate::run(
        &mut directory,
        &mut Fake::new(answer),
        &mut Fixed::default(),
    );
    report::write(&directory).unwrap();
    let group = Group {
        name: "all".into(),
        experiments: vec!["fake".into()],
        ..Group::default()
    };
    let page = group.write(scratch.path()).unwrap();
    let text = |path: &Path| std::fs::read_to_string(path.with_extension("md")).unwrap();
    let (page, report) = (text(&page), text(&scratch.path().join("fake/report")));
    let says = "The model says what happens at loads that it has not seen (goal, of this project)";
    let [busy, delay] =
        [10, 15].map(|within| format!("all within {within} %, or the run's interval"));
    for (text, name) in [(&page, "fake | "), (&report, "")] {
        assert!(text.contains("## What was to hold"), "{text}");
        for row in [
            format!("| {says} | {name} | kernel, busy | 3 of 3 | {busy} | holds |"),
            format!("| {says} | {name} | engine, time | 3 of 3 | {delay} | holds |"),
        ] {
            assert!(text.contains(&row), "{row} in\n{text}");
        }
        let row = format!("| {says} | {name} | engine, busy | ");
        let (_, rest) = text.split_once(&row).expect(&row);
        let line = rest.lines().next().unwrap();
        assert!(
            line.ends_with(&format!("of 3 | {busy} | does not hold |")),
            "{line}"
        );
        assert!(
            text.contains("the time of a request within 15 % at 6 of 6"),
            "{text}"
        );
    }
    // The source's own test is beside ours, where it has one.
    let head = "| p of delays half as long again | there: saturated at, 1/s | there: K–S distance | there: its p |";
    assert!(report.contains(head), "{report}");
    assert!(report.contains(" | 350 | 0.1818 | 0.9934 |"), "{report}");
    assert!(report.contains(" | – | – | – |"), "{report}");
}

#[test]
fn too_little_is_no_fit() {
    let seen = |rate: f64| Seen {
        rate,
        busy: TRUTH.busy(rate),
        engine: None,
        delay: TRUTH.alone,
    };
    assert_eq!(Fit::of(&[seen(1e3), seen(2e3)]), None);
    assert_eq!(Fit::of(&[seen(1e3); 3]), None);
    assert!(Fit::of(&[seen(1e3), seen(2e3), seen(3e3)]).is_some());
    assert_eq!(TRUTH.delay(30_000.0), None, "saturated");
}

/// What the figures of an engine with a core of its own are made of.
const BOTH: TwoStages = TwoStages {
    first: Stage {
        background: 0.01,
        service: 45e-6,
        scv: 1.2,
    },
    second: Stage {
        background: 0.03,
        service: 25e-6,
        scv: 3.0,
    },
    alone: 150e-6,
};

/// A run in which the engine is a stage of its own, and the machine has not all that it should.
fn two_stages(
    answer: fn(&At<'_>, u32) -> anyhow::Result<Sample>,
) -> (super::fake::Scratch, Directory) {
    let one = experiment();
    let mut measures = one.measures.clone();
    measures.push(Measure::new("engine", "%"));
    let model = one.model.clone().map(|model| Model {
        second: Some(Second {
            subjects: vec!["engine".into()],
            utilisation: "engine".into(),
            shares: Some("the client".into()),
        }),
        ..model
    });
    let two = Experiment {
        measures,
        model,
        left_out: vec![LeftOut::of_machine("a third core", "it has two".into())],
        ..one
    };
    assert_eq!(two.mistakes(), Vec::<String>::new());
    measured_of(two, answer)
}

/// Rounds are apart by up to 2 %, the same way at every load: medians are the truth.
fn by_two_stages(at: &At<'_>, times: u32) -> anyhow::Result<Sample> {
    let rate = at.number("size")? * 100.0;
    let off = [1.0, 0.98, 1.02, 0.99, 1.01][times as usize % 5];
    let sample = Sample::default().with("rate", rate);
    if at.subject == "kernel" {
        let delay = TRUTH.delay(rate).unwrap_or(f64::NAN);
        return Ok(sample
            .with("busy", TRUTH.busy(rate) * 100.0)
            .with("time", delay * 1e3));
    }
    Ok(sample
        .with("busy", BOTH.first.busy(rate) * 100.0)
        .with("engine", BOTH.second.busy(rate) * 100.0)
        .with("time", BOTH.time(rate).unwrap_or(f64::NAN) * off * 1e3))
}

#[test]
fn two_stages_in_a_row_are_found_and_say_what_they_have_not_seen() {
    let (scratch, directory) = two_stages(by_two_stages);
    let curves = curves(&directory, &analyse(&directory));
    assert_eq!(curves.len(), 2);
    assert!(matches!(curves[0].fit, Stages::One(_)), "{:?}", curves[0]);
    let engine = &curves[1];
    let Stages::Two(fit) = engine.fit else {
        panic!("{:?}", engine.fit);
    };
    for (found, truth) in [(fit.first, BOTH.first), (fit.second, BOTH.second)] {
        assert!(
            (found.background - truth.background).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (found.service / truth.service - 1.0).abs() < 1e-6,
            "{found:?}"
        );
    }
    // Rounds that differ by 2 % leave the parameters of waits less sure than their means.
    for (found, truth, within) in [
        (fit.alone, BOTH.alone, 0.03),
        (fit.first.scv, BOTH.first.scv, 0.15),
        (fit.second.scv, BOTH.second.scv, 0.35),
    ] {
        assert!(
            (found / truth - 1.0).abs() < within,
            "{found} {truth} {fit:?}"
        );
    }
    // Three loads, of both stages.
    assert_eq!(engine.held(), [(6, 6), (3, 3)]);
    for point in engine.points.iter().filter(|point| point.held) {
        let (error, low, high) = point.delay.error.unwrap();
        assert!(low <= error && error <= high, "{point:?}");
        assert!(low < 0.0 && high > 0.0 && high - low < 0.1, "{point:?}");
        let engine = point.engine.as_ref().unwrap();
        assert!(engine.error.unwrap().0.abs() < 1e-6, "{engine:?}");
    }
    assert_eq!(lacks::of(engine), Vec::<String>::new());
    report::write(&directory).unwrap();
    let text = std::fs::read_to_string(scratch.path().join("report.md")).unwrap();
    for part in [
        "at 9 of 9, and the time of a request within 15 % at 6 of 6",
        "For 1 of 2 curves the engine is a stage of its own",
        "| engine | 45.0 | 1.",
        "| engine (not seen) | 11000 | 30.500 (30.500 to 30.500) | 30.500 |",
        "This machine has not a third core: it has two.",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let first = text.find("This machine has not").unwrap();
    assert!(first < text.find("Is it faster?").unwrap(), "{text}");
    assert!(!text.contains("Left out"), "{text}");
    let plot = std::fs::read_to_string(scratch.path().join("model-1-utilisation.svg")).unwrap();
    for line in ["engine, server, model", "engine, engine, measured"] {
        assert!(plot.contains(line), "{line}");
    }
    let json = std::fs::read_to_string(scratch.path().join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let service = json["model"][1]["fit"]["second"]["service"]
        .as_f64()
        .unwrap();
    assert!((service - 25e-6).abs() < 1e-10);
}

/// Requests that wait for a client beyond what both stages know, and an engine that has less to do for each the more
/// there are.
fn by_more_than_two_stages(at: &At<'_>, times: u32) -> anyhow::Result<Sample> {
    let rate = at.number("size")? * 100.0;
    let sample = by_two_stages(at, times)?;
    if at.subject == "kernel" {
        return Ok(sample);
    }
    let late = if rate > 15_000.0 { 3.0 } else { 1.0 };
    let delay = BOTH.time(rate).unwrap_or(f64::NAN) * late;
    Ok(sample
        .with("engine", 40.0 * (1.0 - (-rate / 5_000.0).exp()))
        .with("time", delay * 1e3))
}

#[test]
fn where_two_stages_are_not_all_it_is_said_what_is_missing() {
    let (_scratch, directory) = two_stages(by_more_than_two_stages);
    let curves = curves(&directory, &analyse(&directory));
    let engine = &curves[1];
    assert!(engine.is_of_two());
    let [busy, delay] = engine.held();
    assert!(busy.0 < 6 && busy.1 == 6, "{busy:?}");
    assert!(delay.0 < 3 && delay.1 == 3, "{delay:?}");
    let lacks = lacks::of(engine).join("\n");
    for part in [
        "µs of the engine at the lightest loads",
        "and knows neither batches nor the waking that they save",
        "at 17000 a second requests took",
        "Nor does it know of the client, on the engine's core.",
    ] {
        assert!(lacks.contains(part), "{part} in\n{lacks}");
    }
}

/// Of one whose work is in no busy share there is no curve, and none is missed.
#[test]
fn who_is_not_to_be_fitted_has_no_model() {
    let mut of_one = experiment();
    of_one.model.as_mut().unwrap().without = vec!["kernel".into()];
    let (scratch, directory) = measured_of(of_one, answer);
    let found = curves(&directory, &analyse(&directory));
    let subjects: Vec<&str> = found.iter().map(|curve| curve.subject.as_str()).collect();
    assert_eq!(subjects, ["engine"]);
    report::write(&directory).unwrap();
    let text = std::fs::read_to_string(scratch.path().join("report.md")).unwrap();
    assert!(text.contains("the model says the busy share"), "{text}");
    assert!(!text.contains("more there is no model"), "{text}");
}
