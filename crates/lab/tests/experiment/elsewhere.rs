//! Claims about two levels of an axis: what stands below the line is at another than what stands above.

use crate::fake::{Fake, Fixed, header, rules, scratch};
use crate::run;
use lab::experiment::Directory;
use lab::experiment::analysis::{Outcome, analyse};
use lab::experiment::below::Below;
use lab::experiment::bench::Sample;
use lab::experiment::declaration::{Bound, Claim, Experiment};
use lab::experiment::report;

/// That the kernel has four times as much at size 4 as at size 1.
fn claim(experiment: &Experiment, measure: &str) -> Claim {
    Claim {
        says: "What is four times as large has four times as much".into(),
        measure: measure.into(),
        subject: "kernel".into(),
        to: Below::from("kernel").at("size", "1"),
        at: vec![("size".into(), "4".into())],
        ratio: Bound::AtLeast(4.0),
        ..experiment.claims[0].clone()
    }
}

#[test]
fn levels_are_compared_round_by_round() {
    let scratch = scratch();
    let mut header = header(rules());
    let experiment = &mut header.experiment;
    experiment.claims = vec![claim(experiment, "rate")];
    assert_eq!(experiment.mistakes(), Vec::<String>::new());
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    // What drifts is the same for both.
    let mut bench = Fake::new(|at, round| {
        let rate = at.number("size")? * f64::from(round);
        Ok(Sample::default().with("rate", rate))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let (_, file) = report::write(&directory).unwrap();
    let verdicts = analyse(&directory).verdicts;
    assert_eq!(verdicts.len(), 1);
    let ratio = verdicts[0].ratio;
    assert_eq!((ratio.low, ratio.median, ratio.high), (4.0, 4.0, 4.0));
    assert_eq!(verdicts[0].outcome, Outcome::Holds);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("kernel / kernel, 1"), "{text}");
    // Tables have both at the same levels, and there nothing is claimed.
    assert!(
        text.contains("| kernel | engine | engine / kernel |"),
        "{text}"
    );
}

#[test]
fn both_levels_are_repeated_until_they_are_narrow() {
    let scratch = scratch();
    let mut header = header(rules());
    let experiment = &mut header.experiment;
    experiment.claims = vec![claim(experiment, "time")];
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let mut bench = Fake::new(|at, times| {
        let time = if times % 2 == 0 { 3.0 } else { 1.0 };
        let is_wild = at.number("size")? < 4.0;
        let sample = Sample::default().with("rate", 100.0);
        Ok(sample.with("time", if is_wild { time } else { 1.0 }))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let rounds = |level: usize| {
        let records = directory.records().iter();
        let of = records.filter(|r| r.cell.levels == [level] && r.cell.subject == 0);
        of.count()
    };
    // Of the times at size 2 nothing is claimed.
    assert_eq!([rounds(0), rounds(1), rounds(2)], [8, 5, 5]);
}

#[test]
fn a_level_below_that_there_is_not_is_a_mistake() {
    let mut experiment = header(rules()).experiment;
    let mut wrong = claim(&experiment, "rate");
    wrong.to = Below::from("kernel").at("size", "3");
    experiment.claims = vec![wrong];
    assert_eq!(experiment.mistakes(), ["no size 3"]);
}
