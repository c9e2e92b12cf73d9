//! What is repeated until it is narrow, and doubted where it is not: the first measure, and each that something is
//! claimed of.

use crate::fake::{Fake, Fixed, header, rules, scratch};
use crate::run;
use lab::experiment::analysis::analyse;
use lab::experiment::bench::{At, Sample};
use lab::experiment::declaration::{Bound, Claim};
use lab::experiment::{Directory, End};

/// Steady rates, and times of the engine that are one thing in one round and another in the next.
fn wild_times(at: &At<'_>, times: u32) -> anyhow::Result<Sample> {
    let time = match (at.subject, times % 2) {
        ("engine", 0) => 3.0,
        _ => 1.0,
    };
    Ok(Sample::default().with("rate", 100.0).with("time", time))
}

fn of_time(at: Vec<(String, String)>, first: &Claim) -> Claim {
    Claim {
        says: "It is quick".into(),
        measure: "time".into(),
        at,
        ..first.clone()
    }
}

#[test]
fn what_is_claimed_is_repeated_until_it_is_narrow_and_doubted_where_it_is_not() {
    let scratch = scratch();
    let mut header = header(rules());
    let claims = &mut header.experiment.claims;
    claims.push(of_time(vec![("size".into(), "2".into())], &claims[0]));
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let end = run(
        &mut directory,
        &mut Fake::new(wild_times),
        &mut Fixed::default(),
    );
    assert_eq!(end, End::Rounds, "the times were never narrow");
    // Of the engine at the one size alone: all else was settled, and of the others' times nothing is claimed.
    let rounds = |level: usize, subject: usize| {
        let records = directory.records().iter();
        let of = records.filter(|r| r.cell.levels == [level] && r.cell.subject == subject);
        of.count()
    };
    assert_eq!([rounds(1, 0), rounds(1, 1), rounds(0, 1)], [5, 8, 5]);
    let warnings = analyse(&directory).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("Rounds disagree by more than 25 % about time in 1 of 6"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("2 B, engine"), "{warnings:?}");
}

/// Where nothing is claimed of them nobody waits for them.
#[test]
fn what_nothing_is_claimed_of_may_scatter() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let end = run(
        &mut directory,
        &mut Fake::new(wild_times),
        &mut Fixed::default(),
    );
    assert_eq!((end, directory.records().len()), (End::Narrow, 6 * 5));
    assert_eq!(analyse(&directory).warnings, Vec::<String>::new());
}

/// A figure that is nothing at most times, and next to nothing now and then, is as narrow as its bound asks for.
#[test]
fn what_is_next_to_nothing_beside_its_bound_is_narrow() {
    let scratch = scratch();
    let mut header = header(rules());
    let claims = &mut header.experiment.claims;
    let few = Claim {
        to: "".into(),
        ratio: Bound::AtMost(1.0),
        ..of_time(Vec::new(), &claims[0])
    };
    claims.push(few);
    let mut directory = Directory::create(scratch.path(), header).unwrap();
    let mut bench = Fake::new(|_, times| {
        let errors = if times == 3 { 0.04 } else { 0.0 };
        Ok(Sample::default().with("rate", 100.0).with("time", errors))
    });
    let end = run(&mut directory, &mut bench, &mut Fixed::default());
    assert_eq!((end, directory.records().len()), (End::Narrow, 6 * 5));
    assert_eq!(analyse(&directory).warnings, Vec::<String>::new());
}
