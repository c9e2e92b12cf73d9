//! `outboard lab`: experiments on this machine, engine and kernel side by side.

mod begun;
mod grouped;
mod listed;
mod only;
mod options;
mod results;
mod shaped;
mod watch;

use ::lab::flood::experiment as flood;
use ::lab::{goodput, installed, programs, respond, stateless, whole_file};
use anyhow::{Context, Result};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Run experiments on this machine, engine and kernel side by side
///
/// Each makes network namespaces of its own, touches no interface of yours, and leaves nothing
/// behind. What it needs and does not find, it names.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab run web --quick")]
pub struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    List(listed::List),
    Run(shaped::Run),
    TcpServers(shaped::TcpServers),
    All(shaped::All),
    Report(results::Report),
    Compare(results::Compare),
    Installed(Installed),
    Goodput(Goodput),
    Stateless(Stateless),
    Respond(Respond),
    Flood(Flood),
    Programs(Programs),
}

/// What a user gets who sets nothing: nginx, HAProxy, memcached, redis, PostgreSQL, ZeroMQ, sockperf and iperf3
///
/// On the kernel and on the engine; nothing is pinned, and the engine's settings are the defaults. So are the
/// servers', but nginx writes no access log, keeps files open and lets connections live, redis saves nothing, and
/// PostgreSQL does not wait for its disk (fsync=off). A program that is not installed is left out, with a note. All are measured in turn, several rounds; the
/// table shows medians, and the ratio to the kernel's with its interval and the probability that the
/// true one is in it. The floor is the stateless responder under the same load: what the client alone
/// costs. At a rate, latency counts from when a request was due. A measurement that fails is a note;
/// Ctrl-C ends it with what it has. Needs root, nginx and wrk.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab installed --quick --only nginx")]
struct Installed {
    /// Fewer and shorter rounds: a first impression in six minutes
    #[arg(long)]
    quick: bool,
    /// Rounds; each measures everything on all [default: 7, quick: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Seconds of each measurement [default: 5, quick: 1]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Only the cases whose names contain one of these words
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// One more engine in each round: another outboard binary or, if it ends in .toml, this one with
    /// these settings; may be given several times
    #[arg(long, value_name = "FILE")]
    beside: Vec<std::path::PathBuf>,
    /// Leave out the floor
    #[arg(long)]
    no_floor: bool,
    /// Print JSON, with every round and the settings of the machine
    #[arg(long)]
    json: bool,
}

/// How much a sender gets through a long wire that loses frames: the kernel's TCP and the engine's
///
/// nginx sends a large file through a wire in user space with a delay, a bandwidth, a buffer and
/// random loss, the same with the same seeds for both stacks, in turn, by the same congestion control.
/// The clients are on the kernel's TCP. The table shows medians of what arrives, from the beginning of each connection on,
/// and the ratio engine / kernel with its interval and the probability that the true one is in it. Needs root.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  sudo outboard lab goodput --loss 0.1 --loss 1 --rounds 5\n  \
sudo outboard lab goodput --congestion bbr --burst 9\n\n\
By loss, round trip, bandwidth or beside another, with plots:\n  \
sudo outboard lab run goodput long-paths wide-paths fairness"
)]
struct Goodput {
    /// Rounds; each measures both stacks under every loss
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Percent of all TCP segments that are lost, each way; may be given several times
    #[arg(long, value_name = "PERCENT", default_values_t = [1.0], value_parser = percent)]
    loss: Vec<f64>,
    /// Frames that are lost at once, at most, instead of one by one; as many are lost in all
    #[arg(long, value_name = "N", default_value_t = 1)]
    burst: u16,
    /// The congestion control of both stacks; Linux's BBR is version 1, the engine's version 3
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    congestion: Congestion,
    /// Connections at once; together they should stay below the bandwidth
    #[arg(short, long, value_name = "N", default_value_t = goodput::Plan::CONNECTIONS)]
    connections: usize,
    /// Milliseconds of a round trip
    #[arg(long, value_name = "MS", default_value_t = goodput::Plan::ROUND_TRIP.as_millis() as u64)]
    round_trip: u64,
    /// Megabits a second, each way
    #[arg(long, value_name = "MBIT", default_value_t = goodput::Plan::BANDWIDTH / 1_000_000)]
    bandwidth: u64,
    /// Kilobytes that may wait for bandwidth
    #[arg(long, value_name = "KB", default_value_t = goodput::Plan::QUEUE / 1_000)]
    buffer: usize,
    /// What the seeds begin with: one more each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON, with every round and the settings of the machine
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Congestion {
    #[default]
    Cubic,
    Bbr,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err("must be from 0 to 100".into())
    }
}

/// The stateless responder and the load client together, beside the bare rate of the platform
///
/// In two placements: the driver's receive work of the server's interface, with the responder in
/// it, has a core, and the client has another; or both are on one. Bare is what remains without their work: frames out by AF_XDP,
/// back by a mirror in the driver, in by AF_XDP. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab stateless --quick")]
struct Stateless {
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Rounds; each measures everything [default: 7, quick: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Seconds of each measurement [default: 10, quick: 2]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Connections outstanding at once, and frames on their way in the bare measurement
    #[arg(short, long, value_name = "N", default_value_t = 128)]
    connections: usize,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// The stateless responder and nginx on the kernel's TCP: requests a second under wrk
///
/// Over a veth, wrk with two threads; both servers are measured in turn, several rounds. The table
/// shows medians and the ratio, and what a run of the program costs by the kernel's own count.
/// Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab respond --rounds 3 --seconds 4")]
struct Respond {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// Connections of the client
    #[arg(short, long, value_name = "N", default_value_t = 128)]
    connections: usize,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// What real clients notice of a SYN flood: nginx on the kernel's TCP and on the engine
///
/// A sender with a core of its own sends SYNs as fast as that core can, each from another made-up
/// address and port; server and engine share the other core. Clients come one after another, each
/// with one request on a connection of its own. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab flood --rounds 3 --seconds 10")]
struct Flood {
    /// Rounds; each floods both stacks
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Seconds during which clients come
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
}

/// Unmodified programs on the kernel and on the engine: do they serve as they should
///
/// Each is started as people start it and serves clients on the kernel's TCP, the lab itself or the
/// programs that people use (curl, psql, rsync, ssh, git and so on); what they get is held against what
/// it has to be, byte by byte, also two hundred at once and while the program reloads. Whether its
/// connections were on the engine is counted. The last column is the rate of short connections, engine /
/// kernel, from two seconds each: an impression, not a measurement. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard lab programs --only nginx --only redis")]
struct Programs {
    /// Only programs whose names contain one of these words
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// Install the Debian packages that are missing (apt-get); services that they bring are not started
    #[arg(long)]
    install: bool,
    /// Write the table into this file, too, below its own first lines (as docs/programs.md)
    #[arg(long, value_name = "FILE")]
    write: Option<std::path::PathBuf>,
}

/// Runs the experiment.
pub fn run(args: Args) -> Result<ExitCode> {
    match &args.experiment {
        Experiment::List(args) => return listed::list(args),
        Experiment::Report(args) => return results::report(args),
        Experiment::Compare(args) => return results::compare(args),
        _ => {}
    }
    crate::rights::check("lab")?;
    // The others have the responder alone, or are looked at one by one.
    if matches!(
        args.experiment,
        Experiment::Installed(_)
            | Experiment::Goodput(_)
            | Experiment::Flood(_)
            | Experiment::Programs(_)
    ) {
        crate::run::library::check()?;
    }
    match args.experiment {
        Experiment::Run(args) => grouped::run(&args),
        Experiment::TcpServers(args) => args.run(),
        Experiment::All(args) => args.run(),
        Experiment::Installed(args) => run_installed(&args),
        Experiment::Goodput(args) => run_goodput(&args),
        Experiment::Stateless(args) => run_stateless(&args),
        Experiment::Respond(args) => run_respond(&args),
        Experiment::Flood(args) => run_flood(&args),
        Experiment::Programs(args) => run_programs(&args),
        Experiment::List(_) | Experiment::Report(_) | Experiment::Compare(_) => {
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_installed(args: &Installed) -> Result<ExitCode> {
    let (rounds, seconds) = if args.quick { (3, 1) } else { (7, 5) };
    let plan = installed::Plan {
        binary: std::env::current_exe()?,
        beside: args.beside.clone(),
        rounds: args.rounds.unwrap_or(rounds).max(1),
        window: Duration::from_secs(args.seconds.unwrap_or(seconds).max(1)),
        only: args.only.clone(),
        floor: !args.no_floor,
    };
    let stop = shaped::stop_by_signals()?;
    let made = watched(|say| installed::run(&plan, &stop, say))?;
    show(&made.report, args.json.then(|| made.report.to_json()))?;
    Ok(told(made.failed))
}

fn run_goodput(args: &Goodput) -> Result<ExitCode> {
    let plan = goodput::Plan {
        binary: std::env::current_exe()?,
        rounds: args.rounds.max(1),
        window: Duration::from_secs(args.seconds.max(1)),
        losses: args.loss.iter().map(|percent| percent / 100.0).collect(),
        burst: args.burst,
        congestion: match args.congestion {
            Congestion::Cubic => goodput::Congestion::Cubic,
            Congestion::Bbr => goodput::Congestion::Bbr,
        },
        connections: args.connections.max(1),
        round_trip: Duration::from_millis(args.round_trip),
        bandwidth: args.bandwidth.max(1) * 1_000_000,
        queue: args.buffer * 1_000,
        seed: args.seed,
    };
    let stop = shaped::stop_by_signals()?;
    let made = watched(|say| goodput::run(&plan, &stop, say))?;
    show(&made.report, args.json.then(|| made.report.to_json()))?;
    Ok(told(made.failed))
}

fn run_stateless(args: &Stateless) -> Result<ExitCode> {
    let (rounds, seconds) = if args.quick { (3, 2) } else { (7, 10) };
    let plan = stateless::Plan {
        binary: std::env::current_exe()?,
        rounds: args.rounds.unwrap_or(rounds).max(1),
        window: Duration::from_secs(args.seconds.unwrap_or(seconds).max(1)),
        connections: args.connections.max(1),
    };
    let stop = shaped::stop_by_signals()?;
    let made = watched(|say| stateless::run(&plan, &stop, say))?;
    show(&made.report, args.json.then(|| made.report.to_json()))?;
    Ok(told(made.failed))
}

/// Prints a report, or instead of it what programs read.
fn show(report: &impl std::fmt::Display, json: Option<serde_json::Value>) -> Result<ExitCode> {
    match json {
        Some(json) => println!("{}", serde_json::to_string_pretty(&json)?),
        None => print!("{report}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what could not be measured, if there is something; a script is to know, too.
fn told(failed: Option<String>) -> ExitCode {
    let Some(failed) = failed else {
        return ExitCode::SUCCESS;
    };
    crate::closed_pipe::remark(format_args!("outboard: {failed}"));
    ExitCode::FAILURE
}

/// Runs an experiment, and shows what it says that it is doing.
fn watched<T>(experiment: impl FnOnce(&mut dyn FnMut(&str)) -> Result<T>) -> Result<T> {
    let mut progress = std::io::stderr();
    let terminal = progress.is_terminal();
    // What it is now is what is to be measured.
    begun::build();
    let result = experiment(&mut |doing| {
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
    if let Some(replaced) = begun::replaced() {
        crate::closed_pipe::remark(format_args!("outboard: {replaced}"));
    }
    result
}

fn run_respond(args: &Respond) -> Result<ExitCode> {
    let plan = respond::Plan {
        binary: std::env::current_exe()?,
        rounds: args.rounds.max(1),
        window: Duration::from_secs(args.seconds.max(1)),
        connections: args.connections,
    };
    let stop = shaped::stop_by_signals()?;
    let made = watched(|say| respond::run(&plan, &stop, say))?;
    show(&made.report, args.json.then(|| made.report.to_json()))?;
    Ok(told(made.failed))
}

fn run_flood(args: &Flood) -> Result<ExitCode> {
    let plan = flood::Plan {
        binary: std::env::current_exe()?,
        rounds: args.rounds.max(1),
        window: Duration::from_secs(args.seconds.max(1)),
    };
    let stop = shaped::stop_by_signals()?;
    let made = watched(|say| flood::run(&plan, &stop, say))?;
    show(&made.report, None)?;
    Ok(told(made.failed))
}

/// Where the table begins in a file that it is written into.
const TABLE: &str = "<!-- made by `outboard lab programs --write` -->\n";

fn run_programs(args: &Programs) -> Result<ExitCode> {
    let plan = programs::Plan {
        binary: std::env::current_exe()?,
        only: args.only.clone(),
        install: args.install,
    };
    let report = watched(|say| programs::run(&plan, say))?;
    if let Some(file) = &args.write {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let head = text.split(TABLE).next().unwrap_or_default();
        whole_file::write(file, &format!("{head}{TABLE}\n{report}"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    show(&report, None)
}
