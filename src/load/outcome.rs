//! What came of a load.

use hdrhistogram::Histogram;
use netdev::Counters as DeviceCounters;
use stateless::client::Counters;
use stateless::client::path::Path;
use stateless::client::reply::Addressing;
use stateless::client::sent::Sent;

/// How far a load is, since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reached {
    /// Seconds.
    pub seconds: f64,
    /// Connections that are not over.
    pub outstanding: u64,
    /// Connections opened.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Bytes of TCP payload received.
    pub bytes: u64,
    /// Whatever should not be.
    pub errors: u64,
    /// Requests (or connections) that were due and not begun: by now, or at the end when nothing
    /// more was to be begun.
    pub backlog: u64,
    /// Requests that were under way when nothing more was waited for; they are errors, too.
    pub unfinished: u64,
}

/// A second of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// How far it was at the end.
    pub reached: Reached,
    /// Connections opened a second.
    pub connections_rate: f64,
    /// Requests answered a second.
    pub requests_rate: f64,
    /// Bits of TCP payload received a second.
    pub bits_rate: f64,
    /// Whether it lasted long enough for its rates to mean something.
    pub has_rates: bool,
    /// Latencies in it, in microseconds: mean, median, 99 %, greatest.
    pub latency: [f64; 4],
}

impl Second {
    /// What happened between two moments.
    pub fn between(before: &Reached, after: &Reached, latency: &Histogram<u64>) -> Self {
        let seconds = (after.seconds - before.seconds).max(1e-9);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        Self {
            reached: *after,
            connections_rate: rate(after.connections, before.connections),
            requests_rate: rate(after.requests, before.requests),
            bits_rate: 8.0 * rate(after.bytes, before.bytes),
            has_rates: true,
            latency: [
                latency.mean(),
                latency.value_at_quantile(0.5) as f64,
                latency.value_at_quantile(0.99) as f64,
                latency.max() as f64,
            ],
        }
    }
}

/// What only the stateless client knows.
#[derive(Debug)]
pub struct Details {
    /// What it counted.
    pub counters: Counters,
    /// What it saw of the path.
    pub path: Path,
    /// Which SYNs it sent.
    pub sent: Sent,
    /// What they said.
    pub addressing: Addressing,
    /// What the device counted.
    pub device: DeviceCounters,
    /// Microseconds from when a connection was due until its SYN-ACK.
    pub connect: Histogram<u64>,
    /// Bytes of the ledger.
    pub memory: usize,
}

/// The whole.
#[derive(Debug)]
pub struct Outcome {
    /// How far it came.
    pub progress: Reached,
    /// Seconds in which something was begun: without the wait for the last answers.
    pub lasted: f64,
    /// Whether connections were due, and not requests.
    pub of_connections: bool,
    /// Microseconds from when a request was due until its response was whole.
    pub latency: Histogram<u64>,
    /// Its seconds.
    pub seconds: Vec<Second>,
    /// What the stateless client knows.
    pub details: Option<Details>,
    /// How many people asked, if it was people.
    pub users: Option<usize>,
    /// With this the run can be repeated, if it can be.
    pub seed: Option<u64>,
}

impl Outcome {
    /// Whether nothing was lost, nothing failed, and all that was due was done.
    pub fn is_without_loss(&self) -> bool {
        let lost = self
            .details
            .as_ref()
            .map_or(0, |details| details.counters.losses());
        self.progress.errors == 0 && lost == 0 && self.progress.outstanding == 0
    }

    /// The share of what was tried that failed, 0 to 1; an answer that is wrong was tried once.
    pub fn failed(&self) -> f64 {
        let errors = self.progress.errors;
        let wrong = self.details.as_ref().map_or(0, |details| {
            let counters = &details.counters;
            counters.status_4xx + counters.status_5xx + counters.bodies_wrong
        });
        let tried = self.most_done() + errors - wrong.min(errors);
        errors as f64 / tried.max(1) as f64
    }

    /// Of what was due, how much was done: connections opened, or requests answered.
    pub fn done(&self) -> u64 {
        match self.of_connections {
            true => self.progress.connections,
            false => self.progress.requests,
        }
    }

    /// Requests answered, or connections opened, whichever are more.
    pub fn most_done(&self) -> u64 {
        self.progress.requests.max(self.progress.connections)
    }

    /// What may be wrong if nothing was answered.
    pub fn hint(&self) -> &'static str {
        let Some(details) = &self.details else {
            return "is the server listening?";
        };
        let counters = &details.counters;
        if counters.refused > 0 {
            "the server refuses connections: is it listening on that port?"
        } else if counters.malformed > 0 {
            "what came back has wrong checksums: switch transmit checksum offload off at the peer \
             (ethtool -K IFACE tx off)"
        } else if counters.syn_acks == 0 {
            "no SYN-ACK came back: does the server have a route to the source addresses, and is \
             the port right?"
        } else if counters.timed_out + counters.unfinished > 0 {
            "connections open, and no answer came in time: give more by --timeout and --grace"
        } else {
            "connections open, but no response came whole"
        }
    }
}
