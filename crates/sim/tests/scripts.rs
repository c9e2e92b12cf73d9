//! Every packet script, on our own stack under virtual time, over both versions of IP unless it
//! asks for one: `cargo test -p outboard-sim --test scripts [-- PART-OF-A-NAME]`.
#![forbid(unsafe_code)]

use libtest_mimic::{Arguments, Trial};
use sim::script::{self, Options, Version, Virtual};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut trials = Vec::new();
    for file in files(&directory) {
        let name = file.strip_prefix(&directory).unwrap_or(&file).display();
        let text = fs::read_to_string(&file).expect("a readable script");
        // One that cannot be read says so when it is run.
        let options = script::parse(&text).map_or_else(|_| Options::default(), |s| s.options);
        for version in options.versions() {
            let text = text.clone();
            let name = format!("{name} over {version:?}");
            trials.push(Trial::test(name, move || run(&text, version)));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(text: &str, version: Version) -> Result<(), libtest_mimic::Failed> {
    let script = script::parse(text)?;
    let mut stack = Virtual::new(version, &script.options);
    Ok(script::run(&script, version, &mut stack)?)
}

/// All scripts, by topic and name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("scripts").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            files.push(path);
        }
    }
    files.sort();
    files
}
