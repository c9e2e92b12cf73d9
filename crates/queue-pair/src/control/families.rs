//! How metrics are written in a message: those of one name together, with what they share said once.
//! A message has a limit, and an engine has many of them.

use super::facts::{Histogram, Metric, MetricKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The metrics of one name.
#[derive(Serialize, Deserialize)]
struct Family {
    name: String,
    kind: MetricKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    help: String,
    /// The names of their labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    /// The labels of each, and its value.
    samples: Vec<(Vec<String>, f64)>,
    /// Of each, if they are histograms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    histograms: Vec<Histogram>,
}

impl Family {
    fn of(first: &Metric) -> Self {
        Self {
            name: first.name.clone(),
            kind: first.kind,
            help: first.help.clone(),
            labels: first.labels.iter().map(|(name, _)| name.clone()).collect(),
            samples: Vec::new(),
            histograms: Vec::new(),
        }
    }

    /// Whether it is one of these.
    fn has(&self, metric: &Metric) -> bool {
        let labels = metric.labels.iter().map(|(name, _)| name);
        self.name == metric.name
            && self.kind == metric.kind
            && self.labels.iter().eq(labels)
            && self.histograms.is_empty() == metric.histogram.is_none()
    }

    fn into_metrics(self) -> impl Iterator<Item = Metric> {
        let mut histograms = self.histograms.into_iter();
        let (mut help, names) = (Some(self.help), self.labels);
        self.samples.into_iter().map(move |(values, value)| Metric {
            name: self.name.clone(),
            labels: names.iter().cloned().zip(values).collect(),
            kind: self.kind,
            value,
            help: help.take().unwrap_or_default(),
            histogram: histograms.next(),
        })
    }
}

pub(super) fn serialize<S: Serializer>(metrics: &[Metric], to: S) -> Result<S::Ok, S::Error> {
    let mut families: Vec<Family> = Vec::new();
    for metric in metrics {
        if !families.last().is_some_and(|family| family.has(metric)) {
            families.push(Family::of(metric));
        }
        if let Some(family) = families.last_mut() {
            let values = metric.labels.iter().map(|(_, value)| value.clone());
            family.samples.push((values.collect(), metric.value));
            family.histograms.extend(metric.histogram.clone());
        }
    }
    families.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Metric>, D::Error> {
    let families = Vec::<Family>::deserialize(from)?;
    Ok(families
        .into_iter()
        .flat_map(Family::into_metrics)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::Reply;
    use super::*;

    #[test]
    fn what_they_share_is_said_once_and_nothing_is_lost() {
        let metric = |name: &str, labels: &[(&str, &str)], help: &str| Metric {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect(),
            kind: MetricKind::Counter,
            value: 1.5,
            help: help.to_owned(),
            histogram: None,
        };
        let turns = Metric {
            kind: MetricKind::Histogram,
            histogram: Some(Histogram {
                sum: 0.25,
                longest: 0.125,
                buckets: vec![(0.001, 3), (0.002, 0)],
            }),
            ..metric("turns", &[], "Turns.")
        };
        let metrics = vec![
            metric("frames", &[], "Frames."),
            metric("dropped", &[("reason", "ttl")], "Drops."),
            metric("dropped", &[("reason", "full")], ""),
            metric("dropped", &[("queue", "0")], ""),
            turns,
        ];
        let said = serde_json::to_string(&Reply::Stats(metrics.clone())).expect("JSON");
        assert_eq!(said.matches("\"dropped\"").count(), 2, "{said}");
        assert_eq!(said.matches("\"reason\"").count(), 1, "{said}");
        let heard: Reply = serde_json::from_str(&said).expect("a reply");
        assert_eq!(heard, Reply::Stats(metrics));
    }
}
