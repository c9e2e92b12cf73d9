//! What programs used, and what the engine says of itself: in a report, and round by round; and what a report says of
//! the client.

use crate::fake::{Fake, Fixed, header, rules, scratch};
use lab::experiment::bench::{Client, Sample};
use lab::experiment::surroundings::Conditions;
use lab::experiment::used::Used;
use lab::experiment::{At, Directory, comparison, report};
use lab::sampler::account::Engine;
use lab::sampler::cores::Times;
use lab::sampler::listeners::Refused;
use std::collections::BTreeMap;
use std::path::Path;

fn text(directory: &Path, file: &str) -> String {
    std::fs::read_to_string(directory.join(file)).unwrap()
}

/// On the engine: with each round a server that uses a tenth of a second more, and an engine that is busy for as much
/// more, of two seconds.
fn accounted() -> Fake {
    Fake::new(|at, round| Ok(account(at, round, Some(2e9), false)))
}

fn account(at: &At<'_>, round: u32, clock: Option<f64>, of_tsc: bool) -> Sample {
    let sample = Sample::default().with("rate", 100.0);
    if at.subject == "kernel" {
        return sample;
    }
    let more = f64::from(round) / 10.0;
    let used = Used {
        passed: 2.0,
        processes: BTreeMap::from([("client".into(), 0.5), ("server".into(), more)]),
        engine: Some(Engine {
            busy: more,
            looking: more / 3.0,
            asleep: 2.0 - more * 4.0 / 3.0,
            turns: 100.0,
            empty_turns: 5.0 * f64::from(round),
            batches: 10.0,
            frames: 20.0 + f64::from(round),
            accepted: 1.0,
            clock,
            of_tsc,
        }),
        ..Used::default()
    };
    sample.using(&used)
}

#[test]
fn what_programs_and_the_engine_used_is_in_the_report_as_the_rounds_have_it() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let times = Times {
        user: 1.0,
        idle: 3.0,
        ..Times::default()
    };
    let mut clock = Fixed {
        conditions: Conditions {
            passed: 4.0,
            cores: vec![(1, times)],
            ..Conditions::default()
        },
        ..Fixed::default()
    };
    crate::run(&mut directory, &mut accounted(), &mut clock);
    report::write(&directory).unwrap();
    let report = text(scratch.path(), "report.md");
    // Five rounds: 1.5 s of 10 s; the engine as long, and looking for a third of that.
    let (_, processes) = report
        .split_once("## CPU by process, % of a core")
        .expect("no CPU by process");
    assert!(processes.contains("|  | client | server |"), "{report}");
    let row = "| 1 B, engine | 25.0 | 15.0 |";
    assert!(processes.contains(row), "{report}");
    let (_, engine) = report
        .split_once("## The engine's own account")
        .expect("no account of the engine's");
    let head = "|  | busy, % | looking, % | asleep, % | useful, % | busy, million cycles a second | frames a batch | \
                empty turns, % |";
    assert!(engine.contains(head), "{report}");
    assert!(engine.contains("at the clock of /proc/cpuinfo"), "{report}");
    let row = "| 4 B, engine | 15.0 | 5.0 | 80.0 | 75.0 | 300 | 2.30 | 15.0 |";
    assert!(engine.contains(row), "{report}");
    assert!(!engine.contains("B, kernel |"), "there is none: {report}");
    let page = text(scratch.path(), "report.html");
    assert!(page.contains("own account") && page.contains("CPU by process"));

    // Round by round.
    let lines = text(scratch.path(), "accounts.csv");
    assert!(lines.starts_with("round,subject,size,what,unit,value\n"));
    let figures = |place: &str| -> BTreeMap<String, f64> {
        let of = lines.lines().filter_map(|line| line.strip_prefix(place));
        let each = of.map(|line| {
            let [what, _, value] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            (what.to_owned(), value.parse().unwrap())
        });
        each.collect()
    };
    let third = figures("3,engine,2,");
    for (what, value) in [
        ("accounted", 2.0),
        ("CPU of client", 0.5),
        ("CPU of server", 0.3),
        ("engine busy", 0.3),
        ("engine frames", 23.0),
        ("engine empty turns", 15.0),
        ("engine clock", 2e9),
        ("core 1 usr", 25.0),
        ("core 1 idle", 75.0),
    ] {
        assert!((third[what] - value).abs() < 1e-9, "{what}: {third:?}");
    }
    // Of the kernel the cores are known.
    let kernel = figures("3,kernel,2,");
    assert_eq!(kernel.len(), 8, "{kernel:?}");
    let json: serde_json::Value =
        serde_json::from_str(&text(scratch.path(), "results.json")).unwrap();
    let samples = json["records"].as_array().unwrap().iter();
    let engines = samples.map(|record| &record["sample"]["used"]["engine"]["busy"]);
    assert_eq!(engines.filter(|busy| busy.is_number()).count(), 3 * 5);
}

/// Of cycles that nobody knows nothing is said but that.
#[test]
fn cycles_that_are_not_known_are_called_nobodys() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, round| Ok(account(at, round, None, false)));
    crate::run(&mut directory, &mut bench, &mut Fixed::default());
    report::write(&directory).unwrap();
    let report = text(scratch.path(), "report.md");
    assert!(report.contains("is not known on this machine"), "{report}");
    assert!(
        !report.contains("TSC") && !report.contains("perf"),
        "{report}"
    );
}

/// Cycles are said to be those that they are.
#[test]
fn cycles_of_the_time_stamp_counter_are_called_so() {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    let mut bench = Fake::new(|at, round| Ok(account(at, round, Some(2e9), true)));
    crate::run(&mut directory, &mut bench, &mut Fixed::default());
    report::write(&directory).unwrap();
    let report = text(scratch.path(), "report.md");
    assert!(
        report.contains("| busy, million TSC cycles a second |"),
        "{report}"
    );
    assert!(!report.contains("/proc/cpuinfo"), "{report}");
    let lines = text(scratch.path(), "accounts.csv");
    assert!(
        lines.contains(",time stamp counter,1/s,2000000000\n"),
        "{lines}"
    );
}

/// What the report says of the client, if this is known of the kernel's and of the engine's.
fn said(answer: fn(&lab::experiment::At<'_>, u32) -> anyhow::Result<Sample>) -> String {
    let scratch = scratch();
    let mut directory = Directory::create(scratch.path(), header(rules())).unwrap();
    crate::run(
        &mut directory,
        &mut Fake::new(answer),
        &mut Fixed::default(),
    );
    report::write(&directory).unwrap();
    text(scratch.path(), "report.md")
}

fn client(busy: f64) -> Client {
    Client {
        busy: Some(busy),
        ..Client::default()
    }
}

#[test]
fn of_a_client_that_nobody_looked_at_it_is_said_that_nothing_is_known() {
    let report = said(|_, _| Ok(Sample::default().with("rate", 100.0)));
    let told = "Whether the client was the limit is not known.";
    assert!(report.contains(told), "{report}");
    assert!(!report.contains("nowhere the limit"), "{report}");
    let report = said(|_, _| Ok(Sample::default().with("rate", 100.0).by(client(0.5))));
    let told = "The client was nowhere the limit.";
    assert!(report.contains(told), "{report}");
}

#[test]
fn of_how_many_measurements_the_client_is_known_is_said() {
    let report = said(|at, _| {
        let sample = Sample::default().with("rate", 100.0);
        Ok(match at.subject {
            "kernel" => sample,
            _ => sample.by(client(0.5)),
        })
    });
    let told = "The client was nowhere the limit; that is known of 15 of 30.";
    assert!(report.contains(told), "{report}");
    let report = said(|at, _| {
        let sample = Sample::default().with("rate", 100.0);
        Ok(match (at.subject, at.word("size")?) {
            ("kernel", _) => sample,
            (_, "4") => sample.by(client(0.95)),
            _ => sample.by(client(0.5)),
        })
    });
    let told = "The client was the limit in 5 of 30 measurements; that is known of 15 of 30.";
    assert!(report.contains(told), "{report}");
}

/// Of the kernel's, at 4 bytes: connections that came to a full queue.
#[test]
fn an_accept_queue_that_overflowed_is_on_top_of_the_report() {
    let report = said(|at, round| {
        let is_full = at.subject == "kernel" && at.word("size")? == "4" && round <= 2;
        let used = Used {
            passed: 1.0,
            refused: Refused {
                overflowed: if is_full { 40 } else { 0 },
                // Want of another room is no full queue.
                dropped: 40,
            },
            ..Used::default()
        };
        Ok(Sample::default().with("rate", 100.0).using(&used))
    });
    let told = "**Doubtful.** The server's accept queue overflowed in 2 of 30 measurements (kernel, 80 times in 2), \
                among them: 4 B, kernel.";
    assert!(report.contains(told), "{report}");
    let report = said(|_, _| Ok(Sample::default().with("rate", 100.0)));
    assert!(!report.contains("accept queue"), "{report}");
}

/// As versions wrote it that had no such account.
#[test]
fn a_run_of_an_earlier_version_is_read_and_compared() {
    let (one, two) = (scratch(), scratch());
    let now = Directory::create(one.path(), header(rules())).unwrap();
    drop(now);
    let lines: String = (0..2)
        .map(|subject| {
            format!(
                "{{\"measured\":{{\"round\":1,\"cell\":{{\"levels\":[0],\"subject\":{subject}}},\
                 \"sample\":{{\"values\":{{\"rate\":100.0}},\"client\":{{\"busy\":0.5}}}},\
                 \"conditions\":{{\"stolen\":0.0,\"stood_still\":0.0}},\"took\":1.0}}}}\n"
            )
        })
        .collect();
    std::fs::write(one.path().join("rounds.jsonl"), lines).unwrap();
    let earlier = Directory::open(one.path()).unwrap();
    assert_eq!(earlier.records().len(), 2);
    report::write(&earlier).unwrap();
    let report = text(one.path(), "report.md");
    assert!(!report.contains("CPU by process"), "{report}");
    assert!(!report.contains("own account"), "{report}");
    assert_eq!(text(one.path(), "accounts.csv").lines().count(), 1);
    let mut later = Directory::create(two.path(), header(rules())).unwrap();
    crate::run(&mut later, &mut accounted(), &mut Fixed::default());
    let text = comparison::compare(&earlier, &later).unwrap();
    assert!(text.contains("1 B, engine"), "{text}");
}
