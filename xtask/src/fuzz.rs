//! The fuzzers, on demand: each goes on from what it has found before.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// What `cargo xtask fuzz` is told.
#[derive(clap::Args)]
pub struct Options {
    /// Which to run, by their names in `fuzz/fuzz_targets` [default: all, one after the other]
    targets: Vec<String>,
    /// Minutes for each
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

/// Builds and runs them. What they find interesting is kept beside the build, not in the committed
/// corpus, which is where they begin.
///
/// # Errors
/// One has found a script that fails, and has said where it lies; or `cargo fuzz` is not there.
pub fn run(options: &Options) -> Result<String> {
    let tool = shell::quiet(Command::new("cargo").args(["fuzz", "--version"]));
    tool.context("needs cargo-fuzz and a nightly compiler: cargo install cargo-fuzz && rustup toolchain install nightly")?;
    let fuzz = shell::root().join("fuzz");
    let all = names(&fuzz.join("fuzz_targets"))?;
    let targets = match &options.targets[..] {
        [] => &all,
        some => some,
    };
    if let Some(unknown) = targets.iter().find(|it| !all.contains(it)) {
        bail!(
            "no fuzzer is called {unknown}; there are {}",
            all.join(", ")
        );
    }
    let seconds = (options.minutes * 60.0).max(1.0) as u64;
    for (at, target) in targets.iter().enumerate() {
        println!(
            "== {target}, {} of {}, for {seconds} s",
            at + 1,
            targets.len()
        );
        let found = shell::target_dir().join("fuzz").join(target);
        std::fs::create_dir_all(&found)?;
        // The nightly compiler, whichever runs this.
        shell::loud(
            Command::new("cargo")
                .env_remove("RUSTUP_TOOLCHAIN")
                .current_dir(shell::root())
                .args(["+nightly", "fuzz", "run", target])
                .args([&found, &fuzz.join("corpus").join(target)])
                .args(["--", "-rss_limit_mb=4096", "-print_final_stats=1"])
                .arg(format!("-max_total_time={seconds}")),
        )?;
    }
    Ok(format!("nothing found by {}", targets.join(", ")))
}

/// The names of the fuzzers.
fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(directory)? {
        let path = file?.path();
        names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
