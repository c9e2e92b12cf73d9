//! The shape of experiments, with a bench that answers from a table and a clock that goes on by
//! itself: the answers are known.

#[path = "experiment/elsewhere.rs"]
mod elsewhere;
#[path = "experiment/fake.rs"]
mod fake;
#[path = "experiment/group.rs"]
mod group;
#[path = "experiment/model.rs"]
mod model;
#[path = "experiment/of_source.rs"]
mod of_source;
#[path = "experiment/prepared.rs"]
mod prepared;
#[path = "experiment/resumed.rs"]
mod resumed;
#[path = "experiment/settled.rs"]
mod settled;
#[path = "experiment/used.rs"]
mod used;

use fake::{Fake, Fixed, experiment, header, rules, scratch};
use lab::experiment::analysis::{Outcome, analyse, interval};
use lab::experiment::bench::{Client, Sample};
use lab::experiment::declaration::{Axis, Bound, Claim};
use lab::experiment::left_out::LeftOut;
use lab::experiment::surroundings::Conditions;
use lab::experiment::{Directory, End, Rules, Runner, comparison, report};
use lab::sampler::cores::Times;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn run(directory: &mut Directory, bench: &mut Fake, clock: &mut Fixed) -> End {
    let stop = AtomicBool::new(false);
    let mut runner = Runner {
        directory,
        surroundings: clock,
        stop: &stop,
    };
    runner.run(bench, |_| ()).unwrap()
}

/// 100 a second on the kernel for every size, 150 on the engine.
fn steady() -> Fake {
    Fake::new(|at, _| {
        let rate = if at.subject == "engine" { 150.0 } else { 100.0 };
        Ok(Sample::default()
            .with("rate", rate)
            .with("time", 1.0 / rate))
    })
}

#[test]
fn what_is_known_comes_out_and_steady_rounds_end_early() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let (mut bench, mut clock) = (steady(), Fixed::default());
    assert_eq!(run(&mut directory, &mut bench, &mut clock), End::Narrow);
    // Three sizes, two subjects, and no more than the least number of rounds.
    assert_eq!(bench.asked.len(), 6 * 5);
    let analysis = analyse(&directory);
    assert_eq!(analysis.warnings, Vec::<String>::new());
    assert_eq!(analysis.found.len(), 6);
    for found in &analysis.found {
        let expected = [100.0, 150.0][found.cell.subject];
        let rate = found.values["rate"];
        assert_eq!(
            (rate.median, rate.low, rate.high),
            (expected, expected, expected)
        );
    }
    // "faster" holds at every size; "twice as fast" at none.
    let outcomes = |claim| -> Vec<Outcome> {
        let of = analysis.verdicts.iter().filter(|v| v.claim == claim);
        of.map(|verdict| verdict.outcome).collect()
    };
    assert_eq!(outcomes(0), vec![Outcome::Holds; 3]);
    assert_eq!(outcomes(1), vec![Outcome::Fails; 1], "at one size only");
}

#[test]
fn the_report_says_what_the_rounds_say() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, round| {
        let base = if at.subject == "engine" {
            1_500.0
        } else {
            1_000.0
        };
        let rate = base + at.number("size").unwrap() + f64::from(round);
        Ok(Sample::default().with("rate", rate))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let (_, file) = report::write(&directory).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    // Rounds 1 to 5 of size 4: from 1,005 to 1,009, with the median 1,007.
    assert!(text.contains("1,007 (1,005 to 1,009)"), "{text}");
    assert!(
        text.contains("“The engine is faster” (000) holds."),
        "{text}"
    );
    assert!(
        text.contains("| 4 | 270 | 1,007 (1,005 to 1,009) | 1,507 (1,505 to 1,509) |"),
        "the source's beside ours: {text}"
    );
    let page = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(page.contains("1,007 (1,005 to 1,009)") && page.contains("<svg"));
    let plot = std::fs::read_to_string(scratch.path().join("plot-1.svg")).unwrap();
    for name in [
        "kernel",
        "engine",
        "nginx on a testbed (000)",
        "size (B)",
        "rate (1/s)",
    ] {
        assert!(plot.contains(name), "{name} in {plot}");
    }
    // Readable in black and white: nothing but greys.
    for colour in plot.split("=\"#").skip(1).map(|rest| &rest[..6]) {
        assert!(
            colour[..2] == colour[2..4] && colour[..2] == colour[4..],
            "{colour}"
        );
    }
    let lines = std::fs::read_to_string(scratch.path().join("results.csv")).unwrap();
    assert_eq!(lines.lines().count(), 1 + directory.records().len());
    let settings = std::fs::read_to_string(scratch.path().join("settings.csv")).unwrap();
    let (head, version) = settings.split_once('\n').unwrap();
    assert_eq!(head, "setting,value");
    assert!(version.starts_with(&format!("outboard,{}\n", directory.header().version)));
    assert_eq!(settings.matches("\noutboard,").count(), 1);
    let json = std::fs::read_to_string(scratch.path().join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["records"].as_array().unwrap().len(),
        directory.records().len()
    );
    assert_eq!(json["analysis"]["found"][0]["values"]["rate"]["rounds"], 5);
}

#[test]
fn what_is_claimed_of_many_places_in_the_same_words_is_told_once() {
    let scratch = scratch();
    let mut header = header(rules());
    let experiment = &mut header.experiment;
    experiment.subjects.push("engine, large".into());
    let first = experiment.claims[0].clone();
    let of = |subject: &str, to: &str| Claim {
        subject: subject.into(),
        to: to.into(),
        ..first.clone()
    };
    experiment.claims = vec![of("engine", "kernel"), of("engine, large", "engine")];
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    // At size 4 alone the large one is no faster than the other.
    let mut bench = Fake::new(|at, _| {
        let rate = match (at.subject, at.number("size").unwrap()) {
            ("kernel", _) => 1_000.0,
            ("engine, large", 4.0) => 1_499.0,
            ("engine", _) => 1_500.0,
            _ => 2_000.0,
        };
        Ok(Sample::default().with("rate", rate))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let (_, file) = report::write(&directory).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let told = "“The engine is faster” (000) holds at 5 of 6 points, does not at 1 (4 B: engine, large / engine), \
                and is undecided at 0.";
    assert!(text.contains(told), "{text}");
    // A column for each pair that is claimed something of.
    let head = "| kernel | engine | engine, large | engine / kernel | engine, large / engine |";
    assert!(text.contains(head), "{text}");
}

#[test]
fn a_claim_about_one_subject_is_one_about_its_figure() {
    let scratch = scratch();
    let mut header = header(rules());
    let experiment = &mut header.experiment;
    experiment.subjects = vec!["engine".into()];
    let claim = |says: &str, most| Claim {
        says: says.into(),
        subject: "engine".into(),
        to: "".into(),
        at: Vec::new(),
        ratio: Bound::AtMost(most),
        ..experiment.claims[0].clone()
    };
    experiment.claims = vec![claim("It is slow", 1_502.0), claim("It crawls", 100.0)];
    assert_eq!(experiment.mistakes(), Vec::<String>::new());
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let mut bench =
        Fake::new(|at, _| Ok(Sample::default().with("rate", 1_500.0 + at.number("size").unwrap())));
    run(&mut directory, &mut bench, &mut Fixed::default());
    let (analysis, file) = report::write(&directory).unwrap();
    let figures: Vec<f64> = analysis.verdicts.iter().map(|v| v.ratio.median).collect();
    assert_eq!(figures[..3], [1_501.0, 1_502.0, 1_504.0]);
    let text = std::fs::read_to_string(file).unwrap();
    let told = "“It is slow” (000) holds at 2 of 3 points, does not at 1 (4 B: engine), and is undecided at 0. \
                “It crawls” (000) does not hold.";
    assert!(text.contains(told), "{text}");
    assert!(
        text.contains("| engine, rate | 1,504 (1,504 to 1,504) | ≤ 1502 1/s | does not hold |"),
        "{text}"
    );
    // There is nothing that it would be a ratio of.
    assert!(!text.contains("engine /"), "{text}");
}

/// The texts of a plot that stand in the middle below a place: their middles, heights and words.
fn names_below(plot: &str) -> Vec<(f64, f64, String)> {
    let number = |text: &str, name: &str| -> f64 {
        let value = text.split(&format!(" {name}=\"")).nth(1).expect(name);
        value.split('"').next().unwrap().parse().expect("a number")
    };
    let texts = plot.split("<text").skip(1);
    let texts =
        texts.filter(|text| text.contains("text-anchor=\"middle\"") && !text.contains("rotate"));
    let of = |text: &str| {
        let words = text.split('>').nth(1).unwrap().split('<').next().unwrap();
        (
            number(text, "x"),
            number(text, "y"),
            words.trim().to_owned(),
        )
    };
    let is_said = |(_, _, words): &(f64, f64, String)| !words.is_empty();
    texts.map(of).filter(is_said).collect()
}

#[test]
fn long_names_at_an_axis_do_not_touch_each_other() {
    let scratch = scratch();
    let mut header = header(rules());
    let names = lab::installed::CASES.iter().map(|case| case.name);
    let names: Vec<&str> = names.collect();
    header.experiment.axes.push(Axis::of_words("case", &names));
    let mut of_cases = header.experiment.pictures[0].clone().at("size", "4");
    of_cases.x = "case".into();
    of_cases.log_x = false;
    header.experiment.pictures = vec![of_cases];
    assert_eq!(header.experiment.mistakes(), Vec::<String>::new());
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    run(&mut directory, &mut steady(), &mut Fixed::default());
    report::write(&directory).unwrap();
    let plot = std::fs::read_to_string(scratch.path().join("plot-1.svg")).unwrap();
    let below = names_below(&plot);
    for name in names {
        assert_eq!(
            below.iter().filter(|(_, _, word)| word == name).count(),
            1,
            "{name}"
        );
    }
    for (index, (x, y, word)) in below.iter().enumerate() {
        for (other_x, other_y, other) in &below[index + 1..] {
            // Letters of 15 pixels are about 7 wide.
            let room = 3.5 * (word.chars().count() + other.chars().count()) as f64;
            let apart = (y - other_y).abs() >= 15.0 || (x - other_x).abs() >= room;
            assert!(apart, "{word:?} and {other:?}: {plot}");
        }
    }
}

#[test]
fn a_plot_of_one_level_of_an_axis_has_no_lines_of_the_others() {
    let scratch = scratch();
    let mut header = header(rules());
    header
        .experiment
        .axes
        .push(Axis::of_words("where", &["near", "far"]));
    let all = &header.experiment.pictures[0];
    let far = all.clone().at("where", "far");
    header.experiment.pictures.push(far);
    assert!(header.experiment.mistakes().is_empty());
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    run(&mut directory, &mut steady(), &mut Fixed::default());
    report::write(&directory).unwrap();
    let plot = |number| {
        let file = scratch.path().join(format!("plot-{number}.svg"));
        std::fs::read_to_string(file).unwrap()
    };
    for name in ["kernel, near", "kernel, far", "engine, near", "engine, far"] {
        assert!(plot(1).contains(name), "{name} in {}", plot(1));
    }
    let far = plot(2);
    assert!(far.contains("kernel") && !far.contains("kernel,"), "{far}");
    // What was measured near would be another line of the same name.
    let names = far.lines().filter(|line| line.trim() == "kernel");
    assert_eq!(names.count(), 1, "{far}");
}

#[test]
fn every_word_of_an_axis_stands_below_it_once() {
    let words = ["near", "far", "away", "beyond", "behind", "above", "below"];
    for count in 1..=words.len() {
        let scratch = scratch();
        let mut header = header(rules());
        let experiment = &mut header.experiment;
        experiment
            .axes
            .push(Axis::of_words("where", &words[..count]));
        let mut picture = experiment.pictures[0].clone();
        (picture.x, picture.log_x) = ("where".into(), false);
        experiment.pictures = vec![picture];
        assert_eq!(experiment.mistakes(), Vec::<String>::new());
        let mut directory = Directory::create(scratch.path(), header).unwrap();
        run(&mut directory, &mut steady(), &mut Fixed::default());
        report::write(&directory).unwrap();
        let plot = std::fs::read_to_string(scratch.path().join("plot-1.svg")).unwrap();
        for word in &words[..count] {
            let times = plot.lines().filter(|line| line.trim() == *word).count();
            assert_eq!(times, 1, "{word} of {count} in {plot}");
        }
    }
}

#[test]
fn what_is_cut_short_keeps_what_it_has_and_goes_on() {
    let whole = scratch();
    let mut uncut = Directory::create(whole.path(), header(rules())).unwrap();
    run(&mut uncut, &mut steady(), &mut Fixed::default());

    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let stop = AtomicBool::new(false);
    let mut bench = steady();
    let mut runner = Runner {
        directory: &mut directory,
        surroundings: &mut Fixed::default(),
        stop: &stop,
    };
    let end = runner.run(&mut bench, |progress| {
        stop.store(progress.made == 7, Ordering::Relaxed);
    });
    assert_eq!(end.unwrap(), End::Interrupted);
    // It was told while the eighth was about to begin, which is the last.
    assert_eq!(directory.records().len(), 8);
    assert!(analyse(&directory).warnings[0].contains("interrupted"));
    report::write(&directory).unwrap();
    drop(directory);

    // A line that was being written when the machine went down.
    let rounds = scratch.path().join("rounds.jsonl");
    let mut text = std::fs::read_to_string(&rounds).unwrap();
    text.push_str("{\"measured\":{\"round\":2,\"ce");
    std::fs::write(&rounds, text).unwrap();

    let mut directory = Directory::resume(scratch.path()).unwrap();
    assert_eq!(
        run(&mut directory, &mut steady(), &mut Fixed::default()),
        End::Narrow
    );
    let order = |directory: &Directory| -> Vec<_> {
        let records = directory.records().iter();
        records.map(|r| (r.round, r.cell.clone())).collect()
    };
    assert_eq!(
        order(&directory),
        order(&uncut),
        "as if it had not been cut"
    );
    assert_eq!(analyse(&directory).warnings, Vec::<String>::new());
    drop(directory);
    let mut again = Directory::resume(scratch.path()).unwrap();
    let before = again.records().len();
    assert_eq!(
        run(&mut again, &mut steady(), &mut Fixed::default()),
        End::Narrow
    );
    assert_eq!(again.records().len(), before, "nothing was left to do");
}

#[test]
fn the_time_is_up_between_measurements() {
    let scratch = scratch();
    let limited = Rules {
        limit: Duration::from_secs(10),
        ..rules()
    };
    let mut directory = Directory::create(scratch.path(), header(limited)).unwrap();
    let end = run(&mut directory, &mut steady(), &mut Fixed::default());
    assert_eq!(end, End::Time);
    // The clock goes on by a second a measurement.
    assert_eq!(directory.records().len(), 10);
    assert!(analyse(&directory).warnings[0].contains("time was up"));
}

#[test]
fn rounds_that_disagree_are_repeated_and_said_to() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, round| {
        let rate = match (at.subject, round % 2) {
            ("engine", 0) => 300.0,
            _ => 100.0,
        };
        Ok(Sample::default().with("rate", rate))
    });
    assert_eq!(
        run(&mut directory, &mut bench, &mut Fixed::default()),
        End::Rounds
    );
    let rounds = |subject| {
        directory
            .records()
            .iter()
            .filter(move |r| r.cell.subject == subject)
    };
    // Only what is not settled is measured again.
    assert_eq!((rounds(0).count(), rounds(1).count()), (3 * 5, 3 * 8));
    let warnings = analyse(&directory).warnings.join("\n");
    assert!(
        warnings.contains("Rounds disagree by more than 25 % about rate in 3 of 6"),
        "{warnings}"
    );
}

#[test]
fn a_client_that_is_the_limit_is_on_top_of_the_report() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, _| {
        let client = Client {
            busy: Some(0.99),
            server_busy: Some(if at.subject == "engine" { 0.5 } else { 0.98 }),
            offered: None,
        };
        Ok(Sample::default().with("rate", 100.0).by(client))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let analysis = analyse(&directory);
    assert_eq!(analysis.limited, (15, 30));
    assert!(
        analysis.warnings[0].contains("limit in 15 of 30"),
        "{:?}",
        analysis.warnings
    );
    let (_, file) = report::write(&directory).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let top = text.lines().nth(2).unwrap();
    assert!(
        top.contains("Doubtful") && top.contains("The client was the limit"),
        "{top}"
    );
}

#[test]
fn a_machine_that_stood_still_is_on_top_of_the_report() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut clock = Fixed {
        conditions: Conditions {
            stolen: 0.2,
            niced: 0.1,
            stood_still: 0.9,
            ..Conditions::default()
        },
        ..Fixed::default()
    };
    run(&mut directory, &mut steady(), &mut clock);
    let warnings = analyse(&directory).warnings;
    assert!(warnings[0].contains("not ours in 30 of 30"), "{warnings:?}");
    assert!(
        warnings[0].contains("30 %") && warnings[0].contains("0.90 s"),
        "{warnings:?}"
    );
}

#[test]
fn what_fails_again_and_again_is_given_up_and_told() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, _| {
        anyhow::ensure!(at.subject == "kernel", "no engine today");
        Ok(Sample::default().with("rate", 100.0))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let failed = directory.records().iter().filter(|r| r.failed.is_some());
    assert_eq!(failed.count(), 3 * 3, "three times at each size");
    let told = directory.failed().unwrap();
    assert!(told.starts_with("9 of 24 measurements failed"), "{told}");
    let warnings = analyse(&directory).warnings.join("\n");
    assert!(
        warnings.contains("3 of 6 combinations have no value"),
        "{warnings}"
    );
    assert!(warnings.contains("no engine today"), "{warnings}");
    let (analysis, _) = report::write(&directory).unwrap();
    assert!(analysis.verdicts.is_empty());
}

/// A stream has no latency: that is no failure, and it is measured as long as the others are.
#[test]
fn what_has_not_the_first_measure_is_settled_by_the_first_that_it_has() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, _| {
        let measure = if at.word("size")? == "4" {
            "time"
        } else {
            "rate"
        };
        Ok(Sample::default().with(measure, 100.0))
    });
    let end = run(&mut directory, &mut bench, &mut Fixed::default());
    assert_eq!((end, directory.records().len()), (End::Narrow, 6 * 5));
    assert_eq!(directory.failed(), None);
    assert_eq!(analyse(&directory).warnings, Vec::<String>::new());
}

#[test]
fn a_run_is_compared_with_another() {
    let (one, two) = (scratch(), scratch());
    let mut first = Directory::create(one.path(), header(rules())).unwrap();
    run(&mut first, &mut steady(), &mut Fixed::default());
    let mut second = Directory::create(two.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, _| {
        let rate = if at.subject == "engine" { 300.0 } else { 100.0 };
        Ok(Sample::default().with("rate", rate))
    });
    run(&mut second, &mut bench, &mut Fixed::default());
    let text = comparison::compare(&first, &second).unwrap();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(
        line("1 B, engine").contains("2.00 (2.00 to 2.00)  differs"),
        "{text}"
    );
    assert!(
        line("1 B, kernel").ends_with("1.00 (1.00 to 1.00)"),
        "{text}"
    );

    let mut other = header(rules());
    other.experiment.name = "another".into();
    let three = scratch();
    let third = Directory::create(three.path(), other).unwrap();
    assert!(comparison::compare(&first, &third).is_err());
}

/// Runs of other levels: what is not in both is said, and what is in neither is no table.
#[test]
fn runs_of_other_levels_say_which_and_only_what_is_in_both_is_compared() {
    let made = |sizes: &[f64]| {
        let scratch = scratch();
        let mut header = header(rules());
        header.experiment.axes = vec![Axis::of_numbers("size", "B", sizes)];
        header.experiment.claims.clear();
        let mut directory = Directory::create(scratch.path(), header).unwrap();
        run(&mut directory, &mut steady(), &mut Fixed::default());
        (directory, scratch)
    };
    let ((one, _one), (other, _other), (none, _none)) =
        (made(&[1.0, 2.0]), made(&[2.0, 4.0]), made(&[8.0]));
    let text = comparison::compare(&one, &other).unwrap();
    assert!(
        text.contains("size: 1 B only in the first run; 4 B only in the second"),
        "{text}"
    );
    assert!(
        text.contains("2 B, kernel") && !text.contains("1 B, kernel"),
        "{text}"
    );
    let text = comparison::compare(&one, &none).unwrap();
    assert!(
        text.contains("size: 1 B, 2 B only in the first run; 8 B only in"),
        "{text}"
    );
    assert!(text.contains("nothing in common"), "{text}");
    assert!(!text.contains("second / first"), "an empty table: {text}");
    let same = scratch();
    let unmade = Directory::create(same.path(), one.header().clone()).unwrap();
    let text = comparison::compare(&one, &unmade).unwrap();
    assert!(
        text.contains("No combination has a value in both"),
        "{text}"
    );
}

#[test]
fn what_each_core_did_is_in_the_report() {
    let scratch = scratch();
    let mut header = header(rules());
    header.experiment.roles = "the server on core 0".into();
    header.experiment.left_out = vec![LeftOut {
        axis: "subject".into(),
        name: "a reference".into(),
        why: "it is not installed".into(),
    }];
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let times = |idle, softirq| Times {
        idle,
        softirq,
        user: 0.5,
        ..Times::default()
    };
    let mut clock = Fixed {
        conditions: Conditions {
            passed: 2.0,
            // The second is all but idle.
            cores: vec![(0, times(0.5, 1.0)), (3, times(1.99, 0.0))],
            ..Conditions::default()
        },
        ..Fixed::default()
    };
    run(&mut directory, &mut steady(), &mut clock);
    let (analysis, file) = report::write(&directory).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let (_, part) = text.split_once("## CPU by core, %").unwrap();
    assert!(part.contains("the server on core 0"), "{part}");
    let head = "|  | usr | sys | nice | idle | io | irq | softirq | steal | ± |";
    assert!(part.contains(head), "{part}");
    // Five rounds of two seconds: half of a core is known to √(0.25 · 0.004 / 10).
    let row = "| 1 B, kernel: core 0 | 25.0 | 0.0 | 0.0 | 25.0 | 0.0 | 0.0 | 50.0 | 0.0 | 1.0 |";
    assert!(part.contains(row), "{part}");
    assert!(!part.contains("core 3"), "{part}");
    assert!(
        text.contains("Left out: a reference: it is not installed."),
        "{text}"
    );
    let summary = report::summary(&directory, &analysis);
    assert!(summary.contains("LEFT OUT: a reference"), "{summary}");
}

#[test]
fn a_directory_has_one_run() {
    let scratch = scratch();
    Directory::create(scratch.path(), header(rules())).unwrap();
    assert!(Directory::create(scratch.path(), header(rules())).is_err());
    assert!(Directory::open(&scratch.path().join("none")).is_err());
}

#[test]
fn a_declaration_that_names_what_is_not_there_is_mistaken() {
    assert_eq!(experiment().mistakes(), Vec::<String>::new());
    let mut wrong = experiment();
    wrong.claims[0].subject = "nobody".into();
    wrong.pictures[0].y = "nothing".into();
    assert_eq!(wrong.mistakes().len(), 2, "{:?}", wrong.mistakes());
    let mut wrong = model::experiment();
    let model = wrong.model.as_mut().unwrap();
    model.delay = "patience".into();
    model.axis = "colour".into();
    assert_eq!(wrong.mistakes().len(), 2, "{:?}", wrong.mistakes());
}

/// Intervals of normally distributed rounds have the true median in them about as often as they say.
#[test]
fn an_interval_has_the_truth_in_it_as_often_as_it_says() {
    use rand::SeedableRng;
    use rand_distr::{Distribution, Normal};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(100.0, 10.0).unwrap();
    for (rounds, least, most) in [(3, 0.70, 0.80), (5, 0.91, 0.96), (9, 0.90, 0.98)] {
        let trials = 1_000;
        let hits = (0..trials).filter(|_| {
            let values: Vec<f64> = (0..rounds).map(|_| normal.sample(&mut random)).collect();
            let found = interval(&values).unwrap();
            found.low <= 100.0 && 100.0 <= found.high
        });
        let share = hits.count() as f64 / f64::from(trials);
        assert!((least..=most).contains(&share), "{rounds} rounds: {share}");
    }
}
