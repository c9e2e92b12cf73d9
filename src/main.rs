//! outboard: a TCP offload engine for Linux servers, in software.
//!
//! One file per subcommand. Each has an `Args`, which says how it is called, and a `run`, which
//! does it; what `run` returns as an error is printed here, in one line.
#![forbid(unsafe_code)]

mod advice;
mod capture;
mod closed_pipe;
mod control;
mod demo;
mod divert;
mod engine;
mod explain;
mod generate;
mod guard;
mod habits;
mod lab;
mod load;
mod log;
mod open_metrics;
mod opener;
mod plan;
mod reload;
mod respond;
mod rights;
mod run;
mod scrape;
mod serve;
mod service;
mod ss;
mod stats;
mod stop;
mod subject;
mod supervisor;
mod top;
mod trace;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sudo outboard demo                           # see it work, on a network of its own
  sudo outboard engine -i eth1                 # an engine on an interface of yours, and
  sudo outboard run -- nginx -g 'daemon off;'  # a program on it
  outboard plan -a 50us -p 80us -o 10us -e 60us

'outboard help COMMAND' says more of each, with an example.";

/// A TCP offload engine for Linux servers, in software.
#[derive(Parser)]
#[command(name = "outboard", version = env!("OUTBOARD_VERSION"), max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Engine(engine::Args),
    Run(run::Args),
    Guard(Box<guard::Args>),
    Serve(serve::Args),
    Service(service::Args),
    Ss(ss::Args),
    Top(top::Args),
    Stats(stats::Args),
    Reload(reload::Args),
    Explain(explain::Args),
    Capture(capture::Args),
    Trace(trace::Args),
    Divert(divert::Args),
    Plan(Box<plan::Args>),
    Respond(Box<respond::Args>),
    Load(Box<load::Args>),
    Lab(lab::Args),
    #[command(hide = true)]
    Generate(generate::Args),
    #[command(hide = true)]
    Opener(opener::Args),
    #[command(hide = true)]
    Subject(subject::Args),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    dispatch(cli.command).unwrap_or_else(|error| {
        closed_pipe::remark(format_args!("outboard: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Ends with what is wrong with the command line, or with the help that was asked for.
fn refuse(error: &clap::Error) -> ! {
    let command = std::env::args().nth(1).unwrap_or_default();
    let instead = habits::instead(&command, error).or_else(|| advice::whole_number(error));
    match instead {
        Some(instead) => {
            closed_pipe::remark(format_args!("outboard: {instead}"));
            std::process::exit(error.exit_code());
        }
        None => error.exit(),
    }
}

impl Command {
    /// Whether it does its work also where nobody reads what it prints, because it serves others.
    fn outlives_its_reader(&self) -> bool {
        match self {
            Command::Engine(args) => !args.only_checks(),
            Command::Serve(_)
            | Command::Respond(_)
            | Command::Opener(_)
            | Command::Run(_)
            | Command::Guard(_) => true,
            _ => false,
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    if !command.outlives_its_reader() {
        closed_pipe::ends_it()?;
    }
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Engine(args) => engine::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Service(args) => service::run(args),
        Command::Run(args) => run::run(args),
        Command::Guard(args) => guard::run(*args),
        Command::Ss(args) => ss::run(args),
        Command::Top(args) => top::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Capture(args) => capture::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Divert(args) => divert::run(args),
        Command::Plan(args) => plan::run(*args),
        Command::Respond(args) => respond::run(*args),
        Command::Load(args) => load::run(*args),
        Command::Lab(args) => lab::run(args),
        Command::Generate(args) => generate::run(args, &Cli::command()),
        Command::Opener(args) => opener::run(&args),
        Command::Subject(args) => subject::run(&args),
    }
}
