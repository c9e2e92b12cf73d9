//! `outboard trace`: when the engine did what of single sends.

use crate::control::{Control, Engine, out_of_place};
use ::lab::table::Table;
use anyhow::Result;
use queue_pair::control::{Reply, Request, Traced};
use std::process::ExitCode;

/// Follow the next sends of one connection through the engine
///
/// From `begin` on, the engine keeps when it does what of so many sends, of the connection that sends first: it wakes
/// up, takes the submission, builds a segment, hands it to the device, takes in the acknowledgement, tells the host,
/// and wakes it. `end` prints that. Times are of CLOCK_MONOTONIC, as a program can take its own; bytes are of all
/// traced sends so far, without what is sent again and what the connection had to send before them. It ends by itself
/// after so many sends, or when there is no more room. Only for connections that one process has, and on an engine of
/// one worker. For root and the engine's own user.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  sudo outboard trace begin --sends 10\n  sudo outboard trace end"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Follow the next sends; refused while something is kept for somebody who has not ended it
    Begin {
        #[command(flatten)]
        engine: Engine,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100,
              value_parser = clap::value_parser!(u32).range(1..=10_000))]
        sends: u32,
    },
    /// Follow no more, and print what was kept
    End {
        #[command(flatten)]
        engine: Engine,
        /// Print JSON, with times in nanoseconds of CLOCK_MONOTONIC
        #[arg(long)]
        json: bool,
    },
}

/// Begins, or ends and prints.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Begin { engine, sends } => {
            match engine.connect()?.ask(&Request::Trace { sends })? {
                Reply::Done => {}
                other => return Err(out_of_place(&other)),
            }
        }
        Action::End { engine, json } => {
            let moments = traced(&mut engine.connect()?)?;
            if json {
                println!("{}", serde_json::to_string(&moments)?);
            } else {
                print!("{}", plain(&moments));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn traced(control: &mut Control) -> Result<Vec<Traced>> {
    let mut all = Vec::new();
    loop {
        match control.ask(&Request::Traced)? {
            Reply::Traced { moments, more } => {
                all.extend(moments);
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(out_of_place(&other)),
        }
    }
}

/// A line for each moment: when since the first, how long after the one before, and what.
fn plain(moments: &[Traced]) -> String {
    let Some(first) = moments.first() else {
        return "nothing was kept: `outboard trace begin` begins, and something has to be sent then\n".into();
    };
    let mut table = Table::default();
    table.row(["at (µs)", "after (µs)", "bytes", "what"]);
    let mut last = first.at;
    for it in moments {
        let micros = |from: u64| format!("{:.3}", it.at.saturating_sub(from) as f64 / 1e3);
        let (at, after) = (micros(first.at), micros(last));
        table.row([at, after, it.bytes.to_string(), it.moment.words().into()]);
        last = it.at;
    }
    // The last column is text: to the left.
    table.left(3);
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::{Traced, plain};
    use queue_pair::control::Moment;

    #[test]
    fn moments_are_told_since_the_first_and_since_the_one_before() {
        let at = |at, moment| Traced {
            moment,
            at,
            bytes: 64,
        };
        let moments = [
            at(7_000_000, Moment::Awake),
            at(7_001_500, Moment::Taken),
            at(7_004_000, Moment::Built),
        ];
        let text = plain(&moments);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[2][..5], ["1.500", "1.500", "64", "the", "submission"]);
        assert_eq!(lines[3][..4], ["4.000", "2.500", "64", "a"]);
        assert!(plain(&[]).contains("nothing"));
    }
}
