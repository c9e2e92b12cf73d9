//! A library of another build than the program beside it: whoever measures with it is refused, whoever runs programs
//! on it is warned, and `explain` tells of it.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use lab::World;
use lab::outboard::Outboard;

const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);
const SAYS: &str = "of another build";

/// The library beside the program.
fn library() -> PathBuf {
    Path::new(OUTBOARD).with_file_name("liboutboard_preload.so")
}

/// A copy of it that says that it is made of something else; gone in the end.
struct Another(PathBuf);

impl Another {
    fn new(test: &str) -> Self {
        let name = format!("outboard-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        let another = Self(directory);
        let mut bytes = std::fs::read(library()).expect("cargo build --workspace makes it");
        let owner = b"outboard\0\0\0\0";
        let notes = (0..bytes.len() - 28).filter(|at| {
            let rest = &bytes[*at..];
            rest.starts_with(owner) && rest[12..28].iter().all(u8::is_ascii_hexdigit)
        });
        let notes: Vec<usize> = notes.collect();
        assert_eq!(notes.len(), 1, "one note says of what it is made");
        let digit = &mut bytes[notes[0] + 12];
        *digit = if *digit == b'0' { b'1' } else { b'0' };
        std::fs::write(another.file(), bytes).expect("a copy");
        another
    }

    fn file(&self) -> PathBuf {
        self.0.join("liboutboard_preload.so")
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(library: &Path, words: &[&str]) -> (Output, String) {
    let mut command = Command::new(OUTBOARD);
    command
        .args(words)
        .env("OUTBOARD_PRELOAD", library)
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock")
        .env_remove("OUTBOARD_SAME_BUILD")
        .env_remove("OUTBOARD_ANY_BUILD");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_program_is_run_with_a_warning_or_not_at_all() {
    let another = Another::new("run-another");
    let (output, said) = run(&library(), &["run", "--same-build", "--", "echo", "it"]);
    assert!(output.status.success() && !said.contains(SAYS), "{said}");
    assert_eq!(output.stdout, b"it\n");
    let (output, said) = run(&another.file(), &["run", "--", "echo", "it"]);
    assert!(output.status.success() && said.contains(SAYS), "{said}");
    assert_eq!(output.stdout, b"it\n");
    let file = another.file();
    let words = ["run", "--same-build", "--", "echo", "it"];
    let (output, said) = run(&file, &words);
    assert!(!output.status.success() && said.contains(SAYS), "{said}");
    assert!(said.contains(&*file.to_string_lossy()), "{said}");
    assert_eq!(output.stdout, b"", "it was not started");
}

#[test]
fn the_lab_measures_nothing_with_it() {
    if lab::skip_without("the_lab_measures_nothing_with_it", &[]) {
        return;
    }
    let another = Another::new("lab-another");
    let into = another.0.join("results");
    let into = into.to_string_lossy();
    let words = ["lab", "run", "message-latency", "--quick", "--into", &into];
    let (output, said) = run(&another.file(), &words);
    assert!(!output.status.success() && said.contains(SAYS), "{said}");
    assert!(said.contains("OUTBOARD_ANY_BUILD=1"), "{said}");
    assert!(!Path::new(&*into).exists(), "nothing was begun");
}

#[test]
fn the_lab_measures_what_has_no_library_in_it() {
    let test = "the_lab_measures_what_has_no_library_in_it";
    if lab::skip_without(test, &["nginx", "wrk"]) {
        return;
    }
    let another = Another::new("lab-without");
    let into = another.0.join("results");
    let into = into.to_string_lossy();
    let words = ["lab", "run", "respond", "--quick", "--into", &into];
    let only = ["--only", "subject=responder", "--rounds", "1"];
    let (_, said) = run(&another.file(), &[&words[..], &only].concat());
    assert!(!said.contains(SAYS), "{said}");
    assert!(Path::new(&*into).exists(), "it was begun: {said}");
}

#[test]
fn the_lab_measures_with_it_if_it_is_told_so() {
    let test = "the_lab_measures_with_it_if_it_is_told_so";
    if lab::skip_without(test, &["ethtool", "taskset"]) {
        return;
    }
    let another = Another::new("lab-any");
    let into = another.0.join("results");
    let output = Command::new(OUTBOARD)
        .args(["lab", "run", "message-latency", "--quick", "--rounds", "1"])
        .args(["--only", "message=64", "--only", "subject=engine, all"])
        .arg("--into")
        .arg(&into)
        .env("OUTBOARD_PRELOAD", another.file())
        .env("OUTBOARD_ANY_BUILD", "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let is_doubt = |line: &str| line.starts_with("DOUBTFUL: ") && line.contains(SAYS);
    assert!(said.lines().any(is_doubt), "{said}");
}

/// Files of a run, below the directory that it was told.
fn begun(into: &Path) -> bool {
    let runs = std::fs::read_dir(into).into_iter().flatten().flatten();
    let mut files = runs.map(|run| run.path().join("run.json"));
    files.any(|file| file.exists())
}

#[test]
fn a_run_says_that_something_was_built_anew_meanwhile() {
    let test = "a_run_says_that_something_was_built_anew_meanwhile";
    if lab::skip_without(test, &["ethtool", "taskset"]) {
        return;
    }
    let scratch = Another::new("lab-meanwhile");
    let (beside, into) = (scratch.0.join("used.so"), scratch.0.join("results"));
    std::fs::copy(library(), &beside).expect("a copy");
    let words = ["lab", "run", "message-latency", "--quick", "--rounds", "1"];
    let only = ["message=64", "subject=kernel, all"].map(|only| ["--only", only]);
    let mut run = lab::Program::new(OUTBOARD)
        .args(words)
        .args(only.concat())
        .args(["--seconds", "5", "--into"])
        .arg(&into)
        .env("OUTBOARD_PRELOAD", &beside)
        .log(scratch.0.join("log"))
        .start()
        .expect("a run");
    run.wait_until(LIMIT, || begun(&into)).expect("it is begun");
    // It is what it was, and a byte more.
    let mut bytes = std::fs::read(&beside).expect("to be read");
    bytes.push(0);
    std::fs::write(scratch.0.join("new"), bytes).expect("a file");
    std::fs::rename(scratch.0.join("new"), &beside).expect("it is replaced");
    let status = run.wait(LIMIT).expect("an end");
    let said = run.printed();
    assert!(status.success(), "{said}");
    let doubt = said.lines().find(|line| line.contains("anew"));
    assert!(
        doubt.is_some_and(|line| line.starts_with("DOUBTFUL: ")),
        "{said}"
    );
}

#[test]
fn a_program_that_has_it_is_told_of() {
    if lab::skip_without("a_program_that_has_it_is_told_of", &[]) {
        return;
    }
    let another = Another::new("explain-another");
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(OUTBOARD), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let sleeps = |library: PathBuf, same: &str| {
        let program = outboard.on_engine(&world, "sleep").arg("600");
        let program = program
            .env("OUTBOARD_PRELOAD", library)
            .env("OUTBOARD_SAME_BUILD", same);
        let log = world.scratch().join("sleep.log");
        program.log(log).start().expect("a program")
    };
    let explained = |pid: u32| {
        let explain = outboard.command(&world, "explain");
        explain.arg(pid.to_string()).output().expect("explained")
    };
    // What the lab starts is refused.
    let refused = outboard
        .on_engine(&world, "sleep")
        .arg("600")
        .env("OUTBOARD_PRELOAD", another.file())
        .log(world.scratch().join("refused.log"));
    let mut refused = refused.start().expect("it is started");
    let status = refused.wait(LIMIT).expect("it ends");
    assert!(!status.success());
    assert!(refused.printed().contains(SAYS), "{}", refused.printed());
    let has_library = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains("liboutboard_preload.so"))
    };
    for (library, same, is_told) in [(another.file(), "0", true), (library(), "1", false)] {
        let mut sleeps = sleeps(library, same);
        let pid = sleeps.id();
        sleeps
            .wait_until(LIMIT, || has_library(pid))
            .expect("it is interposed");
        let said = explained(pid);
        assert_eq!(said.contains(SAYS), is_told, "{said}");
    }
    // The file may be gone by then: it is told by what the process has.
    let mut sleeps = sleeps(another.file(), "0");
    let pid = sleeps.id();
    sleeps
        .wait_until(LIMIT, || has_library(pid))
        .expect("it is interposed");
    std::fs::copy(library(), another.0.join("new")).expect("a copy");
    std::fs::rename(another.0.join("new"), another.file()).expect("it is replaced");
    let said = explained(pid);
    assert!(said.contains(SAYS), "{said}");
    engine.stop(LIMIT).expect("an end");
}
