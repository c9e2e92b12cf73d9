//! `outboard top`: who is served, how much, and what it costs, again and again.
//!
//! | file | what |
//! | --- | --- |
//! | here | options, and the loop |
//! | `sample` | what the engine said at two moments, and what happened between them |
//! | `screen` | that for people: a page on a terminal, a line elsewhere |

mod sample;
mod screen;

use crate::control::{Control, Engine, out_of_place};
use anyhow::Result;
use queue_pair::control::{Reply, Request};
use sample::{Between, Sample};
use screen::History;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show who is served by the engine, how much, and what it costs
///
/// A page on a terminal, refreshed until Ctrl-C; elsewhere a line each time, for logs and scripts.
/// Rates of programs are of the connections that they have; the line above counts all.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  outboard top\n  outboard top --program nginx --sort retrans\n  \
    outboard top -n 10 --interval 5s | tee load.log"
)]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// How often it is looked at
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// End after so many times
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// Which program stands first
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Sort,
    /// Show programs with this in their name only
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

/// Which program stands first.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// That of the most bytes a second.
    #[default]
    Bytes,
    /// That of the most connections.
    Conns,
    /// That of the most segments sent again a second.
    Retrans,
}

fn interval(text: &str) -> Result<Duration, String> {
    let wrong = "write a time such as 500ms or 2s";
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').ok_or(wrong)?, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.05..=3600.0).contains(&(number * scale)) => {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err(wrong.into()),
    }
}

/// Looks until told to stop.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut control = args.engine.connect()?;
    let terminal = std::io::stdout().is_terminal();
    let mut history = History::default();
    let mut before = take(&mut control)?;
    let mut lines = 0;
    loop {
        std::thread::sleep(args.interval);
        let now = take(&mut control)?;
        let mut between = Between::of(&before, &now);
        before = now;
        between.arrange(args.sort, args.program.as_deref());
        history.add(between.bytes_in + between.bytes_out);
        let text = if terminal {
            screen::page(&between, &history)
        } else {
            screen::line(&between, lines)
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        lines += 1;
        if args.count.is_some_and(|count| lines >= count) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Asks the engine for all that is shown.
fn take(control: &mut Control) -> Result<Sample> {
    let metrics = match control.ask(&Request::Stats)? {
        Reply::Stats(metrics) => metrics,
        other => return Err(out_of_place(&other)),
    };
    let mut sample = Sample::new(Instant::now(), &metrics);
    let mut after = None;
    loop {
        match control.ask(&Request::Sockets {
            after,
            filter: String::new(),
        })? {
            Reply::Sockets { rows, next } => {
                rows.iter().for_each(|row| sample.add(row));
                after = next;
            }
            other => return Err(out_of_place(&other)),
        }
        if after.is_none() {
            return Ok(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_a_measure() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["2", "0s", "1ms", "-1s", "2h", "s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
