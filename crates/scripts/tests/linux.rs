//! Every packet script on Linux's TCP, over both versions of IP unless it asks for one, each in a
//! network namespace of its own, many at a time:
//! `cargo test -p outboard-scripts --test linux [-- PART-OF-A-NAME]`.
//!
//! The clock is a real one here, and the machine may be busy. A script that fails is run again by
//! itself, with more patience; what fails then fails.
#![forbid(unsafe_code)]

use core::time::Duration;
use libtest_mimic::{Arguments, Failed, Trial};
use scripts::Linux;
use sim::script::{self, Script, Version};
use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

/// Scripts at once: they spend their time waiting.
const AT_ONCE: usize = 24;
/// Milliseconds that an event may be off its time, at each attempt.
const SLACKS: [u64; 3] = [25, 60, 100];

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
        for version in [Version::V4, Version::V6] {
            if script.options.version.is_none_or(|asked| asked == version) {
                runs.push((
                    format!("{name} on Linux over {version:?}"),
                    script.clone(),
                    version,
                ));
            }
        }
    }
    // The longest first, so that the end does not wait for one alone.
    runs.sort_by_key(|(_, script, _)| Reverse(script.duration()));
    let trials = runs
        .into_iter()
        .map(|(name, script, version)| Trial::test(name, move || attempts(&script, version)))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn attempts(script: &Script, version: Version) -> Result<(), Failed> {
    let mut result = {
        let _shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        once(script, version, SLACKS[0])
    };
    for slack in &SLACKS[1..] {
        if result.is_ok() {
            break;
        }
        let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        result = once(script, version, *slack);
    }
    result
}

/// In a thread of its own: its network is another.
fn once(script: &Script, version: Version, slack: u64) -> Result<(), Failed> {
    let slack = Duration::from_millis(slack);
    let run = || -> Result<(), String> {
        let mut linux =
            Linux::new(version, &script.options, slack).map_err(|error| format!("{error:#}"))?;
        script::run(script, version, &mut linux).map_err(|failure| failure.to_string())
    };
    match std::thread::scope(|scope| scope.spawn(run).join()) {
        Ok(result) => Ok(result?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
