//! Measurements from a running engine and server: `outboard plan --measure`.
//!
//! While a load generator drives the server at one load after another, each window takes the
//! difference of the engine's counters and of the server's run time, and becomes one row of the
//! measurement file. The fitted service time is the slope over the rows.

use super::measurement::{Measurements, Row};
use super::written::Seconds;
use crate::control::{Control, Engine, out_of_place};
use anyhow::{Context, Result, bail};
use lab::sampler;
use queue_pair::control::{Metric, Reply, Request};
use queueing::fit::regression::LEAST_LOADS;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How to measure.
#[derive(clap::Args)]
pub struct Measure {
    /// Read the counters of a running engine and server in several windows, and fit service times;
    /// change the load between the windows
    #[arg(long, requires = "pid")]
    pub measure: bool,
    #[command(flatten)]
    engine: Engine,
    /// The server's process; its children count too
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Windows, each at another load
    #[arg(long, value_name = "N", default_value_t = LEAST_LOADS)]
    windows: usize,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Seconds::parse)]
    window: Seconds,
    /// What counts as a request: connections accepted, or sends of the server (one for each
    /// response up to 64 KB)
    #[arg(long, value_name = "WHAT", default_value = "sends", value_parser = ["sends", "connections"])]
    requests: String,
    /// Write the measurement file
    #[arg(long, value_name = "FILE.toml")]
    save: Option<PathBuf>,
}

/// What the counters said at one moment.
struct Reading {
    at: Instant,
    requests: f64,
    engine_busy: f64,
    server: Duration,
}

impl Measure {
    fn read(&self, control: &mut Control, pid: u32) -> Result<Reading> {
        let metrics = match control.ask(&Request::Stats)? {
            Reply::Stats(metrics) => metrics,
            other => return Err(out_of_place(&other)),
        };
        let name = match self.requests.as_str() {
            "connections" => "tcp_passive_opens",
            _ => "host_sends",
        };
        let mut server = sampler::run_time(pid)?;
        for child in sampler::children(pid) {
            // One may have ended since it was listed.
            server += sampler::run_time(child).unwrap_or_default();
        }
        Ok(Reading {
            at: Instant::now(),
            requests: value(&metrics, name, None)?,
            engine_busy: value(&metrics, "worker_seconds", Some("busy"))?,
            server,
        })
    }
}

fn value(metrics: &[Metric], name: &str, label: Option<&str>) -> Result<f64> {
    let mut found = metrics.iter().filter(|metric| {
        metric.name == name
            && label.is_none_or(|label| metric.labels.iter().any(|(_, value)| value == label))
    });
    let first = found
        .next()
        .with_context(|| format!("this engine does not count {name}"))?;
    Ok(first.value + found.map(|metric| metric.value).sum::<f64>())
}

fn row(before: &Reading, after: &Reading) -> Row {
    let seconds = (after.at - before.at).as_secs_f64();
    Row {
        rate: (after.requests - before.requests) / seconds,
        server_busy: after.server.saturating_sub(before.server).as_secs_f64() / seconds,
        engine_busy: Some((after.engine_busy - before.engine_busy) / seconds),
    }
}

/// Measures all windows.
pub fn measure(how: &Measure) -> Result<Measurements> {
    let Some(pid) = how.pid else {
        bail!("--pid is missing: the server's process");
    };
    if how.windows < LEAST_LOADS {
        bail!(
            "{} windows do not determine a service time; it takes {LEAST_LOADS} or more",
            how.windows
        );
    }
    if !(how.window.0 > 0.0 && how.window.0 <= 3600.0) {
        bail!("a window has to be longer than nothing and no longer than an hour");
    }
    let mut control = how.engine.connect()?;
    let mut measured = Measurements::default();
    for window in 1..=how.windows {
        let before = how.read(&mut control, pid)?;
        std::thread::sleep(Duration::from_secs_f64(how.window.0));
        let row = row(&before, &how.read(&mut control, pid)?);
        eprintln!(
            "window {window} of {}: {:.0} requests a second, server {:.1} % busy, engine {:.1} %",
            how.windows,
            row.rate,
            row.server_busy * 100.0,
            row.engine_busy.unwrap_or(0.0) * 100.0
        );
        measured.engine.push(row);
    }
    if let Some(path) = &how.save {
        let text = toml::to_string(&measured)?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(measured)
}
