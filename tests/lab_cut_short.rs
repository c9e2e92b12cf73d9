//! The lab's own command, cut short by Ctrl-C: it keeps what it has, leaves nothing behind, and goes on.
#![forbid(unsafe_code)]

use lab::experiment::directory::Directory;
use lab::experiment::group::{Group, Told};
use lab::experiment::{End, order};
use lab::process::Process;
use lab::{Program, skip_without};
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

/// A directory that goes with its test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts `outboard lab run` with these words.
fn start(scratch: &Path, words: &[&str]) -> Process {
    let program = Program::new(env!("CARGO_BIN_EXE_outboard")).args(["lab", "run"]);
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
    let name = format!("lab-cut-short-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let path = scratch.0.as_path();
    std::fs::create_dir_all(path).unwrap();
    let into = path.to_str().unwrap();
    let (rounds, precision) = (ROUNDS.to_string(), PRECISION.to_string());
    let mut running = start(
        path,
        &[
            "respond",
            "--quick",
            "--seconds",
            "1",
            "--rounds",
            &rounds,
            "--precision",
            &precision,
            "--only",
            SUBJECT,
            "--into",
            into,
        ],
    );
    let run = path.join("respond-1");
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
    let cut_short = Directory::open(&run).unwrap();
    assert_eq!(cut_short.end(), Some(End::Interrupted));
    let before = cut_short.records().to_vec();
    assert!(!before.is_empty() && !is_whole(&cut_short));
    assert!(run.join("report.html").exists());

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

    let (is_good, said) = ended(start(path, &["--resume", into]));
    assert!(
        is_good && said.contains("nothing is left to be run"),
        "{said}"
    );
}
