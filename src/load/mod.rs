//! `outboard load`: a load client that never wants to be the limit.
//!
//! | file | what |
//! | --- | --- |
//! | `options` | what can be said on the command line |
//! | `foreign` | what other tools are told |
//! | `url` | what is asked for: the address, the paths and their sizes |
//! | `request` | the requests made of that |
//! | `job` | a load, ready to be run |
//! | `target` | the way there, and whether it may be aimed at |
//! | `stateless` | the client of `stateless::client` on AF_XDP |
//! | `sockets` | the same load over ordinary sockets |
//! | `users` | people instead of a rate, over sockets |
//! | `outcome` | what came of it |
//! | `progress` | a line a second |
//! | `report` | the summary, as text and JSON |
//! | `sides` | on which side of a device it was lost, with the responder's counters |
//! | `rewritten` | what the path rewrote, with what the responder saw |
//! | `plot` | the run as a picture |
//! | `search` | the highest rate without loss |

mod foreign;
mod job;
mod options;
mod outcome;
mod plot;
mod progress;
mod report;
mod request;
mod rewritten;
mod search;
mod sides;
mod sockets;
mod stateless;
mod target;
mod url;
mod users;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::closed_pipe::remark;

use job::Job;
pub use options::Args;
use outcome::Outcome;
use progress::Progress;
pub use progress::short;
use url::Url;

impl Job<'_> {
    /// Runs it at what was asked for; `rate` takes the place of what was said of the rate.
    fn run(&self, rate: Option<f64>, progress: &mut Progress) -> Result<Outcome> {
        if let Some(count) = self.args.users {
            users::run(self, count, progress)
        } else if self.args.sockets {
            sockets::run(self, rate, progress)
        } else {
            stateless::run(self, rate, progress)
        }
    }
}

/// Loads the server.
pub fn run(args: Args) -> Result<ExitCode> {
    args.check()?;
    if let Some(path) = &args.plot {
        crate::advice::try_to_write("--plot", path)?;
    }
    let before = args.responder_json.as_deref();
    let before = before.map(sides::read_before).transpose()?;
    let url = Url::parse(&args.url)?;
    let target = target::find(&url, &args)?;
    let job = Job {
        args: &args,
        url,
        target,
    };
    if args.search {
        return search::run(&job);
    }
    let mut progress = Progress::new(&args);
    let outcome = job.run(None, &mut progress)?;
    progress.finish();
    let sides = match (&args.responder_json, before) {
        (Some(path), Some(before)) => Some(sides::join(
            &outcome,
            before.as_ref(),
            &sides::read_settled(path)?,
        )),
        _ => None,
    };
    if args.json {
        let json = report::json(&outcome, sides.as_ref());
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else if !args.csv {
        print!("{}", report::text(&outcome, sides.as_ref(), args.latency));
    }
    match &args.plot {
        Some(_) if outcome.latency.is_empty() => {
            remark(format_args!(
                "outboard: nothing was answered, so there is no picture"
            ));
        }
        Some(path) => plot::draw(&outcome, &title(&args), path)
            .with_context(|| format!("cannot draw --plot {}", path.display()))?,
        None => {}
    }
    Ok(verdict(&outcome, &args))
}

/// Whether that is a success, and if not, why.
fn verdict(outcome: &Outcome, args: &Args) -> ExitCode {
    let reached = &outcome.progress;
    if reached.requests + reached.connections == 0 || (reached.requests == 0 && reached.errors > 0)
    {
        remark(format_args!(
            "outboard: nothing was answered; {}",
            outcome.hint()
        ));
        return ExitCode::FAILURE;
    }
    let failed = outcome.failed();
    if failed > args.max_errors {
        remark(format_args!(
            "outboard: {} failed, {:.3} % of what was tried; --max-errors allows {} %",
            reached.errors,
            failed * 100.0,
            args.max_errors * 100.0
        ));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What a picture says of the load.
fn title(args: &Args) -> String {
    let mut title = args.url.clone();
    if let Some(rate) = args.rate {
        title += &format!(", {rate} requests/s due");
    }
    if let Some(rate) = args.conn_rate {
        title += &format!(", {rate} connections/s due");
    }
    if let Some(users) = args.users {
        title += &format!(", {users} users");
    }
    if let Some(connections) = args.connections {
        title += &format!(", {connections} connections at once");
    }
    title
}
