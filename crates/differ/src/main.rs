//! Runs programs by seed or from files, and makes what fails small.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use differ::bench::{Bench, Binaries, Outcome};
use differ::program::{Program, Step};
use differ::{generate, kept, shrink};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Runs random programs of socket calls on the kernel and on the engine, and compares.
#[derive(Parser)]
#[command(name = "cargo xtask differ", bin_name = "cargo xtask differ")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    endless: Endless,
}

#[derive(Args)]
struct Endless {
    /// The first seed; without it one that follows from the time
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after so many minutes; 0 for never
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// Stop after so many programs
    #[arg(long)]
    programs: Option<u64>,
    /// Where programs that fail are written, shrunk
    #[arg(long, default_value = "target/differ")]
    failures: PathBuf,
    /// Do not stop at the first failure
    #[arg(long)]
    go_on: bool,
    /// Leave failures as long as they are: the seed is enough to have them again
    #[arg(long)]
    no_shrink: bool,
    /// Pass over programs that make one of these calls, for example fork,pass; engine: that stop it
    #[arg(long, value_delimiter = ',', value_name = "CALLS")]
    without: Vec<String>,
}

impl Endless {
    /// Whether the program makes a call that is to be passed over.
    fn passes_over(&self, program: &Program) -> bool {
        program.steps.iter().any(|step| match step {
            Step::Do(_, call) => self.without.iter().any(|name| *name == call.name()),
            Step::Engine(_) => self.without.iter().any(|name| name == "engine"),
            _ => false,
        })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Run programs from files
    Run {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Run the kept programs: those that must agree, and those known not to
    Kept,
    /// Make a program that fails smaller
    Shrink {
        /// The program
        file: PathBuf,
        /// Where the smaller one goes
        out: PathBuf,
    },
    /// Print what happens on the kernel, step by step
    Show {
        /// The program
        file: PathBuf,
    },
    /// Print the program of a seed
    Print {
        /// The seed
        seed: u64,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        None => endless(&cli.endless),
        Some(Command::Run { files }) => run(files),
        Some(Command::Kept) => run_kept(),
        Some(Command::Shrink { file, out }) => shrink_file(file, out),
        Some(Command::Show { file }) => show(file),
        Some(Command::Print { seed }) => {
            print!("{}", generate::program(*seed).to_text());
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<Bench> {
    let own = std::env::current_exe()?;
    let beside = own.parent().context("an executable is in a directory")?;
    Bench::new(Binaries {
        outboard: beside.join("outboard"),
        actor: beside.join("differ-actor"),
    })
}

/// Shrinking takes minutes, and one defect fails many programs.
const SHRUNK_OF_A_KIND: u32 = 2;

fn endless(options: &Endless) -> Result<bool> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = options
        .seed
        .unwrap_or_else(|| since_1970.map_or(0, |time| time.as_secs()) << 16);
    let mut bench = bench()?;
    let begin = Instant::now();
    let (mut same, mut parted, mut unsteady, mut late, mut failed) = (0, 0, 0, 0, 0);
    let mut last_said = Instant::now();
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    let mut seed = first;
    println!("seeds from {first}");
    loop {
        let program = generate::program(seed);
        if options.passes_over(&program) {
            seed += 1;
            continue;
        }
        match bench
            .run(&program)
            .with_context(|| format!("seed {seed}"))?
        {
            Outcome::Same(counts) => {
                same += 1;
                late += counts.late;
            }
            Outcome::Parted => parted += 1,
            Outcome::Unsteady => unsteady += 1,
            Outcome::Once(difference) => {
                println!("seed {seed} failed once, and not again: {difference}");
                if difference.kind.is_grave() {
                    failed += 1;
                    keep(&options.failures, seed, &program)?;
                }
            }
            Outcome::Differs(difference) => {
                failed += 1;
                println!("seed {seed} FAILS: {difference}");
                let kind = kinds.entry(format!("{:?}", difference.kind)).or_default();
                *kind += 1;
                if !options.no_shrink && *kind <= SHRUNK_OF_A_KIND {
                    let path = options.failures.join(format!("{seed}.json"));
                    let small = small(&mut bench, &program)?;
                    keep(&options.failures, seed, &small)?;
                    println!("shrunk, in {}:\n{}", path.display(), small.to_text());
                }
            }
        }
        seed += 1;
        let over = options.minutes > 0.0
            && begin.elapsed() > Duration::from_secs_f64(options.minutes * 60.0)
            || options.programs.is_some_and(|most| seed - first >= most)
            || failed > 0 && !options.go_on;
        if over || last_said.elapsed() > Duration::from_secs(60) {
            last_said = Instant::now();
            println!(
                "{} programs up to seed {}: {same} agree, {parted} as far as they compare, \
                 {unsteady} differ on the kernel, {failed} FAIL; {late} calls repeated; \
                 {} connections on the engine",
                seed - first,
                seed - 1,
                bench.offloaded(),
            );
        }
        if over {
            return Ok(failed == 0);
        }
    }
}

/// Keeps a program that has failed.
fn keep(failures: &Path, seed: u64, program: &Program) -> Result<()> {
    std::fs::create_dir_all(failures)?;
    std::fs::write(failures.join(format!("{seed}.json")), program.to_text())?;
    Ok(())
}

/// Shrinks a program that fails. What it is said to show is where it differs in the end.
fn small(bench: &mut Bench, program: &Program) -> Result<Program> {
    let Some(difference) = bench.difference(program)? else {
        return Ok(program.clone());
    };
    // What comes after is not needed, unless it is the end of all that differs.
    let mut program = program.clone();
    program.steps.truncate(difference.step + 1);
    let mut last = difference.clone();
    let mut shrunk = shrink::shrink(&program, |candidate| {
        let found = bench.difference(candidate)?;
        let same = found.filter(|found| found.kind == difference.kind);
        let fails = same.is_some();
        if let Some(same) = same {
            last = same;
        }
        Ok(fails)
    })?;
    shrunk.about = format!("{}: {}", program.about, last.text);
    Ok(shrunk)
}

fn run(files: &[PathBuf]) -> Result<bool> {
    let mut bench = bench()?;
    let mut good = true;
    for file in files {
        let program = kept::read(file)?;
        let outcome = bench.run(&program)?;
        good &= matches!(outcome, Outcome::Same(_) | Outcome::Parted);
        println!("{}: {}", file.display(), said(&outcome));
    }
    Ok(good)
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Same(counts) => format!("agrees {counts:?}"),
        Outcome::Parted => "agrees as far as it compares".into(),
        Outcome::Unsteady => "differs on the kernel itself".into(),
        Outcome::Once(difference) => format!("failed once, and not again: {difference}"),
        Outcome::Differs(difference) => format!("FAILS: {difference}"),
    }
}

fn run_kept() -> Result<bool> {
    let mut bench = bench()?;
    let mut good = true;
    for (name, program) in kept::all(&kept::held())? {
        let outcome = bench.run(&program)?;
        let agrees = matches!(outcome, Outcome::Same(_) | Outcome::Parted);
        good &= agrees;
        if !agrees {
            println!("{name}: {}", said(&outcome));
        }
    }
    for (name, program) in kept::all(&kept::open())? {
        match bench.run(&program)? {
            Outcome::Same(_) => println!("{name}: known to fail, and agrees now: move it to held"),
            other => println!("{name}: known to fail: {}", said(&other)),
        }
    }
    Ok(good)
}

fn shrink_file(file: &Path, out: &Path) -> Result<bool> {
    let program = kept::read(file)?;
    let mut bench = bench()?;
    if bench.difference(&program)?.is_none() {
        bail!("it does not fail");
    }
    let small = small(&mut bench, &program)?;
    std::fs::write(out, small.to_text())?;
    print!("{}", small.to_text());
    Ok(true)
}

fn show(file: &Path) -> Result<bool> {
    let program = kept::read(file)?;
    let transcript = bench()?.record(&program, differ::run::Patience::QUICK)?;
    for (index, happened) in transcript.iter().enumerate() {
        match program.steps.get(index) {
            Some(step) => println!("{index}: {step:?}"),
            None => println!("{index}: the end"),
        }
        for (step, outcome) in &happened.returned {
            println!("    {step} returns {outcome}");
        }
        for (connection, view) in happened.views.iter().flatten() {
            println!(
                "    connection {connection}: {:?}, {} bytes",
                view.state,
                view.received.len()
            );
        }
        if let Some(why) = happened.skipped {
            println!("    skipped: {why}");
        }
        if !happened.died.is_empty() {
            println!("    died: {:?}", happened.died);
        }
    }
    Ok(true)
}
