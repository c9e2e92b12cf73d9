//! The page of several runs.

use crate::fake::{Fixed, header, rules, scratch};
use crate::{run, steady};
use lab::experiment::Directory;
use lab::experiment::comparison::compare_groups;
use lab::experiment::group::Group;
use std::time::Duration;

/// What was to hold in each stands on one page, with a link to its report; what was not run is named, and why.
#[test]
fn one_page_has_what_was_to_hold_in_all_of_them() {
    let scratch = scratch();
    let mut group = Group {
        name: "both".into(),
        experiments: ["one", "two", "three"].map(String::from).to_vec(),
        left_out: vec![("three".into(), "needs a program".into())],
        ..Group::default()
    };
    assert_eq!(Group::open(scratch.path()).unwrap(), None);
    let page = group.write(scratch.path()).unwrap();
    let text = |end: &str| std::fs::read_to_string(page.with_extension(end)).unwrap();
    assert!(text("md").contains("- one: not run\n"), "{}", text("md"));
    for name in ["one", "two"] {
        let path = scratch.path().join(name);
        let mut directory = Directory::create(&path, header(rules())).unwrap();
        let mut clock = Fixed::default();
        // A machine that stands still makes both doubtful, in the same words.
        clock.conditions.stood_still = 2.0;
        run(&mut directory, &mut steady(), &mut clock);
    }
    group.write(scratch.path()).unwrap();
    let (markdown, html) = (text("md"), text("html"));
    for name in ["one", "two"] {
        let row = format!("| The engine is faster (000, section 6) | {name} | 1 B |");
        assert!(markdown.contains(&row), "{row} in {markdown}");
        let link = format!("- [{name}: Requests by size]({name}/report.md)");
        assert!(markdown.contains(&link), "{link} in {markdown}");
        let link = format!("<a href=\"{name}/report.html\">");
        assert!(html.contains(&link), "{link} in {html}");
    }
    assert!(
        markdown.contains("- three: needs a program\n"),
        "{markdown}"
    );
    // It is known again by whoever comes later.
    let again = Group::open(scratch.path()).unwrap().unwrap();
    assert_eq!(again, group);
    group.experiments.clear();
    assert_ne!(again, group);
}

/// Groups are compared experiment by experiment; what only one of them has is named.
#[test]
fn two_groups_are_compared_by_what_both_have_run() {
    let scratch = scratch();
    let made = |number: &str, names: &[&str]| {
        let path = scratch.path().join(number);
        let group = Group {
            name: "both".into(),
            experiments: ["one", "two", "three", "four"].map(String::from).to_vec(),
            ..Group::default()
        };
        for name in names {
            let mut directory = Directory::create(&path.join(name), header(rules())).unwrap();
            run(&mut directory, &mut steady(), &mut Fixed::default());
        }
        group.write(&path).unwrap();
        (path, group)
    };
    let (one, its) = made("1", &["one", "two"]);
    let (other, others) = made("2", &["three", "two"]);
    let text = compare_groups((&one, &its), (&other, &others)).unwrap();
    assert!(text.starts_with("two\n\n"), "{text}");
    assert!(text.contains("1 B, engine"), "{text}");
    let alone = "one: only in the first\nthree: only in the second\n";
    assert!(text.ends_with(alone), "{text}");
    let (third, its_own) = made("3", &["one"]);
    let error = compare_groups((&other, &others), (&third, &its_own)).unwrap_err();
    assert!(error.to_string().contains("in both groups"), "{error}");
}

/// Why something is not there is said until it is.
#[test]
fn what_was_left_out_and_is_run_later_is_left_out_no_more() {
    let mut group = Group::default();
    group.note("one", Some("needs a program".into()));
    group.note("one", Some("needs another".into()));
    assert_eq!(group.left_out, [("one".into(), "needs another".into())]);
    group.note("one", None);
    assert_eq!(group.left_out, []);
}

/// Of each that was run, and of all of them; what went on took both times.
#[test]
fn the_page_says_how_long_it_took() {
    let scratch = scratch();
    let mut group = Group {
        name: "both".into(),
        experiments: ["one", "two"].map(String::from).to_vec(),
        ..Group::default()
    };
    assert_eq!(group.times(), []);
    let page = group.write(scratch.path()).unwrap();
    let text = || std::fs::read_to_string(page.with_extension("md")).unwrap();
    assert!(!text().contains("How long it took"));
    for (name, seconds) in [("one", 50), ("two", 59), ("one", 20)] {
        group.spend(name, Duration::from_secs(seconds));
    }
    group.write(scratch.path()).unwrap();
    let said = text();
    for row in [
        "| one | 1 min 10 s |",
        "| two | 59 s |",
        "| all of it | 2 min 9 s |",
    ] {
        assert!(said.contains(row), "{row} in {said}");
    }
    let again = Group::open(scratch.path()).unwrap().unwrap();
    assert_eq!(again.took, [("one".into(), 70.0), ("two".into(), 59.0)]);
}
