//! `outboard stats`: what the engine counts, for people, for programs and for Prometheus.

use crate::control::Engine;
use crate::open_metrics;
use crate::plan::written::duration;
use ::lab::table::Table;
use anyhow::Result;
use queue_pair::control::Metric;
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
    /// Print OpenMetrics, which Prometheus reads
    #[arg(long)]
    prometheus: bool,
}

/// Prints the counters.
pub fn run(args: Args) -> Result<ExitCode> {
    let metrics = args.engine.connect()?.metrics()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&metrics)?);
    } else if args.prometheus {
        print!("{}", open_metrics::encode(&metrics)?);
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
        table.row([name, number(metric.value), described(metric)]);
    }
    // The last column is text: to the left.
    table.left(2);
    table.to_string()
}

/// What it counts, and of a histogram how it is distributed.
fn described(metric: &Metric) -> String {
    let Some(histogram) = metric.histogram.as_ref().filter(|_| metric.value > 0.0) else {
        return metric.help.clone();
    };
    let quantile = |share| duration(histogram.quantile(share, metric.value));
    let (half, most, longest) = (quantile(0.5), quantile(0.99), duration(histogram.longest));
    let help = &metric.help;
    format!("{help}: half at most {half}, 99 % at most {most}, the longest {longest}")
}

/// A whole number without a fraction, others as they are.
fn number(value: f64) -> String {
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::{Metric, plain};
    use queue_pair::control::MetricKind;

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
            histogram: None,
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
}
