//! The same load over ordinary sockets, for comparison.

use anyhow::{Result, bail};
use lab::load::{Asked, Load, Outcome as OfSockets};
use stateless::client::histogram;
use stateless::client::request::Requests;
use std::time::Duration;

use super::job::Job;
use super::outcome::{Outcome, Reached};
use super::progress::{Clock, Progress};

/// Connections that are outstanding if nothing is said.
const CONNECTIONS: usize = 32;

/// Requests after which their order begins anew.
const ORDER: u64 = 1 << 14;

/// Runs the load in this thread.
pub fn run(job: &Job<'_>, rate: Option<f64>, progress: &mut Progress) -> Result<Outcome> {
    let args = job.args;
    let Some(rate) = rate.or(args.rate).or(args.conn_rate) else {
        bail!("--sockets needs a rate: -R, or --conn-rate with --close");
    };
    let close = args.per_connection() == Some(1);
    if args.conn_rate.is_some() && !close {
        bail!(
            "with --sockets, --conn-rate needs --close: otherwise give the rate of requests (-R)"
        );
    }
    let requests = super::request::all(job)?;
    let connections = args.connections.map_or(Ok(CONNECTIONS), usize::try_from)?;
    let load = Load {
        server: job.url.server,
        path: job.url.path.clone(),
        close,
        connections,
        rate,
        duration: match (args.lasts(), args.requests) {
            (Some(duration), _) => duration,
            // The last of them is due by then.
            (None, Some(requests)) => Duration::from_secs_f64(requests as f64 / rate + 1.0),
            (None, None) => Duration::from_secs(10),
        },
        grace: args.grace,
    };
    let asked = asked(&requests, close, args.requests);
    let mut clock = Clock::new();
    let outcome = load.run_asking(&asked, Duration::from_secs(1), |so_far| {
        let latency = in_microseconds(so_far);
        clock.tick(reached(so_far, close, connections), &latency, progress);
    })?;
    let mut progress_at_end = ended(&outcome, close, connections);
    if outcome.unanswered() > 0 {
        // Nothing came after the last answer, and waiting in vain is no part of a rate.
        progress_at_end.seconds = outcome.took.max(outcome.window).as_secs_f64();
    }
    let latency = in_microseconds(&outcome);
    clock.finish(progress_at_end, &latency, progress);
    Ok(Outcome {
        progress: progress_at_end,
        // With -n it ends when all is begun.
        lasted: load.duration.as_secs_f64().min(outcome.due as f64 / rate),
        of_connections: false,
        latency,
        seconds: clock.seconds,
        details: None,
        users: None,
        seed: None,
    })
}

/// The requests of the stateless client, in the order of its first connections.
fn asked(requests: &Requests, close: bool, limit: Option<u64>) -> Asked {
    Asked {
        texts: (0..requests.patterns())
            .map(|pattern| requests.text(pattern, close).to_vec())
            .collect(),
        wanted: Vec::new(),
        order: (0..ORDER)
            .map(|number| requests.pattern_of(number, 0) as u16)
            .collect(),
        limit,
        due: Vec::new(),
    }
}

/// How far it is in the end: nothing more is waited for, so what was due and has no answer by now failed.
pub fn ended(outcome: &OfSockets, close: bool, connections: usize) -> Reached {
    let reached = reached(outcome, close, connections);
    Reached {
        unfinished: outcome.unanswered(),
        errors: reached.errors + outcome.unanswered(),
        ..reached
    }
}

/// How far it is.
pub fn reached(outcome: &OfSockets, close: bool, connections: usize) -> Reached {
    Reached {
        seconds: outcome.took.as_secs_f64(),
        outstanding: outcome.unanswered().min(connections as u64),
        connections: if close {
            outcome.answered
        } else {
            connections as u64
        },
        requests: outcome.answered,
        bytes: outcome.bytes,
        errors: outcome.failed,
        backlog: outcome.backlog,
        unfinished: 0,
    }
}

/// Its latencies, as reports have them.
pub fn in_microseconds(outcome: &OfSockets) -> hdrhistogram::Histogram<u64> {
    let mut histogram = histogram();
    for value in outcome.latency.iter_recorded() {
        let us = value.value_iterated_to() / 1000;
        histogram.saturating_record_n(us, value.count_since_last_iteration());
    }
    histogram
}
