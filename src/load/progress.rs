//! A line a second, and a bar on a terminal.

use std::io::{IsTerminal, Write};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};

use super::options::Args;
use super::outcome::{Reached, Second};

/// Prints how a load goes on.
pub struct Progress {
    style: Style,
    bar: Option<ProgressBar>,
    lines: u64,
    /// What the bar counts up to: requests, or milliseconds.
    of_requests: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Text,
    Csv,
    Nothing,
}

/// The columns, as those of h1load; but what it calls ttfb is the mean here, of whole responses.
const COLUMNS: &str = "  time   conns  tot_conn   tot_req      tot_bytes    err     cps     rps    bps     mean    p50    p99    max";
/// Lines after which the columns are named again.
const PAGE: u64 = 20;

impl Progress {
    /// As the options want it.
    pub fn new(args: &Args) -> Self {
        let style = if args.csv {
            Style::Csv
        } else if args.quiet || args.json {
            Style::Nothing
        } else {
            Style::Text
        };
        let total = match (args.requests, args.lasts()) {
            (Some(requests), _) => Some(requests),
            (None, Some(time)) => u64::try_from(time.as_millis()).ok(),
            (None, None) => None,
        };
        let wanted = !args.quiet && std::io::stderr().is_terminal();
        let bar = total.filter(|_| wanted).map(|total| {
            let bar = ProgressBar::new(total);
            let style = ProgressStyle::with_template("{wide_bar} {percent:>3}% {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            style,
            bar,
            lines: 0,
            of_requests: args.requests.is_some(),
        }
    }

    /// Prints nothing.
    pub fn silent() -> Self {
        Self {
            style: Style::Nothing,
            bar: None,
            lines: 0,
            of_requests: false,
        }
    }

    /// Prints a line.
    pub fn second(&mut self, second: &Second) {
        let mut text = String::new();
        match self.style {
            Style::Text => {
                if self.lines.is_multiple_of(PAGE) {
                    text += COLUMNS;
                    text.push('\n');
                }
                text += &line(second);
            }
            Style::Csv => {
                if self.lines == 0 {
                    text += CSV;
                }
                text += &csv(second);
            }
            Style::Nothing => {}
        }
        self.lines += 1;
        let print = || {
            // Nobody misses it if it cannot be written.
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match &self.bar {
            Some(bar) => {
                bar.suspend(print);
                let reached = &second.reached;
                bar.set_position(if self.of_requests {
                    reached.requests.max(reached.connections)
                } else {
                    (reached.seconds * 1000.0) as u64
                });
                bar.set_message(format!("{} req/s", short(second.requests_rate)));
            }
            None => print(),
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Notices when a second is over, and what happened in it.
pub struct Clock {
    before: Reached,
    latency_before: Histogram<u64>,
    next: f64,
    /// The seconds that are over.
    pub seconds: Vec<Second>,
}

/// Of a second, in seconds, what must be over for its rates to mean something.
const SHORTEST: f64 = 0.5;

/// Seconds that are remembered: a day of them.
const MAX_SECONDS: usize = 86_400;

impl Clock {
    /// Begins.
    pub fn new() -> Self {
        Self {
            before: Reached::default(),
            latency_before: stateless::client::histogram(),
            next: 1.0,
            seconds: Vec::new(),
        }
    }

    /// Whether a second is over at this time.
    pub fn is_due(&self, seconds: f64) -> bool {
        seconds >= self.next
    }

    /// Ends the last one, unless it is hardly begun and nothing has come in it. A part of a second
    /// that is too short for rates is printed without them, and is no point of the picture.
    pub fn finish(&mut self, now: Reached, latency: &Histogram<u64>, progress: &mut Progress) {
        let before = &self.before;
        let came = now.requests > before.requests
            || now.connections > before.connections
            || now.errors > before.errors;
        let lasted = now.seconds - before.seconds;
        if !came && lasted <= 0.05 {
            return;
        }
        let is_short = lasted < SHORTEST && !self.seconds.is_empty();
        let second = self.end(now, latency, is_short);
        progress.second(&second);
        if !is_short {
            self.seconds.push(second);
        }
    }

    fn end(&mut self, now: Reached, latency: &Histogram<u64>, is_short: bool) -> Second {
        let mut within = latency.clone();
        // They are of one making, and counts only grow.
        if within.subtract(&self.latency_before).is_err() {
            within.reset();
        }
        let mut second = Second::between(&self.before, &now, &within);
        second.has_rates = !is_short;
        self.latency_before = latency.clone();
        self.before = now;
        second
    }

    /// Ends a second.
    pub fn tick(&mut self, now: Reached, latency: &Histogram<u64>, progress: &mut Progress) {
        while self.next <= now.seconds {
            self.next += 1.0;
        }
        let second = self.end(now, latency, false);
        progress.second(&second);
        if self.seconds.len() < MAX_SECONDS {
            self.seconds.push(second);
        }
    }
}

fn line(second: &Second) -> String {
    let reached = &second.reached;
    let [mean, median, most, max] = second.latency.map(time);
    let rate = |rate: f64| {
        if second.has_rates {
            short(rate)
        } else {
            "-".into()
        }
    };
    format!(
        "{:6.1} {:>7} {:>9} {:>9} {:>14} {:>6} {:>7} {:>7} {:>6} {mean:>8} {median:>6} {most:>6} {max:>6}\n",
        reached.seconds,
        reached.outstanding,
        reached.connections,
        reached.requests,
        reached.bytes,
        reached.errors,
        rate(second.connections_rate),
        rate(second.requests_rate),
        rate(second.bits_rate),
    )
}

const CSV: &str = "seconds,connections_outstanding,connections,requests,bytes,errors,backlog,\
connections_per_second,requests_per_second,bits_per_second,latency_mean_us,latency_p50_us,\
latency_p99_us,latency_max_us\n";

fn csv(second: &Second) -> String {
    let reached = &second.reached;
    let [mean, median, most, max] = second.latency;
    let rate = |rate: f64, digits: usize| {
        if second.has_rates {
            format!("{rate:.digits$}")
        } else {
            String::new()
        }
    };
    format!(
        "{:.3},{},{},{},{},{},{},{},{},{},{mean:.1},{median:.0},{most:.0},{max:.0}\n",
        reached.seconds,
        reached.outstanding,
        reached.connections,
        reached.requests,
        reached.bytes,
        reached.errors,
        reached.backlog,
        rate(second.connections_rate, 1),
        rate(second.requests_rate, 1),
        rate(second.bits_rate, 0),
    )
}

/// A number in five characters or so.
pub fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e5 => format!("{:.0}k", n / 1e3),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Microseconds, for people.
pub fn time(us: f64) -> String {
    match us {
        t if t >= 1e6 => format!("{:.2}s", t / 1e6),
        t if t >= 1e4 => format!("{:.0}ms", t / 1e3),
        t if t >= 1e3 => format!("{:.1}ms", t / 1e3),
        t => format!("{t:.0}us"),
    }
}
