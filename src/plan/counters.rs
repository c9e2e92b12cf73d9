//! Measurements from a running engine and server: `outboard plan --measure`.
//!
//! While a load generator drives the server at one load after another, each window takes the
//! difference of the engine's counters and of the server's run time, and becomes one row of the
//! measurement file. The fitted service time is the slope over the rows.

use super::measurement::{Measurements, Row};
use super::written::Seconds;
use crate::control::{Control, Engine};
use anyhow::{Context, Result, bail};
use lab::sampler;
use queue_pair::control::Metric;
use queueing::fit::regression::LEAST_LOADS;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How to measure.
#[derive(clap::Args)]
pub struct Measure {
    /// Read the counters of a running engine and server in several windows, and fit service times;
    /// change the load between the windows
    #[arg(long, requires = "pid", conflicts_with_all =
          ["application", "rates", "simulate", "json", "csv", "plot", "policy"])]
    pub measure: bool,
    #[command(flatten)]
    engine: Engine,
    /// The server's process; its children count too
    #[arg(long, value_name = "PID", requires = "measure", value_parser = crate::advice::process)]
    pid: Option<u32>,
    /// Windows, each at another load [default: 3, or one for each stated rate]
    #[arg(long, value_name = "N", requires = "measure")]
    windows: Option<usize>,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Seconds::parse,
          requires = "measure")]
    window: Seconds,
    /// What counts as a request: exchanges (the server read and then sent: a request and its
    /// answer), connections (accepted), or the rates that the load generator kept, one a window,
    /// such as 2000,4000,8000
    #[arg(long, value_name = "WHAT", default_value = "exchanges", value_parser = Requests::parse,
          requires = "measure")]
    requests: Requests,
    /// Write the measurement file
    #[arg(long, value_name = "FILE.toml", requires = "measure")]
    pub save: Option<PathBuf>,
}

/// How requests are counted.
#[derive(Debug, Clone)]
enum Requests {
    /// By a counter of the engine.
    Counted(&'static str),
    /// Not at all: the rates are stated, one a window.
    Stated(Vec<f64>),
}

impl Requests {
    fn parse(text: &str) -> Result<Requests, String> {
        match text {
            "exchanges" => Ok(Requests::Counted("host_exchanges")),
            "connections" => Ok(Requests::Counted("tcp_passive_opens")),
            rates => rates
                .split(',')
                .map(|rate| match rate.trim().parse::<f64>() {
                    Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
                    _ => Err(format!(
                        "{rate:?} is no rate; write exchanges, connections, or the rate of each \
                         window, such as 2000,4000,8000"
                    )),
                })
                .collect::<Result<_, _>>()
                .map(Requests::Stated),
        }
    }
}

/// What the counters said at one moment.
struct Reading {
    at: Instant,
    /// Requests so far, if they are counted.
    requests: Option<f64>,
    /// The engine's turns that found work, by the clock, seconds.
    engine_turns: f64,
    /// What the engine's process had of a processor, seconds.
    engine_cpu: f64,
    server: Duration,
}

impl Measure {
    fn read(&self, control: &mut Control, pid: u32) -> Result<Reading> {
        let metrics = control.metrics()?;
        let mut server = sampler::run_time(pid)?;
        for child in sampler::children(pid) {
            // One may have ended since it was listed.
            server += sampler::run_time(child).unwrap_or_default();
        }
        Ok(Reading {
            at: Instant::now(),
            requests: match &self.requests {
                Requests::Counted(name) => Some(value(&metrics, name, None)?),
                Requests::Stated(_) => None,
            },
            engine_turns: value(&metrics, "worker_seconds", Some("busy"))?,
            engine_cpu: value(&metrics, "process_cpu_seconds", None)?,
            server,
        })
    }

    /// How many windows, checked.
    fn count(&self) -> Result<usize> {
        let count = match (&self.requests, self.windows) {
            (Requests::Stated(rates), Some(windows)) if rates.len() != windows => bail!(
                "--requests states {} rates for {windows} windows; state one for each",
                rates.len()
            ),
            (Requests::Stated(rates), _) => rates.len(),
            (Requests::Counted(_), windows) => windows.unwrap_or(LEAST_LOADS),
        };
        if count < LEAST_LOADS {
            bail!(
                "{count} windows do not determine a service time; it takes {LEAST_LOADS} or more"
            );
        }
        Ok(count)
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

/// The difference of two readings, a second.
///
/// The engine works in the turns that find something to do. Their time is taken by the clock, so on
/// a busy machine it holds what others ran in between; but the engine cannot have worked longer than
/// it had a processor. That in turn holds the turns that found nothing, so the lesser of both counts.
fn row(before: &Reading, after: &Reading, stated: Option<f64>) -> Row {
    let seconds = (after.at - before.at).as_secs_f64();
    let counted = || Some((after.requests? - before.requests?) / seconds);
    let turns = after.engine_turns - before.engine_turns;
    let cpu = after.engine_cpu - before.engine_cpu;
    Row {
        rate: stated.or_else(counted).unwrap_or(0.0),
        server_busy: after.server.saturating_sub(before.server).as_secs_f64() / seconds,
        engine_busy: Some(turns.min(cpu).max(0.0) / seconds),
    }
}

/// Measures all windows.
pub fn measure(how: &Measure) -> Result<Measurements> {
    let Some(pid) = how.pid else {
        bail!("--pid is missing: the server's process");
    };
    let windows = how.count()?;
    if !(how.window.0 > 0.0 && how.window.0 <= 3600.0) {
        bail!("a window has to be longer than nothing and no longer than an hour");
    }
    let mut control = how.engine.connect().context(
        "--measure reads a running engine; where there is none yet, write what you measured on the \
         kernel to a file and use --fit (see docs/plan.md)",
    )?;
    let mut measured = Measurements::default();
    for window in 0..windows {
        let stated = match &how.requests {
            Requests::Stated(rates) => rates.get(window).copied(),
            Requests::Counted(_) => None,
        };
        let before = how.read(&mut control, pid)?;
        std::thread::sleep(Duration::from_secs_f64(how.window.0));
        let row = row(&before, &how.read(&mut control, pid)?, stated);
        crate::closed_pipe::remark(format_args!(
            "window {} of {windows}: {:.0} requests a second, server {:.1} % busy, engine {:.1} %",
            window + 1,
            row.rate,
            row.server_busy * 100.0,
            row.engine_busy.unwrap_or(0.0) * 100.0
        ));
        measured.engine.push(row);
    }
    if let Some(path) = &how.save {
        let text = toml::to_string(&measured)?;
        std::fs::write(path, text)
            .with_context(|| format!("cannot write --save {}", path.display()))?;
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, engine_turns: f64, engine_cpu: f64) -> Reading {
        Reading {
            at,
            requests: Some(engine_turns * 1000.0),
            engine_turns,
            engine_cpu,
            server: Duration::from_secs_f64(engine_turns),
        }
    }

    #[test]
    fn what_others_ran_meanwhile_is_not_the_engines_work() {
        let start = Instant::now();
        let before = reading(start, 1.0, 5.0);
        let at = start + Duration::from_secs(10);
        let alone = row(&before, &reading(at, 3.0, 11.0), None);
        assert_eq!(alone.engine_busy, Some(0.2), "the turns that found work");
        let crowded = row(&before, &reading(at, 3.0, 6.0), None);
        assert_eq!(crowded.engine_busy, Some(0.1), "the processor that it had");
        assert_eq!(crowded.rate, 200.0);
        assert_eq!(row(&before, &reading(at, 3.0, 6.0), Some(7.0)).rate, 7.0);
    }

    #[test]
    fn what_counts_as_a_request_is_known_or_stated() {
        assert!(matches!(
            Requests::parse("2000,4000, 8000"),
            Ok(Requests::Stated(rates)) if rates == [2000.0, 4000.0, 8000.0]
        ));
        let error = Requests::parse("pages").unwrap_err();
        assert!(error.contains("\"pages\""), "{error}");
    }
}
