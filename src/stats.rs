//! `outboard stats`: what the engine counts, for people, for programs and for Prometheus.

use crate::control::{Engine, out_of_place};
use ::lab::table::Table;
use anyhow::Result;
use queue_pair::control::{Metric, MetricKind, Reply, Request};
use std::process::ExitCode;

/// Show what the engine counts
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard stats --prometheus")]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// Show counters that are zero too
    #[arg(short, long)]
    all: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print in the text format that Prometheus reads
    #[arg(long)]
    prometheus: bool,
}

/// Prints the counters.
pub fn run(args: Args) -> Result<ExitCode> {
    let metrics = match args.engine.connect()?.ask(&Request::Stats)? {
        Reply::Stats(metrics) => metrics,
        other => return Err(out_of_place(&other)),
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&metrics)?);
    } else if args.prometheus {
        print!("{}", prometheus(&metrics));
    } else {
        print!("{}", plain(&metrics, args.all));
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(metrics: &[Metric], all: bool) -> String {
    let mut table = Table::default();
    for metric in metrics.iter().filter(|metric| all || metric.value != 0.0) {
        let labels: Vec<&str> = metric
            .labels
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        let name = if labels.is_empty() {
            metric.name.clone()
        } else {
            format!("{} {}", metric.name, labels.join(" "))
        };
        table.row([name, number(metric.value), metric.help.clone()]);
    }
    // The last column is text: to the left.
    table.left(2);
    table.to_string()
}

/// The text exposition format, version 0.0.4: all of one name together, announced once. Counters are
/// called as its readers expect.
fn prometheus(metrics: &[Metric]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for metric in metrics {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
    }
    names
        .into_iter()
        .map(|name| family(name, metrics.iter().filter(|metric| metric.name == name)))
        .collect()
}

/// All metrics of one name.
fn family<'a>(name: &str, metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut text = String::new();
    let mut called = String::new();
    for metric in metrics {
        if called.is_empty() {
            let (kind, suffix) = match metric.kind {
                MetricKind::Counter => ("counter", "_total"),
                MetricKind::Gauge => ("gauge", ""),
            };
            called = format!("outboard_{name}{suffix}");
            let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
            text.push_str(&format!("# HELP {called} {help}\n"));
            text.push_str(&format!("# TYPE {called} {kind}\n"));
        }
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|(label, value)| {
                let value = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            })
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        text.push_str(&format!("{called}{labels} {}\n", number(metric.value)));
    }
    text
}

/// A whole number without a fraction, others as they are.
fn number(value: f64) -> String {
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::{Metric, MetricKind, plain, prometheus};

    fn metric(name: &str, labels: &[(&str, &str)], value: f64) -> Metric {
        Metric {
            name: name.into(),
            labels: labels
                .iter()
                .map(|(a, b)| ((*a).into(), (*b).into()))
                .collect(),
            kind: MetricKind::Counter,
            value,
            help: "Frames.".into(),
        }
    }

    #[test]
    fn zeros_are_shown_on_request() {
        let metrics = [
            metric("rx_frames", &[], 12.0),
            metric("dropped", &[("reason", "ttl")], 0.0),
        ];
        assert_eq!(plain(&metrics, false), "rx_frames  12  Frames.\n");
        assert!(plain(&metrics, true).contains("dropped ttl   0  Frames.\n"));
    }

    #[test]
    fn prometheus_reads_it() {
        // What belongs together need not come together.
        let mut level = metric("level", &[], 7.0);
        level.kind = MetricKind::Gauge;
        let metrics = [
            metric("dropped", &[("reason", "a\"b")], 1.0),
            level,
            metric("dropped", &[("reason", "c")], 2.5),
        ];
        let expected = "# HELP outboard_dropped_total Frames.\n\
            # TYPE outboard_dropped_total counter\n\
            outboard_dropped_total{reason=\"a\\\"b\"} 1\n\
            outboard_dropped_total{reason=\"c\"} 2.5\n\
            # HELP outboard_level Frames.\n# TYPE outboard_level gauge\noutboard_level 7\n";
        assert_eq!(prometheus(&metrics), expected);
    }
}
