//! The endless simulation, on demand.

use crate::shell;
use anyhow::Result;

/// What `cargo xtask simulate` is told.
#[derive(clap::Args)]
pub struct Options {
    /// Seeds to run, the last one not among them; a single one is printed in full
    #[arg(long, value_name = "FIRST..END")]
    seeds: Option<String>,
    /// Stop after so many minutes; without this, at the end of the seeds
    #[arg(long)]
    minutes: Option<f64>,
}

/// Builds the simulation, optimised but with its checks, and runs it. Without seeds it begins at a
/// number that follows from the time, so that every run sees others, and says which.
///
/// # Errors
/// A seed fails, and has been printed.
pub fn run(options: &Options) -> Result<String> {
    let seeds = options.seeds.clone().unwrap_or_else(|| {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let first = since_1970.map_or(0, |time| time.as_secs()) << 24;
        format!("{first}..{}", u64::MAX)
    });
    println!("seeds {seeds}");
    shell::loud(
        shell::cargo()
            .args(["run", "--quiet", "--release", "--package=outboard-sim"])
            .args(["--example=simulate", "--", &seeds])
            .arg(options.minutes.unwrap_or(0.0).to_string())
            // The oracle is made of assertions; those of the TCP itself are wanted as well.
            .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
            .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
    )?;
    Ok("no seed failed".into())
}
