//! The project's own checks and chores: `cargo xtask ci` is the gate that every change passes.
#![forbid(unsafe_code)]

mod arrows;
mod gate;
mod lengths;
mod shell;
mod sources;
mod suites;
mod texts;
mod unsafety;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own checks and chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run the gate: all of it, or only the steps that are named
    Ci {
        /// Steps to run, for example `cargo xtask ci clippy arrows`
        steps: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Chore::Ci { steps } => gate::run(&steps),
    }
}
