//! A source's figures beside ours: of what they are of, and nothing else.

use crate::fake::{Fake, Fixed, header, rules, scratch};
use crate::run;
use lab::experiment::bench::Sample;
use lab::experiment::declaration::Axis;
use lab::experiment::{Directory, report};

/// A figure of what is near stands beside what was measured near, and not beside what was far away.
#[test]
fn a_sources_figure_stands_beside_what_it_is_of() {
    let scratch = scratch();
    let mut header = header(rules());
    let experiment = &mut header.experiment;
    experiment.axes.extend([
        Axis::of_words("where", &["near", "far"]),
        Axis::of_numbers("MTU", "B", &[1_500.0, 9_000.0]),
    ]);
    let finding = &mut experiment.findings[0];
    finding.at = [("where", "near")]
        .map(|(axis, level)| (axis.into(), level.into()))
        .to_vec();
    let mut both = finding.clone();
    both.name = "of both".into();
    both.at.push(("MTU".into(), "9000".into()));
    experiment.findings.push(both);
    assert_eq!(experiment.mistakes(), Vec::<String>::new());
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let mut bench = Fake::new(|at, round| {
        let of_place = if at.word("where")? == "near" {
            100.0
        } else {
            500.0
        };
        let of_size = if at.word("MTU")? == "1500" { 0.0 } else { 50.0 };
        let of_subject = if at.subject == "engine" { 1_000.0 } else { 0.0 };
        // At one place they are asked several times, of each MTU.
        let rate = of_place + of_size + of_subject + f64::from((round - 1) / 4);
        Ok(Sample::default().with("rate", rate))
    });
    run(&mut directory, &mut bench, &mut Fixed::default());
    let (_, file) = report::write(&directory).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let (_, text) = text
        .split_once("## The source's figures beside ours")
        .unwrap();
    // What it is of is said once, the rest in each cell, with intervals.
    assert!(
        text.contains("nginx on a testbed: rate, 000, figure 6.3; near"),
        "{text}"
    );
    let row = "| 4 | 270 | 1500: 102 (100 to 104); 9000: 152 (150 to 154) | 1500: 1,102 (1,100 to 1,104); \
               9000: 1,152 (1,150 to 1,154) |";
    assert!(text.contains(row), "{text}");
    assert!(
        text.contains("of both: rate, 000, figure 6.3; near, MTU 9000"),
        "{text}"
    );
    assert!(
        text.contains("| 4 | 270 | 152 (150 to 154) | 1,152 (1,150 to 1,154) |"),
        "{text}"
    );
    assert!(!text.contains("far"), "{text}");
}
