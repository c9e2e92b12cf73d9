//! The lab's own command, cut short by Ctrl-C: it keeps what it has, leaves nothing behind, and goes on.
#![forbid(unsafe_code)]

use lab::experiment::directory::{Directory, Record};
use lab::experiment::group::{Group, Told};
use lab::experiment::{End, order};
use lab::process::Process;
use lab::{Program, built_beside, skip_without};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After so long it hangs.
const LIMIT: Duration = Duration::from_secs(300);
/// So many that the first is seen long before the last.
const ROUNDS: u32 = 4;
/// No interval is so narrow, in percent: nothing is left out of a round because it is known.
const PRECISION: f64 = 1e-6;
/// Experiments without an engine, so without a library: both have this subject.
const SUBJECT: &str = "subject=nginx";

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// A directory that goes with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("lab-cut-short-{}-{test}", std::process::id());
        let scratch = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&scratch.0).unwrap();
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts `outboard lab run` with these words.
fn start(scratch: &Path, words: &[&str]) -> Process {
    let program = Program::new(BINARY).args(["lab", "run"]);
    let program = program.args(words).log(scratch.join("said.log"));
    program.start().unwrap()
}

/// The namespaces of worlds that a process has made.
fn worlds_of(pid: u32) -> Vec<String> {
    let prefix = format!("outboard-{pid}-");
    let there = std::fs::read_dir("/run/netns").into_iter().flatten();
    let names = there.flatten().map(|entry| entry.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Waits for its end, which leaves nothing behind: whether it ended well, and what it has printed.
fn ended(mut process: Process) -> (bool, String) {
    let pid = process.id();
    let status = process.wait(LIMIT).unwrap();
    assert_eq!(worlds_of(pid), Vec::<String>::new());
    (status.success(), process.printed())
}

/// Starts these words, and interrupts them when something was measured in `run`: what was, by then.
fn cut_short(scratch: &Path, words: &[&str], run: &Path) -> Vec<Record> {
    let (rounds, precision) = (ROUNDS.to_string(), PRECISION.to_string());
    let told = [
        "--quick",
        "--seconds",
        "1",
        "--rounds",
        &rounds,
        "--precision",
        &precision,
    ];
    let into = ["--into", scratch.to_str().unwrap()];
    let mut running = start(scratch, &[words, &told, &into].concat());
    let is_measured = || {
        let lines = std::fs::read_to_string(run.join("rounds.jsonl"));
        lines.is_ok_and(|lines| lines.contains('\n'))
    };
    running.wait_until(LIMIT, is_measured).unwrap();
    assert!(!worlds_of(running.id()).is_empty());
    running.signal(Signal::INT).unwrap();
    let (is_good, said) = ended(running);
    // It has something to say, and nothing of it failed.
    assert!(is_good && said.contains("Interrupted; to go on"), "{said}");
    let directory = Directory::open(run).unwrap();
    assert_eq!(directory.end(), Some(End::Interrupted));
    let before = directory.records().to_vec();
    assert!(!before.is_empty() && !is_whole(&directory));
    assert!(run.join("report.html").exists());
    before
}

/// Whether each combination was measured once in each round.
fn is_whole(directory: &Directory) -> bool {
    let records = directory.records();
    let once: BTreeSet<_> = records
        .iter()
        .map(|it| (it.round, it.cell.clone()))
        .collect();
    let cells = order::cells(&directory.header().experiment).len();
    once.len() == records.len() && once.len() == cells * ROUNDS as usize
}

#[test]
fn what_was_cut_short_goes_on_and_what_had_not_begun_begins() {
    let test = "what_was_cut_short_goes_on_and_what_had_not_begun_begins";
    if skip_without(test, &["nginx", "wrk", "ethtool", "taskset"]) {
        return;
    }
    let scratch = Scratch::new("group");
    let path = scratch.0.as_path();
    let into = path.to_str().unwrap();
    let run = path.join("respond-1");
    let before = cut_short(path, &["respond", "--only", SUBJECT], &run);

    // As one of a group of which another has not begun.
    std::fs::rename(&run, path.join("respond")).unwrap();
    let (axis, level) = SUBJECT.split_once('=').unwrap();
    let mut group = Group {
        name: "some".into(),
        experiments: ["respond", "lossy-objects"].map(String::from).to_vec(),
        told: Some(Told {
            quick: true,
            only: vec![(axis.into(), level.into())],
            rounds: Some(ROUNDS),
            seconds: Some(1),
            precision: PRECISION,
            seed: 1,
            ..Told::default()
        }),
        ..Group::default()
    };
    group.note("lossy-objects", Some("no room".into()));
    group.write(path).unwrap();
    let (is_good, said) = ended(start(path, &["--resume", into]));
    assert!(is_good, "{said}");
    let whole = Directory::open(&path.join("respond")).unwrap();
    assert_eq!(whole.records()[..before.len()], before);
    assert_eq!(whole.end(), Some(End::Rounds), "{said}");
    assert!(is_whole(&whole));
    let begun = Directory::open(&path.join("lossy-objects")).unwrap();
    assert!(
        is_whole(&begun) && begun.end() == Some(End::Rounds),
        "{said}"
    );
    let page = std::fs::read_to_string(path.join("index.md")).unwrap();
    assert!(page.contains("lossy-objects/report.md"), "{page}");
    assert!(!page.contains("no room"), "{page}");
    assert!(page.contains("| all of it | "), "{page}");

    let (is_good, said) = ended(start(path, &["--resume", into]));
    assert!(
        is_good && said.contains("nothing is left to be run"),
        "{said}"
    );
}

/// With an engine, and a program on it: neither is left behind, and both are there again when it goes on.
#[test]
fn what_has_an_engine_is_cut_short_and_goes_on() {
    let test = "what_has_an_engine_is_cut_short_and_goes_on";
    if skip_without(test, &["sockperf", "taskset"]) || built_beside(test, BINARY).is_none() {
        return;
    }
    let scratch = Scratch::new("engine");
    let run = scratch.0.join("echo-1");
    let before = cut_short(&scratch.0, &["echo"], &run);
    let (is_good, said) = ended(start(&scratch.0, &["--resume", run.to_str().unwrap()]));
    assert!(is_good, "{said}");
    let whole = Directory::open(&run).unwrap();
    assert_eq!(whole.records()[..before.len()], before);
    assert_eq!(whole.end(), Some(End::Rounds), "{said}");
    assert!(is_whole(&whole));
}
