//! The engine's counters as OpenMetrics, version 1.0, which Prometheus and its kind read.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use queue_pair::control::{Metric, MetricKind};
use std::fmt::Error;

/// What an HTTP server says of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text.
pub fn encode(metrics: &[Metric]) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("outboard");
    registry.register_collector(Box::new(Counted(metrics.to_vec())));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Counted(Vec<Metric>);

impl Counted {
    /// The metrics of each name together, in the order of the names' first.
    fn families(&self) -> Vec<Vec<&Metric>> {
        let mut families: Vec<Vec<&Metric>> = Vec::new();
        for metric in &self.0 {
            match families.iter_mut().find(|all| all[0].name == metric.name) {
                Some(family) => family.push(metric),
                None => families.push(vec![metric]),
            }
        }
        families
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let version = [("version", env!("OUTBOARD_VERSION"))];
        let help = "The version that this engine is of.";
        let mut info = encoder.encode_descriptor("build", help, None, MetricType::Info)?;
        info.encode_info(&version)?;
        for family in self.families() {
            let first = family[0];
            let kind = match first.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            // The format puts `_total` behind the names of counters.
            let name = match first.kind {
                MetricKind::Counter => first.name.strip_suffix("_total").unwrap_or(&first.name),
                MetricKind::Gauge | MetricKind::Histogram => &first.name,
            };
            let help = escaped(&first.help);
            let mut all = encoder.encode_descriptor(name, &help, None, kind)?;
            for metric in family {
                if metric.labels.is_empty() {
                    value(&mut all, metric)?;
                } else {
                    let labels = metric.labels.iter();
                    let labels: Vec<(&str, String)> = labels
                        .map(|(name, value)| (name.as_str(), escaped(value)))
                        .collect();
                    value(&mut all.encode_family(&labels)?, metric)?;
                }
            }
        }
        Ok(())
    }
}

/// As the format wants it; the encoder takes what it is given.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn value(encoder: &mut MetricEncoder<'_>, metric: &Metric) -> Result<(), Error> {
    match metric.kind {
        MetricKind::Counter => {
            encoder.encode_counter::<[(&str, &str); 0], f64, f64>(&metric.value, None)
        }
        MetricKind::Gauge => encoder.encode_gauge(&metric.value),
        MetricKind::Histogram => {
            let Some(histogram) = &metric.histogram else {
                return Ok(());
            };
            let count = metric.value as u64;
            let within: u64 = histogram.buckets.iter().map(|(_, count)| count).sum();
            let beyond = (f64::MAX, count.saturating_sub(within));
            let buckets: Vec<(f64, u64)> =
                histogram.buckets.iter().copied().chain([beyond]).collect();
            encoder.encode_histogram::<[(&str, &str); 0]>(histogram.sum, count, &buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, kind: MetricKind, labels: &[(&str, &str)], value: f64) -> Metric {
        Metric {
            name: name.into(),
            labels: labels
                .iter()
                .map(|(a, b)| ((*a).into(), (*b).into()))
                .collect(),
            kind,
            value,
            help: "Frames.".into(),
            histogram: None,
        }
    }

    #[test]
    fn families_stand_together_and_labels_are_escaped() {
        let text = encode(&[
            metric(
                "dropped",
                MetricKind::Counter,
                &[("reason", "a\"b\\c\nd")],
                1.0,
            ),
            metric("sessions", MetricKind::Gauge, &[], 3.0),
            metric("dropped", MetricKind::Counter, &[("reason", "ttl")], 2.5),
        ])
        .expect("text");
        let expected = [
            "# HELP outboard_dropped Frames.",
            "# TYPE outboard_dropped counter",
            "outboard_dropped_total{reason=\"a\\\"b\\\\c\\nd\"} 1.0",
            "outboard_dropped_total{reason=\"ttl\"} 2.5",
            "# HELP outboard_sessions Frames.",
            "# TYPE outboard_sessions gauge",
            "outboard_sessions 3.0",
            "# EOF",
        ];
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| line.contains("build"))
            .collect();
        assert_eq!(lines, expected, "{text}");
        assert!(text.contains("outboard_build_info{version="), "{text}");
    }
}
