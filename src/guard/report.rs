//! What a guard says to programs: a line of JSON for each thing that happens, and its state as a file of
//! metrics.

use super::decide::Why;
use super::memory::Reading;
use crate::open_metrics;
use anyhow::{Context, Result};
use lab::whole_file;
use queue_pair::control::{Metric, MetricKind};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The server was asked to reload.
    Reload {
        /// How many there were, with this one.
        number: u64,
        #[serde(flatten)]
        why: Why,
        /// Reloads just before that did not help.
        in_vain: u32,
    },
    /// All is low again.
    Recovered { after_ms: u64 },
    /// It should be reloaded, and has just been.
    Held {
        #[serde(flatten)]
        why: Why,
        left_ms: u64,
    },
    /// It could not be asked, or its command failed.
    Failed { error: String },
    /// The kernel killed for want of memory.
    Killed { times: u64 },
}

/// What there was so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reloads: u64,
    pub in_vain: u64,
    pub failed: u64,
    pub killed: u64,
    /// The most bytes that the server's processes had at once.
    pub most: u64,
}

/// Where it is written.
#[derive(Debug)]
pub struct Report {
    lines: Option<File>,
    metrics: Option<PathBuf>,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Milliseconds since 1970.
    time_ms: u64,
    #[serde(flatten)]
    event: &'a Event,
    server_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup_limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pressure_percent: Option<f64>,
}

impl Report {
    /// # Errors
    /// The file of lines cannot be opened, or that of metrics not be written.
    pub fn new(lines: Option<&Path>, metrics: Option<PathBuf>) -> Result<Self> {
        let open = |path: &Path| {
            let mut how = OpenOptions::new();
            let file = how.create(true).append(true).open(path);
            file.with_context(|| format!("cannot write --report {}", path.display()))
        };
        if let Some(path) = &metrics {
            // It is written beside its place first: what is tried is the directory.
            whole_file::try_to_write(path)
                .with_context(|| format!("cannot write --metrics {}", path.display()))?;
        }
        Ok(Self {
            lines: lines.map(open).transpose()?,
            metrics,
        })
    }

    /// Writes a line, and what was read just before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn tell(&mut self, event: &Event, reading: &Reading) -> Result<()> {
        let Some(file) = &mut self.lines else {
            return Ok(());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = Line {
            time_ms: now.map_or(0, |time| time.as_millis() as u64),
            event,
            server_bytes: reading.server,
            cgroup_bytes: reading.cgroup.map(|group| group.used),
            cgroup_limit_bytes: reading.cgroup.map(|group| group.limit),
            available_bytes: reading.available,
            pressure_percent: reading.pressure,
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        Ok(file.write_all(text.as_bytes())?)
    }

    /// Writes the metrics anew.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn state(&self, reading: &Reading, counts: &Counts) -> Result<()> {
        let Some(path) = &self.metrics else {
            return Ok(());
        };
        let text = open_metrics::encode(&metrics(reading, counts))?;
        Ok(whole_file::write(path, &text)?)
    }
}

fn metrics(reading: &Reading, counts: &Counts) -> Vec<Metric> {
    let metric = |name: &str, kind, value: f64, help: &str| Metric {
        name: format!("guard_{name}"),
        labels: Vec::new(),
        kind,
        value,
        help: help.into(),
        histogram: None,
    };
    let counter = |name, value: u64, help| metric(name, MetricKind::Counter, value as f64, help);
    let gauge = |name, value: f64, help| metric(name, MetricKind::Gauge, value, help);
    let mut all = vec![
        counter(
            "reloads",
            counts.reloads,
            "Reloads that the server was asked for.",
        ),
        counter(
            "reloads_in_vain",
            counts.in_vain,
            "Reloads after which memory did not become low.",
        ),
        counter(
            "reloads_failed",
            counts.failed,
            "Reloads that could not be asked for, or failed.",
        ),
        counter(
            "kills_for_memory",
            counts.killed,
            "Processes that the kernel killed for want of memory, since the guard started.",
        ),
        gauge(
            "server_bytes",
            reading.server as f64,
            "Memory of the server's processes.",
        ),
        gauge(
            "server_bytes_most",
            counts.most as f64,
            "The most that it was.",
        ),
    ];
    if let Some(group) = reading.cgroup {
        let help = "Memory of the cgroup that is nearest to its limit.";
        all.push(gauge("cgroup_bytes", group.used as f64, help));
        let help = "The limit of that cgroup.";
        all.push(gauge("cgroup_limit_bytes", group.limit as f64, help));
    }
    if let Some(available) = reading.available {
        let help = "Memory that programs could still get.";
        all.push(gauge("available_bytes", available as f64, help));
    }
    if let Some(pressure) = reading.pressure {
        let help = "Share of the last ten seconds in which somebody waited for memory.";
        all.push(gauge("pressure_percent", pressure, help));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::decide::Kind;
    use crate::guard::memory::Limited;

    #[test]
    fn programs_can_read_what_happened_and_how_it_is() {
        let place = std::env::temp_dir();
        let place = place.join(format!("outboard-guard-report-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let (lines, state) = (place.join("lines"), place.join("state"));
        let mut report = Report::new(Some(&lines), Some(state.clone())).expect("files");
        let (used, limit) = (80, 100);
        let reading = Reading {
            server: 70,
            cgroup: Some(Limited { used, limit }),
            pressure: Some(1.5),
            ..Reading::default()
        };
        let why = Why {
            measure: Kind::Cgroup,
            foreseen: true,
        };
        let (number, in_vain) = (2, 1);
        let reload = Event::Reload {
            number,
            why,
            in_vain,
        };
        report.tell(&reload, &reading).expect("it is written");
        let after_ms = 7;
        report
            .tell(&Event::Recovered { after_ms }, &Reading::default())
            .expect("it is written");
        let text = std::fs::read_to_string(&lines).expect("a file");
        let read: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (&read[0]["event"], &read[0]["measure"]),
            (&"reload".into(), &"cgroup".into())
        );
        assert_eq!(
            (&read[0]["number"], &read[0]["in_vain"]),
            (&2.into(), &1.into())
        );
        assert_eq!(
            (&read[0]["foreseen"], &read[0]["cgroup_limit_bytes"]),
            (&true.into(), &100.into())
        );
        assert_eq!(
            (&read[1]["after_ms"], read[1].get("cgroup_bytes")),
            (&7.into(), None)
        );
        assert!(read[0]["time_ms"].as_u64() > Some(1_000_000_000_000));

        let counts = Counts {
            reloads: 2,
            in_vain: 1,
            failed: 3,
            killed: 4,
            most: 99,
        };
        report.state(&reading, &counts).expect("it is written");
        let text = std::fs::read_to_string(&state).expect("a file");
        for line in [
            "outboard_guard_reloads_total 2.0",
            "outboard_guard_reloads_in_vain_total 1.0",
            "outboard_guard_reloads_failed_total 3.0",
            "outboard_guard_kills_for_memory_total 4.0",
            "outboard_guard_server_bytes 70.0",
            "outboard_guard_server_bytes_most 99.0",
            "outboard_guard_cgroup_bytes 80.0",
            "outboard_guard_cgroup_limit_bytes 100.0",
            "outboard_guard_pressure_percent 1.5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        std::fs::remove_dir_all(place).expect("it was made");
    }
}
