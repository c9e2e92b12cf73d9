//! `outboard plan`: what offloading will do, said beforehand.
//!
//! | file | what |
//! | --- | --- |
//! | `input` | the file that describes the server, and the flags for a single class |
//! | `written` | distributions, durations and ranges as they are written |
//! | `study` | the answers over a range of loads |
//! | `bounded` | the answers where room is bounded: simulated |
//! | `check` | the answers beside a simulation |
//! | `closed` | the answers where so many clients each wait for their answer |
//! | `preset` | workloads with published sizes |
//! | `compare` | the answers beside measured delays |
//! | `measured` | what was measured: files of `outboard load` and of the lab |
//! | `earlier` | two earlier models beside them |
//! | `ranges` | from which load on, and up to which, something is offloaded |
//! | `uncertain` | what the intervals of fitted inputs leave open |
//! | `verdict` | the answers in words |
//! | `report` | the answers as a table, CSV and JSON |
//! | `plot` | the answers as a picture |
//! | `measurement` | inputs fitted from measurements, and the measurement file |
//! | `counters` | measurements from a running engine and server |
//! | `source` | the tables of the source, reprinted and marked |
//! | `figures` | what its figures show, and whether it follows |

mod bounded;
mod check;
mod closed;
mod compare;
mod counters;
mod earlier;
mod figures;
mod headline;
mod input;
mod measured;
mod measurement;
mod plot;
mod preset;
mod printed;
mod ranges;
mod report;
mod source;
mod study;
mod uncertain;
mod verdict;
pub(crate) mod written;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say beforehand what offloading will do to utilisation, delay and saturation
///
/// Describe the server in a file (--from), or a single class of requests by flags: the time that
/// a request needs for the application (-a), for the protocols on the host (-p), for talking to
/// the engine (-o), and on the engine for control (-k) and protocols (-e). A time is a duration
/// such as 200us, the mean of an exponential distribution.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    outboard plan -a 50us -p 80us -o 10us -e 60us --rates 500..7000\n  \
    outboard plan --from examples/plan.toml --plot plan.svg --policy policy.json\n  \
    outboard plan --measure --pid $(pgrep -o nginx) --windows 4 --window 15s --save measured.toml\n  \
    outboard plan --fit measured.toml --simulate 1\n  \
    outboard plan --fit measured.toml --compare engine=load.json\n  \
    outboard plan -a 30us -p 80us+3us/KB -o 10us -e 60us+2us/KB --preset specweb99\n  \
    outboard plan --laws a=50us,o=80us,y=2,b=20000\n\n\
    The first line of the answer is the verdict. docs/plan.md explains the rest.")]
pub struct Args {
    /// Describe the server by a file (see examples/plan.toml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["application", "fit", "measure", "source_003"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    single: input::Single,
    /// The engine has no cores of its own, but runs on the host's, as where it follows the program that
    /// it serves
    #[arg(long, conflicts_with_all = ["engine_cores", "measure", "source_003"])]
    shared_cores: bool,
    /// Total arrivals a second: one, or a range such as 100..5000 [default: up to saturation]
    #[arg(short, long, value_name = "RATE", value_parser = written::Rates::parse,
          allow_hyphen_values = true)]
    rates: Option<written::Rates>,
    /// Check the answer at the busiest load that both systems carry by a simulation with this seed; with --compare, hold
    /// it at each load of a run of the lab against the time that 99 % of the requests took at most
    #[arg(long, value_name = "SEED")]
    simulate: Option<u64>,
    /// Answer also for a closed loop of up to so many clients, each of which asks again when it has
    /// its answer, as wrk does
    #[arg(long, value_name = "N", conflicts_with_all = ["csv", "measure", "source_003"],
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: Option<u32>,
    /// With --clients: how long a client waits between an answer and its next request
    #[arg(long, value_name = "TIME", requires = "clients", value_parser = written::Seconds::parse)]
    think: Option<written::Seconds>,
    /// Hold the answers against measured delays: kernel=FILE or engine=FILE of `outboard load --json`
    /// (with --clients: of a closed loop of so many), or the results.json of `outboard lab run model`, class
    /// by class: of those with the same names, or FILE#CLASS; may be given several times
    #[arg(long, value_name = "[SYSTEM=]FILE[#CLASS]", value_parser = measured::Source::parse,
          conflicts_with_all = ["csv", "measure", "source_003"])]
    compare: Vec<measured::Source>,
    /// Answer also by LAWS (Shivam and Chase 2003). Its symbols are a and o (times), x and y (host's
    /// and engine's time scale), b (the wire's units a second), p (share offloaded), beta; what is not
    /// said follows from the server that is described
    #[arg(long, value_name = "KEY=VALUE,…", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["csv", "measure", "source_003"])]
    laws: Option<String>,
    /// Answer also by EMO (Gilfeather and Maccabe 2005): latency and overhead of one message. Its times
    /// are nic, host, app, to_host, to_app, share (the host's, of moving and waking); what is not said
    /// follows from the server that is described
    #[arg(long, value_name = "KEY=TIME,…", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["csv", "measure", "source_003"])]
    emo: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line for each load, system and class
    #[arg(long, conflicts_with = "simulate")]
    csv: bool,
    /// Write the answer to a file instead of standard output (-o is the overhead)
    #[arg(short = 'w', long, value_name = "FILE", conflicts_with_all = ["measure", "source_003"])]
    output: Option<PathBuf>,
    /// Requests are large at both stages or at neither: simulate with one draw for a request's times,
    /// and not, as the formulas do, with independent ones
    #[arg(long, requires = "simulate")]
    same_size: bool,
    /// Draw utilisation and delay against load
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write the policy that follows: when connections, and files of which sizes, go to the engine (the
    /// setting `policy` of an engine)
    #[arg(long, value_name = "FILE.json")]
    policy: Option<PathBuf>,
    /// Fit service times from a measurement file (see docs/plan.md), and plan with them
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["application", "measure", "source_003"])]
    fit: Option<PathBuf>,
    #[command(flatten)]
    measure: counters::Measure,
    /// Reprint the tables and figures of the source (document 003), and say what cannot be
    #[arg(long = "source-003", conflicts_with_all =
          ["application", "measure", "rates", "simulate", "json", "csv", "policy"])]
    source_003: bool,
}

impl Args {
    /// Whether there is a server to answer for, besides what the earlier models are told.
    fn describes_a_server(&self) -> bool {
        self.from.is_some() || self.fit.is_some() || self.single.is_given()
    }

    /// Refuses files that cannot be written before there is an answer, or a measurement, to lose.
    fn try_files(&self) -> Result<()> {
        for (option, path) in [
            ("--output", &self.output),
            ("--plot", &self.plot),
            ("--policy", &self.policy),
            ("--save", &self.measure.save),
        ] {
            if let Some(path) = path {
                crate::advice::try_to_write(option, path)?;
            }
        }
        Ok(())
    }

    /// Prints, or writes to the file that was named.
    fn give(&self, text: &str) -> Result<ExitCode> {
        match &self.output {
            Some(path) => {
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write --output {}", path.display()))?;
            }
            None => print!("{text}"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a policy such that an engine that reads it meanwhile has the one before, or this one.
fn write_policy(path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        // A terminal or a pipe is written to, and not replaced; nor is what has another name for it, such as
        // /dev/stdout.
        Ok(there) if !there.is_file() => std::fs::write(path, text),
        _ => ::lab::whole_file::write(path, text),
    }
}

/// Answers.
pub fn run(args: Args) -> Result<ExitCode> {
    args.try_files()?;
    if args.source_003 {
        print!("{}", source::reprint(args.plot.as_deref())?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.measure.measure {
        let measured = counters::measure(&args.measure)?;
        print!("{}", measurement::words(&measured.fits()?));
        return Ok(ExitCode::SUCCESS);
    }
    let (laws, emo) = (args.laws.as_deref(), args.emo.as_deref());
    if (laws.is_some() || emo.is_some()) && !args.describes_a_server() {
        let earlier = earlier::look(laws, emo, None)?;
        let text = if args.json {
            serde_json::to_string_pretty(&earlier.json())? + "\n"
        } else {
            earlier.words()
        };
        return args.give(&text);
    }
    let mut fitted = Vec::new();
    let mut ends = None;
    let mut server = match (&args.from, &args.fit) {
        (Some(path), _) => input::read(path)?,
        (None, Some(path)) => {
            let measured = measurement::read(path)?;
            let place = || format!("in {}", path.display());
            fitted = measured.fits().with_context(place)?;
            let (server, at_ends) = measured.server().with_context(place)?;
            ends = Some(at_ends);
            server
        }
        (None, None) => args.single.server()?,
    };
    server.system.shared |= args.shared_cores;
    if let Some(rates) = args.rates {
        server.rates = Some(rates);
    }
    if args.policy.is_some() && server.sizes.is_none() {
        bail!("a policy needs the sizes of the classes: give each but the last up_to_bytes");
    }
    let study = study::study(&server)?;
    let check = match args.simulate {
        Some(seed) => Some(check::check(&study, seed, args.same_size)?),
        None => None,
    };
    let open = ends.map(|mut ends| {
        ends.favourable.system = server.system;
        ends.unfavourable.system = server.system;
        uncertain::look(&study, &ends)
    });
    let think = args.think.map_or(0.0, |think| think.0);
    let in_loop = match args.clients {
        Some(clients) => Some(closed::look(&server, think, clients)?),
        None => None,
    };
    let compared = if args.compare.is_empty() {
        None
    } else {
        Some(compare::compare(
            &server,
            &args.compare,
            args.clients,
            think,
            args.simulate.map(|seed| check::run(seed, args.same_size)),
        )?)
    };
    let earlier = earlier::look(laws, emo, Some(&server))?;
    let mut text = String::new();
    if args.json {
        let mut json = report::json(&study, check.as_ref(), &fitted, open.as_ref())?;
        json["closed_loop"] = serde_json::to_value(&in_loop)?;
        json["compared"] = serde_json::to_value(&compared)?;
        json["earlier_models"] = earlier.json();
        text += &serde_json::to_string_pretty(&json)?;
        text.push('\n');
    } else if args.csv {
        text += &report::csv(&study);
    } else {
        if !fitted.is_empty() {
            text += &measurement::words(&fitted);
            text.push('\n');
        }
        text += &verdict::words(&study, open.as_ref());
        text.push('\n');
        text += &report::table(&study);
        if let Some(check) = &check {
            text += &format!("\n{check}");
        }
        let more = [
            in_loop.map(|found| found.words()),
            compared.map(|found| found.words()),
            Some(earlier.words()).filter(|words| !words.is_empty()),
        ];
        for words in more.into_iter().flatten() {
            text.push('\n');
            text += &words;
        }
    }
    args.give(&text)?;
    if let Some(path) = &args.plot {
        plot::draw(&study, path)
            .with_context(|| format!("cannot draw --plot {}", path.display()))?;
    }
    if let (Some(path), Some(policy)) = (&args.policy, study.policy()?) {
        write_policy(path, &policy.to_text()?)
            .with_context(|| format!("cannot write --policy {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
