//! The highest rate without loss.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::job::Job;
use super::outcome::Outcome;
use super::progress::{Progress, short};

/// Where the search begins if nothing is said.
const FIRST: f64 = 1000.0;
/// It ends when what is known to be carried is this close to what is known not to be.
const CLOSE: f64 = 1.05;
/// Most trials.
const TRIALS: usize = 40;
/// Of what was due, so much must have been done.
const KEPT_UP: f64 = 0.99;
/// What was due and not begun at the end must have been due for less than this, in seconds: the end
/// may be noticed late.
const LATE: f64 = 0.001;

/// One trial.
struct Trial {
    rate: f64,
    carried: bool,
    outcome: Outcome,
}

/// Tries rates until the highest without loss is known.
pub fn run(job: &Job<'_>) -> Result<ExitCode> {
    let args = job.args;
    let mut best: Option<f64> = None;
    let mut worst: Option<f64> = None;
    let mut trials: Vec<Trial> = Vec::new();
    let mut rate = args.rate.or(args.conn_rate).unwrap_or(FIRST);
    if !args.json {
        println!("      rate  carried      done/s      lost    errors   backlog      p99");
    }
    for _ in 0..TRIALS {
        let outcome = job.run(Some(rate), &mut Progress::silent())?;
        let carried = is_carried(&outcome, rate);
        if !args.json {
            print_line(rate, carried, &outcome);
        }
        trials.push(Trial {
            rate,
            carried,
            outcome,
        });
        if carried {
            best = Some(best.map_or(rate, |best| best.max(rate)));
        } else {
            worst = Some(worst.map_or(rate, |worst| worst.min(rate)));
        }
        rate = match (best, worst) {
            (Some(best), None) => best * 2.0,
            (None, Some(worst)) if worst > 1.0 => worst / 4.0,
            // Equal ratios: rates are judged by their ratios.
            (Some(best), Some(worst)) if worst / best > CLOSE => (best * worst).sqrt(),
            _ => break,
        };
    }
    let best = best.unwrap_or(0.0);
    let passed = args.expect.is_none_or(|expected| best >= expected);
    if args.json {
        let trials: Vec<_> = trials
            .iter()
            .map(|trial| {
                json!({
                    "rate": trial.rate,
                    "carried": trial.carried,
                    "requests": trial.outcome.progress.requests,
                    "connections": trial.outcome.progress.connections,
                    "errors": trial.outcome.progress.errors,
                    "backlog": trial.outcome.progress.backlog,
                })
            })
            .collect();
        let result = json!({
            "rate_without_loss": best,
            "expected": args.expect,
            "passed": passed,
            "trials": trials,
        });
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        println!("Highest rate without loss: {}/s", short(best));
        if let Some(expected) = args.expect {
            let verdict = if passed { "PASS" } else { "FAIL" };
            println!("{verdict}: {}/s was expected", short(expected));
        }
    }
    Ok(if passed && best > 0.0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether all was answered, nothing was lost, and the rate was kept.
fn is_carried(outcome: &Outcome, rate: f64) -> bool {
    let due = rate * outcome.lasted;
    outcome.is_without_loss()
        && outcome.done() as f64 >= KEPT_UP * due
        && outcome.progress.backlog as f64 <= LATE * rate
}

fn print_line(rate: f64, carried: bool, outcome: &Outcome) {
    let reached = &outcome.progress;
    let lost = outcome
        .details
        .as_ref()
        .map_or(0, |details| details.counters.losses());
    println!(
        "{:>10} {:>8} {:>11} {lost:>9} {:>9} {:>9} {:>8}",
        short(rate),
        if carried { "yes" } else { "no" },
        short(outcome.done() as f64 / outcome.lasted.max(1e-9)),
        reached.errors,
        reached.backlog,
        super::progress::time(outcome.latency.value_at_quantile(0.99) as f64),
    );
}

#[cfg(test)]
mod tests {
    use super::is_carried;
    use crate::load::outcome::{Outcome, Reached};

    /// Of connections of three requests and of requests over few connections, in ten seconds.
    #[test]
    fn a_rate_is_carried_if_what_was_due_was_done() {
        let outcome = |of_connections, connections, requests, backlog| Outcome {
            progress: Reached {
                connections,
                requests,
                backlog,
                ..Reached::default()
            },
            lasted: 10.0,
            of_connections,
            latency: stateless::client::histogram(),
            seconds: Vec::new(),
            details: None,
            users: None,
            seed: None,
        };
        assert!(is_carried(&outcome(true, 10_000, 30_000, 0), 1_000.0));
        // Half of the connections have more requests than there were to be connections.
        assert!(!is_carried(&outcome(true, 5_000, 15_000, 0), 1_000.0));
        assert!(is_carried(&outcome(false, 100, 10_000, 0), 1_000.0));
        assert!(!is_carried(&outcome(false, 10_000, 5_000, 0), 1_000.0));
        // It did not keep up, and was late by a twentieth of a second in the end.
        assert!(!is_carried(&outcome(true, 9_950, 29_850, 50), 1_000.0));
        assert!(is_carried(&outcome(true, 9_999, 29_997, 1), 1_000.0));
    }
}
