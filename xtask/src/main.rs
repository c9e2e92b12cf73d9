//! The project's own checks and chores: `cargo xtask ci` is the gate that every change passes.
#![forbid(unsafe_code)]

mod arrows;
mod beside;
mod differ;
mod fuzz;
mod gate;
mod instructions;
mod lengths;
mod machines;
mod others;
mod requirements;
mod shell;
mod simulate;
mod sources;
mod suites;
mod tally;
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
    /// Run packet scripts by hand: `cargo xtask script FILE… [--on linux] [--ip v6]`
    Script {
        /// Scripts, and where to run them: `-- --help` lists what there is
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// Say which requirements of the RFCs are cited by code and by tests
    Requirements {
        /// List each requirement that is still pending
        #[arg(long)]
        missing: bool,
    },
    /// Count the instructions that a segment costs, and compare with what it may cost
    Instructions {
        /// Write what was counted as the new baseline
        #[arg(long)]
        accept: bool,
    },
    /// Run random programs of socket calls on the kernel and on the engine, until one differs:
    /// `cargo xtask differ --minutes 10`; `-- --help` lists what there is
    Differ {
        /// Passed on
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Try the engine on other kernels and drivers, in emulated machines (takes minutes each)
    Machines(machines::Options),
    /// Run the test suites of other projects on the kernel and on the engine (as root, for minutes)
    Suites(others::Options),
    /// Run the fuzzers, each for a while (needs cargo-fuzz and a nightly compiler)
    Fuzz(fuzz::Options),
    /// Run simulated scenarios until one fails, and say how to have it again
    Simulate(simulate::Options),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Chore::Ci { steps } => gate::run(&steps),
        Chore::Script { arguments } => script(&arguments),
        Chore::Requirements { missing } => report(requirements::check(missing)),
        Chore::Instructions { accept } => report(
            instructions::check(accept).map(|said| said.unwrap_or_else(|| "needs valgrind".into())),
        ),
        Chore::Differ { arguments } => report(differ::run(&arguments)),
        Chore::Machines(options) => report(machines::run(&options)),
        Chore::Suites(options) => report(others::run(&options)),
        Chore::Fuzz(options) => report(fuzz::run(&options)),
        Chore::Simulate(options) => report(simulate::run(&options)),
    }
}

/// The program that runs them knows both stacks, which this one must not.
fn script(arguments: &[String]) -> ExitCode {
    let run = shell::loud(
        shell::cargo()
            .args(["run", "--quiet", "--package=outboard-scripts", "--"])
            .args(arguments),
    );
    report(run.map(|()| "every script holds".into()))
}

fn report(outcome: anyhow::Result<String>) -> ExitCode {
    match outcome {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
