//! What `outboard respond` prints: a line a second, JSON, or the text that Prometheus reads.

use super::Args;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use stateless::responder::counters::{Counter, Counts};
use stateless::responder::run::{Listen, Server};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where lines go, and what the last of them said.
pub struct Report {
    quiet: bool,
    json: bool,
    prometheus: Option<PathBuf>,
    started: Instant,
    last: (Instant, Counts),
    lines: u64,
    /// The segment sizes that are announced over IPv4 and IPv6, if arrivals are shown beside them.
    announced: Option<[u16; 2]>,
    warned: Vec<String>,
    /// Whether nobody reads what is printed any more.
    unread: bool,
}

impl Report {
    /// Nothing said yet.
    pub fn new(args: &Args, announced: [u16; 2]) -> Result<Self> {
        let now = Instant::now();
        if let Some(path) = args.prometheus.as_deref()
            && path.as_os_str() != "-"
        {
            write(path, &Counts::default())?;
        }
        Ok(Self {
            quiet: args.quiet,
            json: args.json,
            prometheus: args.prometheus.clone(),
            started: now,
            last: (now, Counts::default()),
            lines: 0,
            announced: args.witness.then_some(announced),
            warned: Vec::new(),
            unread: false,
        })
    }

    /// Says how it runs; what it has said.
    pub fn begin(&mut self, server: &Server, listen: &[Listen]) -> String {
        let ports: Vec<String> = listen
            .iter()
            .map(|listen| {
                let address = listen.address.map_or("*".into(), |ip| ip.to_string());
                let (first, last) = (listen.ports.start(), listen.ports.end());
                if first == last {
                    format!("{address}:{first}")
                } else {
                    format!("{address}:{first}-{last}")
                }
            })
            .collect();
        let (name, how) = (&server.interface().name, server.describe());
        let said = format!("answering on {name}, {}, {how}", ports.join(", "));
        // On standard error, so that it does not stand between lines of JSON.
        if !self.quiet {
            crate::closed_pipe::remark(format_args!("{said}"));
        }
        said
    }

    /// Says what happened since the last line.
    pub fn line(&mut self, server: &Server, end: bool) -> Result<()> {
        let now = Instant::now();
        let counts = server.counts().context("cannot read the counters")?;
        let seconds = now.duration_since(self.last.0).as_secs_f64();
        let since = counts.since(&self.last.1);
        for warning in server.warnings() {
            self.warn(warning);
        }
        let mut text = String::new();
        if self.json {
            let elapsed = now.duration_since(self.started).as_secs_f64();
            let mut line = object(&counts, &since, elapsed, seconds);
            if let Some(announced) = self.announced {
                let seen = server.seen().context("cannot read what arrived")?;
                line["witness"] = super::seen::json(announced, &seen);
            }
            text += &format!("{line}\n");
        } else if !self.quiet && !end {
            if self.lines.is_multiple_of(20) {
                text += &format!(
                    "{:>9} {:>10} {:>10} {:>9} {:>9} {:>9}\n",
                    "conn/s", "req/s", "resp/s", "Mbit/s", "closes/s", "dropped/s"
                );
            }
            text += &plain(&since, seconds);
            text.push('\n');
        }
        match &self.prometheus {
            Some(path) if path.as_os_str() == "-" => {
                let whole = prometheus(&counts);
                text += if end { &whole } else { "" };
            }
            // It could be written at the start, and clients do not go without answers for it.
            Some(path) => {
                if let Err(error) = write(path, &counts) {
                    self.warn(format!("{error:#}"));
                }
            }
            None => {}
        }
        if end && !self.quiet && !self.json {
            for (counter, count) in counts.iter().filter(|(_, count)| *count > 0) {
                let (name, help) = (counter.name(), counter.help());
                text += &format!("{count:>12}  {name}{help}\n");
            }
        }
        self.print(&text)?;
        self.last = (now, counts);
        self.lines += 1;
        Ok(())
    }

    /// Prints, as long as somebody reads it: it serves others than its reader.
    fn print(&mut self, text: &str) -> Result<()> {
        if self.unread || text.is_empty() {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.unread = true;
                Ok(())
            }
            outcome => outcome.context("cannot write to standard output"),
        }
    }

    /// Says it once, numbers apart.
    fn warn(&mut self, warning: String) {
        let words: String = warning.chars().filter(|c| !c.is_ascii_digit()).collect();
        if !self.warned.contains(&words) {
            crate::closed_pipe::remark(format_args!("outboard: {warning}"));
            self.warned.push(words);
        }
    }
}

/// Writes the file that is kept.
fn write(path: &Path, counts: &Counts) -> Result<()> {
    lab::whole_file::write(path, &prometheus(counts))
        .with_context(|| format!("cannot write --prometheus {}", path.display()))
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

fn dropped(counts: &Counts) -> u64 {
    let drops = counts
        .iter()
        .filter(|(c, _)| c.name().starts_with("dropped_"));
    drops.map(|(_, count)| count).sum()
}

fn plain(since: &Counts, seconds: f64) -> String {
    let per_second = |counter| rate(since.get(counter), seconds);
    format!(
        "{:>9.0} {:>10.0} {:>10.0} {:>9.1} {:>9.0} {:>9.0}",
        per_second(Counter::Syns),
        per_second(Counter::Requests),
        per_second(Counter::Responses),
        per_second(Counter::BytesOut) * 8.0 / 1e6,
        per_second(Counter::Closes),
        rate(dropped(since), seconds),
    )
}

/// Cumulative counters, and rates of the last second.
fn object(counts: &Counts, since: &Counts, elapsed: f64, seconds: f64) -> Value {
    let mut counters: Map<String, Value> = counts
        .iter()
        .map(|(counter, count)| (counter.name().into(), count.into()))
        .collect();
    // Every SYN that was answered was answered by one.
    counters.insert("syn_acks".into(), counts.get(Counter::Syns).into());
    json!({
        "seconds": elapsed,
        "connections_per_second": rate(since.get(Counter::Syns), seconds),
        "requests_per_second": rate(since.get(Counter::Requests), seconds),
        "responses_per_second": rate(since.get(Counter::Responses), seconds),
        "bits_per_second": rate(since.get(Counter::BytesOut), seconds) * 8.0,
        "dropped_per_second": rate(dropped(since), seconds),
        "counters": counters,
    })
}

/// The text exposition format, version 0.0.4.
fn prometheus(counts: &Counts) -> String {
    counts
        .iter()
        .map(|(counter, count)| {
            let name = format!("outboard_respond_{}_total", counter.name());
            let help = counter.help().trim();
            format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_told_in_every_way() {
        let mut counts = Counts::default();
        counts.add(Counter::Syns, 3);
        counts.add(Counter::Forged, 2);
        let object = object(&counts, &counts, 1.0, 2.0);
        assert_eq!(object["counters"]["syns"], 3);
        assert_eq!(object["counters"]["syn_acks"], 3);
        assert_eq!(object["connections_per_second"], 1.5);
        assert_eq!(object["dropped_per_second"], 1.0);
        let text = prometheus(&counts);
        assert!(
            text.contains("\noutboard_respond_dropped_forged_total 2\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3 * Counter::ALL.len());
        assert!(plain(&counts, 1.0).trim_start().starts_with("3 "));
    }
}
