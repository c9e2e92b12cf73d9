//! The gate: its steps, in the order that tells the author of a mistake soonest.

use crate::tally::Tally;
use crate::{arrows, beside, instructions, lengths, requirements, shell, suites, texts, unsafety};
use anyhow::Result;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A step: its name, and what it does. It returns what the summary says of it.
type Step = (&'static str, fn(&mut Tally) -> Result<String>);

const STEPS: &[Step] = &[
    ("texts", |_| texts::check()),
    ("lengths", |_| lengths::check()),
    ("unsafe", |_| unsafety::check()),
    ("arrows", |_| arrows::check()),
    ("requirements", |_| requirements::check(false)),
    ("format", |_| format()),
    ("clippy", |_| clippy()),
    ("build", |_| build()),
    ("tests", tests),
    ("doc-tests", doc_tests),
    ("loom", loom),
    ("miri", miri),
    ("instructions", count_instructions),
    ("docs", |_| docs()),
];

/// Runs the steps that are named (all, if none is), prints a summary, and ends with a line that
/// counts the tests.
pub fn run(named: &[String]) -> ExitCode {
    if let Some(unknown) = named
        .iter()
        .find(|name| !STEPS.iter().any(|(step, _)| step == name))
    {
        let known: Vec<&str> = STEPS.iter().map(|(step, _)| *step).collect();
        eprintln!(
            "no step is called {unknown}; there are: {}",
            known.join(", ")
        );
        return ExitCode::FAILURE;
    }
    let mut tally = Tally::default();
    let mut summary = Vec::new();
    let mut sound = true;
    for (name, step) in STEPS {
        if !named.is_empty() && !named.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("== {name}");
        let started = Instant::now();
        let outcome = step(&mut tally);
        let seconds = started.elapsed().as_secs_f64();
        let said = match &outcome {
            Ok(said) => said.clone(),
            Err(error) => {
                println!("{error:#}");
                sound = false;
                "FAILED".into()
            }
        };
        summary.push(format!("{name:12} {seconds:7.1} s  {said}"));
    }
    println!("\n== summary");
    for line in summary {
        println!("{line}");
    }
    println!(
        "{} passed, {} failed, {} skipped",
        tally.passed, tally.failed, tally.skipped
    );
    if sound && tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn format() -> Result<String> {
    shell::loud(shell::cargo().args(["fmt", "--all", "--check"]))?;
    Ok("as rustfmt writes it".into())
}

/// Everything that the tests are and that they start. All at once: what only tests depend on changes the features
/// of other crates, so that a build without them shares little with theirs.
fn build() -> Result<String> {
    shell::loud(shell::cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    Ok("programs, libraries and tests".into())
}

fn clippy() -> Result<String> {
    shell::loud(shell::cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    Ok("no warnings".into())
}

fn tests(tally: &mut Tally) -> Result<String> {
    beside::run(tally)
}

/// The examples in the documentation, which are in no binary.
fn doc_tests(tally: &mut Tally) -> Result<String> {
    suites::run(
        shell::cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]),
        tally,
    )
}

/// Every interleaving, up to a bound, of the code that both sides of the shared memory run.
fn loom(tally: &mut Tally) -> Result<String> {
    suites::run(
        shell::cargo()
            .args([
                "test",
                "--package=outboard-queue-pair",
                "--release",
                "--test=loom",
            ])
            // In a directory of its own: other flags would build the whole workspace anew.
            .arg("--target-dir")
            .arg(shell::target_dir().join("loom"))
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", "3"),
        tally,
    )
}

/// The same code under an interpreter that notices undefined behaviour.
fn miri(tally: &mut Tally) -> Result<String> {
    let there = Command::new("cargo")
        .args(["+nightly", "miri", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !there {
        let said = "SKIPPED (needs the nightly toolchain with miri and rust-src)";
        println!("{said}");
        tally.skipped += 1;
        return Ok(said.into());
    }
    suites::run(
        Command::new("cargo")
            .current_dir(shell::root())
            .args(["+nightly", "miri", "test", "--package=outboard-queue-pair"])
            .arg("--target-dir")
            .arg(shell::target_dir().join("miri"))
            .env_remove("RUSTFLAGS")
            // It interprets, and warns if it is asked to optimise.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("MIRIFLAGS", "-Zmiri-disable-isolation"),
        tally,
    )
}

/// What a segment costs, which no other test would notice.
fn count_instructions(tally: &mut Tally) -> Result<String> {
    Ok(instructions::check(false)?.unwrap_or_else(|| {
        let said = "SKIPPED (needs valgrind)";
        println!("{said}");
        tally.skipped += 1;
        said.into()
    }))
}

fn docs() -> Result<String> {
    shell::loud(
        shell::cargo()
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            // Private items may be linked to: the documentation of a crate is read in its source.
            .env(
                "RUSTDOCFLAGS",
                "-D warnings -A rustdoc::private-intra-doc-links",
            ),
    )?;
    Ok("no warnings".into())
}
