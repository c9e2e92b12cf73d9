//! How experiments are to be run, as a command is told it and as a group notes it.

use ::lab::experiment::group::Told;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// How experiments are run.
#[derive(clap::Args)]
pub struct Options {
    /// A first impression: fewer levels, rounds and seconds
    #[arg(long)]
    pub quick: bool,
    /// Where directories of runs are made: NAME-1, NAME-2 and so on; those of a group are in that of the group
    #[arg(long, value_name = "DIR", default_value = "outboard-lab")]
    pub into: PathBuf,
    /// Only these levels of an axis; of the axis "subject", only these subjects
    #[arg(long, value_name = "AXIS=LEVEL", value_parser = only)]
    pub only: Vec<(String, String)>,
    /// Rounds at most [default: 25, quick: 2 or 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Seconds of each measurement [default: as `lab list` says]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Minutes after which no measurement begins, for each experiment [default: 240, quick: 5; where the least rounds
    /// take longer, what they take]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Repeat until intervals reach no further from their medians, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub precision: f64,
    /// The access log that `trace` and `web-loads` replay, in Common or Combined Log Format [default: a small one]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Replay the log also at N times its own rate, beside the loads that `trace` has; may be given several times
    #[arg(long = "speed", value_name = "N", value_parser = speed)]
    pub speeds: Vec<f64>,
    /// What the order of measurements begins with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn only(text: &str) -> Result<(String, String), String> {
    let (axis, level) = text.split_once('=').ok_or("is not AXIS=LEVEL")?;
    Ok((axis.to_owned(), level.to_owned()))
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match speed > 0.0 && speed.is_finite() {
        true => Ok(speed),
        false => Err("must be more than 0".into()),
    }
}

impl Options {
    /// As a group notes it, to go on with what has not begun.
    ///
    /// # Errors
    /// There is no such log.
    pub fn told(&self) -> Result<Told> {
        Ok(Told {
            quick: self.quick,
            only: self.only.clone(),
            rounds: self.rounds,
            seconds: self.seconds,
            limit: self.limit,
            precision: self.precision,
            log: self.log.as_deref().map(whole).transpose()?,
            speeds: self.speeds.clone(),
            seed: self.seed,
        })
    }

    /// What a group was told, with another limit, if there is one.
    pub fn of(told: &Told, limit: Option<u64>) -> Self {
        Self {
            quick: told.quick,
            // Where the directory of the group is, whoever goes on with it knows.
            into: PathBuf::new(),
            only: told.only.clone(),
            rounds: told.rounds,
            seconds: told.seconds,
            limit: limit.or(told.limit),
            precision: told.precision,
            log: told.log.clone(),
            speeds: told.speeds.clone(),
            seed: told.seed,
        }
    }
}

/// The whole path of a log.
pub fn whole(log: &Path) -> Result<PathBuf> {
    let whole = log.canonicalize();
    whole.with_context(|| format!("cannot open {}", log.display()))
}
