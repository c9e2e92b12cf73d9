//! `outboard lab`: experiments on this machine, engine and kernel side by side.

use ::lab::web;
use anyhow::Result;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Run experiments on this machine, engine and kernel side by side
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    Web(Web),
}

/// nginx on the kernel's TCP and on the engine: throughput, CPU a request, latency
///
/// Server and engine have the first core, the client the second. Both stacks are measured in turn,
/// several rounds; the table shows medians, and the ratio engine / kernel with its 95 % bootstrap
/// interval. Throughput is wrk's; CPU and latency are at a fixed rate of requests, the same for
/// both. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab web --quick --only 'keep-alive, 64'")]
struct Web {
    /// Fewer and shorter rounds: a first impression in some minutes
    #[arg(long)]
    quick: bool,
    /// Rounds; each measures everything on both stacks [default: 7, quick: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Seconds of each measurement [default: 10, quick: 2]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Connections of the client
    #[arg(short, long, value_name = "N", default_value_t = 32)]
    connections: usize,
    /// Only the cases whose names contain one of these words
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// Print JSON, with every round and the settings of the machine
    #[arg(long)]
    json: bool,
}

/// Runs the experiment.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.experiment {
        Experiment::Web(args) => run_web(&args),
    }
}

fn run_web(args: &Web) -> Result<ExitCode> {
    let (rounds, seconds) = if args.quick { (3, 2) } else { (7, 10) };
    let plan = web::Plan {
        binary: std::env::current_exe()?,
        rounds: args.rounds.unwrap_or(rounds).max(1),
        window: Duration::from_secs(args.seconds.unwrap_or(seconds).max(1)),
        only: args.only.clone(),
        connections: args.connections,
    };
    let mut progress = std::io::stderr();
    let terminal = progress.is_terminal();
    let report = web::run(&plan, |doing| {
        // One line that changes on a terminal; elsewhere a line each. Nobody misses it if it
        // cannot be written.
        let _ = if terminal {
            write!(progress, "\r\x1b[K{doing}")
        } else {
            writeln!(progress, "{doing}")
        };
    });
    if terminal {
        eprint!("\r\x1b[K");
    }
    let report = report?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report.to_json())?);
    } else {
        print!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}
