//! Every packet script on Linux's TCP, over both versions of IP unless it asks for one, each in a
//! network namespace of its own, many at a time:
//! `cargo test -p outboard-scripts --test linux [-- PART-OF-A-NAME]`.
//!
//! The clock is a real one here, and the machine may be busy. A script that fails is run again by
//! itself, with more patience; what fails then fails. A run during which the machine stood still
//! proves nothing if it fails, and is repeated.
#![forbid(unsafe_code)]

use libtest_mimic::{Arguments, Trial};
use scripts::attempts::{Attempt, Failed, Verdict, attempt};
use scripts::{Linux, Watch};
use sim::script::{self, Failure, Script, Version};
use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

/// Scripts at once: they spend their time waiting.
const AT_ONCE: usize = 24;

/// Held by one who runs alone, shared by the others.
static ALONE: RwLock<()> = RwLock::new(());

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_ONCE));
    if !scripts::is_root() {
        // Past the harness, which would count it as passed.
        let _ = std::io::stderr().write_all(b"SKIPPED (needs root): packet scripts on Linux\n");
        return ExitCode::SUCCESS;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        let line = b"SKIPPED (needs /dev/net/tun): packet scripts on Linux\n";
        let _ = std::io::stderr().write_all(line);
        return ExitCode::SUCCESS;
    }
    let directory = scripts::directory();
    let files = scripts::files(&directory).expect("scripts");
    let mut runs = Vec::new();
    for file in files {
        let name = file.strip_prefix(&directory).unwrap_or(&file).display();
        let text = std::fs::read_to_string(&file).expect("a readable script");
        let script = script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for version in script.options.versions() {
            let name = format!("{name} on Linux over {version:?}");
            runs.push((name, script.clone(), version));
        }
    }
    // The longest first, so that the end does not wait for one alone.
    runs.sort_by_key(|(_, script, _)| Reverse(script.duration()));
    // It stays as long as the process.
    let watch: &'static Watch = Box::leak(Box::new(Watch::start().expect("threads")));
    let trials = runs
        .into_iter()
        .map(|(name, script, version)| {
            Trial::test(name.clone(), move || {
                match attempt(|how| once(&script, version, how, watch)) {
                    Ok(()) => Ok(()),
                    Err(verdict @ Verdict::Unknown(_)) => {
                        let said = format!("SKIPPED: {name}: {verdict}\n");
                        let _ = std::io::stderr().write_all(said.as_bytes());
                        Ok(())
                    }
                    Err(verdict) => Err(verdict.to_string().into()),
                }
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// In a thread of its own: its network is another.
fn once(script: &Script, version: Version, how: Attempt, watch: &Watch) -> Result<(), Failed> {
    let (_alone, _shared);
    if how.alone {
        _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    } else {
        _shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    }
    let began = Instant::now();
    let run = || {
        let mut linux =
            Linux::new(version, &script.options, how.slack).map_err(|error| Failure {
                line: 1,
                message: format!("{error:#}"),
                trace: Vec::new(),
            })?;
        script::run(script, version, &mut linux)
    };
    match std::thread::scope(|scope| scope.spawn(run).join()) {
        Ok(result) => result.map_err(|failure| Failed {
            failure,
            stall: watch.longest_stall(began),
        }),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
