//! People instead of a rate, as SURGE has them: each asks, has its answer, pauses, and asks again.

use anyhow::{Result, bail};
use lab::load::users::Users;
use lab::workload::surge::Popularity;
use lab::workload::users::User;
use stateless::client::request::Requests;
use std::sync::Arc;
use std::time::Duration;

use super::job::Job;
use super::outcome::{Outcome, Reached};
use super::progress::{Clock, Progress};
use super::sockets::{ended, in_microseconds, reached};

/// Connections at once if nothing is said: fewer than a process may have descriptors, as a rule.
const CONNECTIONS: usize = 512;

/// Draws by which it is seen how often a pattern is asked for.
const DRAWS: u64 = 1 << 14;

/// Runs so many users in this thread.
pub fn run(job: &Job<'_>, count: usize, progress: &mut Progress) -> Result<Outcome> {
    let args = job.args;
    let requests = super::request::all(job)?;
    let texts: Vec<Vec<u8>> = (0..requests.patterns())
        .map(|pattern| requests.text(pattern, true).to_vec())
        .collect();
    let connections = args.connections.map_or(Ok(CONNECTIONS), usize::try_from)?;
    let duration = args.lasts().unwrap_or(Duration::from_secs(10));
    let seed = job.seed()?;
    let popular = Arc::new(Popularity::weighted(weights(&requests))?);
    let users: Vec<User> = (0..count as u64)
        .map(|number| User::new(&popular, seed, number))
        .collect();
    let load = Users {
        server: job.url.server,
        texts: &texts,
        connections,
        duration,
        grace: args.grace,
    };
    let mut clock = Clock::new();
    let outcome = load.run_watched(users, Duration::from_secs(1), &mut |so_far| {
        let latency = in_microseconds(so_far);
        clock.tick(reached(so_far, true, connections), &latency, progress);
    })?;
    if outcome.due == 0 {
        bail!(
            "none of {count} users has asked for anything in {duration:?}: they pause for seconds and for minutes, so \
             have more of them, or a longer -d"
        );
    }
    let latency = in_microseconds(&outcome);
    let at_end = Reached {
        // Who pauses in the end has asked for nothing for a while, which is a part of the time.
        seconds: outcome.took.max(outcome.window).as_secs_f64(),
        ..ended(&outcome, true, connections)
    };
    clock.finish(at_end, &latency, progress);
    Ok(Outcome {
        progress: at_end,
        lasted: outcome.window.as_secs_f64(),
        of_connections: false,
        latency,
        seconds: clock.seconds,
        details: None,
        users: Some(count),
        seed: Some(seed),
    })
}

/// How often each pattern is asked for, beside the others.
fn weights(requests: &Requests) -> Vec<f64> {
    let mut weights = vec![0.0; requests.patterns()];
    for number in 0..DRAWS {
        weights[requests.pattern_of(number, 0)] += 1.0;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::weights;
    use stateless::client::request::{Common, Pattern, Requests};

    #[test]
    fn paths_are_asked_for_as_often_as_they_weigh() {
        let common = Common {
            host: "10.77.0.1".into(),
            headers: Vec::new(),
            head_only: false,
        };
        let pattern = |path: &str, weight: f64| Pattern {
            path: path.into(),
            weight,
        };
        let patterns = [pattern("/a", 1.0), pattern("/b", 3.0)];
        let weights = weights(&Requests::new(&common, &patterns).expect("requests"));
        let share = weights[1] / weights.iter().sum::<f64>();
        // Three deviations of so many draws.
        assert!((0.739..0.761).contains(&share), "{share}");
    }
}
