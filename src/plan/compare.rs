//! The model beside measured delays: `--compare`.
//!
//! A file is what `outboard load --json` printed, at a rate (`-R`) or, with `--clients`, in a closed
//! loop; or the `results.json` of a run of `outboard lab run model`.

use super::closed;
use super::input::Server;
use super::study::{answer, at};
use super::written::duration;
use anyhow::{Context, Result, bail};
use lab::experiment::declaration::Experiment;
use lab::table::Table;
use queueing::fit::agreement::{Pair, relative_error};
use queueing::fit::regression::Interval;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// How far a mean delay may be off, as a share of what was measured.
const WITHIN: f64 = 0.15;
const CONFIDENCE: f64 = 0.95;
/// The seed of the bootstrap: the same files give the same answer.
const SEED: u64 = 1;

/// A file, and what was measured in it.
#[derive(Debug, Clone)]
pub struct Source {
    /// With everything offloaded, rather than without an engine; not said of files that say it.
    engine: Option<bool>,
    path: PathBuf,
}

impl Source {
    /// Reads `kernel=FILE`, `engine=FILE`, or `FILE` of one that says of each figure what it is of.
    pub fn parse(text: &str) -> Result<Source, String> {
        let (engine, path) = match text.split_once('=') {
            Some(("kernel", path)) => (Some(false), path),
            Some(("engine", path)) => (Some(true), path),
            _ => (None, text),
        };
        if path.is_empty() {
            return Err("write kernel=FILE or engine=FILE".into());
        }
        Ok(Source {
            engine,
            path: path.into(),
        })
    }
}

/// A measured mean delay.
#[derive(Debug, Clone, PartialEq)]
struct Measured {
    engine: bool,
    /// Requests a second that were answered.
    rate: f64,
    /// Seconds.
    delay: f64,
    /// Its interval, where the file has one.
    interval: Option<(f64, f64)>,
    errors: u64,
}

/// One of them beside the model.
#[derive(Debug, Serialize)]
struct Row {
    system: &'static str,
    rate: f64,
    measured: f64,
    interval: Option<(f64, f64)>,
    /// `None` where the model's system cannot carry the load.
    model: Option<f64>,
    /// In a closed loop: requests a second that the model says.
    model_rate: Option<f64>,
    holds: bool,
}

/// All of them.
#[derive(Debug, Serialize)]
pub struct Comparison {
    clients: Option<u32>,
    rows: Vec<Row>,
    /// Mean relative error over the rows that the model answers.
    error: Option<Interval>,
    /// What would have to be added to the model's delays to come closest, seconds, and the mean
    /// relative error that would be left.
    constant: Option<(f64, f64)>,
    notes: Vec<String>,
}

/// Compares. With `clients`, what was measured is a closed loop of so many, who think for `think`
/// seconds.
pub fn compare(
    server: &Server,
    sources: &[Source],
    clients: Option<u32>,
    think: f64,
) -> Result<Comparison> {
    let mut measured = Vec::new();
    for source in sources {
        let shown = || format!("--compare {}", source.path.display());
        measured.extend(read(source).with_context(shown)?);
    }
    let networks = match clients {
        Some(clients) => Some(closed::networks(server, think, clients)?),
        None => None,
    };
    let mut rows = Vec::new();
    for one in &measured {
        let in_loop = networks
            .as_ref()
            .zip(clients)
            .and_then(|(networks, clients)| networks[usize::from(one.engine)].with(clients));
        let model = match in_loop {
            Some(found) => Some(found.response),
            None => answer(server, &at(server, one.rate), one.engine)?.map(|found| found.delay),
        };
        rows.push(Row {
            system: if one.engine { "engine" } else { "kernel" },
            rate: one.rate,
            measured: one.delay,
            interval: one.interval,
            model,
            model_rate: in_loop.map(|found| found.throughput),
            holds: model.is_some_and(|model| holds(model, one)),
        });
    }
    let pairs = pairs(&rows, 0.0);
    let error = match pairs.is_empty() {
        true => None,
        false => Some(relative_error(&pairs, CONFIDENCE, SEED)?),
    };
    Ok(Comparison {
        clients,
        constant: constant(&rows)?,
        notes: notes(&measured, clients),
        error,
        rows,
    })
}

/// Whether the model is close enough, or within the interval of what was measured.
fn holds(model: f64, measured: &Measured) -> bool {
    let near = (model / measured.delay - 1.0).abs() <= WITHIN;
    let inside = |(low, high): (f64, f64)| (low..=high).contains(&model);
    near || measured.interval.is_some_and(inside)
}

fn pairs(rows: &[Row], added: f64) -> Vec<Pair> {
    rows.iter()
        .filter_map(|row| {
            Some(Pair {
                model: (row.model? + added).max(0.0),
                measured: row.measured,
            })
        })
        .collect()
}

fn constant(rows: &[Row]) -> Result<Option<(f64, f64)>> {
    let pairs_now = pairs(rows, 0.0);
    if pairs_now.len() < 2 {
        return Ok(None);
    }
    // Relative errors count, so each difference has the weight of its delay.
    let weight = |pair: &Pair| pair.measured.powi(-2);
    let all: f64 = pairs_now.iter().map(weight).sum();
    let missing = pairs_now
        .iter()
        .map(|pair| weight(pair) * (pair.measured - pair.model));
    let added = missing.sum::<f64>() / all;
    let left = relative_error(&pairs(rows, added), CONFIDENCE, SEED)?;
    Ok(Some((added, left.value)))
}

fn notes(measured: &[Measured], clients: Option<u32>) -> Vec<String> {
    let mut notes = vec![
        "What was measured has the network and the client in it; the model has the server's cores \
         alone."
            .to_owned(),
    ];
    if clients.is_none() {
        notes.push(
            "The model's arrivals are Poisson; `outboard load -R` asks at equal distances, after \
             which requests wait less."
                .into(),
        );
    }
    let errors: u64 = measured.iter().map(|one| one.errors).sum();
    if errors > 0 {
        notes.push(format!(
            "{errors} requests failed, and have no delay: what is left looks better than it was."
        ));
    }
    notes
}

fn read(source: &Source) -> Result<Vec<Measured>> {
    let text = std::fs::read_to_string(&source.path).context("cannot read it")?;
    let value: Value = serde_json::from_str(&text).context("it is no JSON")?;
    if value.get("analysis").is_some() {
        return of_lab(&value, source.engine);
    }
    let Some(engine) = source.engine else {
        bail!(
            "say what it was measured on: kernel={0} or engine={0}",
            source.path.display()
        );
    };
    let number = |place: &str| {
        let found = value.pointer(place).and_then(Value::as_f64);
        found.filter(|number| *number > 0.0).with_context(|| {
            format!("it has no {place} above 0; `outboard load --json` writes one")
        })
    };
    Ok(vec![Measured {
        engine,
        rate: number("/requests_per_second")?,
        delay: number("/latency/mean_us")? / 1e6,
        interval: None,
        errors: value["errors"].as_u64().unwrap_or(0),
    }])
}

/// What a run of the lab found, cell by cell, if its experiment says which figures are meant.
fn of_lab(value: &Value, wanted: Option<bool>) -> Result<Vec<Measured>> {
    let experiment: Experiment = serde_json::from_value(value["run"]["experiment"].clone())
        .context("it has no experiment of this version")?;
    let Some(model) = &experiment.model else {
        bail!(
            "{} measures no delay over load; `outboard lab run model` does",
            experiment.name
        );
    };
    let found = value["analysis"]["found"].as_array();
    let mut measured = Vec::new();
    for found in found.into_iter().flatten() {
        let subject = found["cell"]["subject"].as_u64().unwrap_or(0) as usize;
        let engine = match experiment.subjects.get(subject).map(String::as_str) {
            Some("engine") => true,
            Some("kernel") => false,
            _ => continue,
        };
        let of = |measure: &str, what: &str| found["values"][measure][what].as_f64();
        // Milliseconds.
        let delay = |what| of(&model.delay, what).map(|time| time / 1e3);
        if let (Some(rate), Some(median)) = (of(&model.rate, "median"), delay("median"))
            && wanted.is_none_or(|wanted| wanted == engine)
            && rate > 0.0
            && median > 0.0
        {
            measured.push(Measured {
                engine,
                rate,
                delay: median,
                interval: delay("low").zip(delay("high")),
                errors: 0,
            });
        }
    }
    if measured.is_empty() {
        bail!("it has no delays");
    }
    Ok(measured)
}

impl Comparison {
    /// In words.
    pub fn words(&self) -> String {
        let mut table = Table::new(["system", "load/s", "measured", "model", "off by", ""]);
        table.left(0);
        table.left(5);
        for row in &self.rows {
            let measured = match row.interval {
                Some((low, high)) => format!(
                    "{} ({} to {})",
                    duration(row.measured),
                    duration(low),
                    duration(high)
                ),
                None => duration(row.measured),
            };
            let rate = match row.model_rate {
                Some(model) => format!("{:.0} (model {model:.0})", row.rate),
                None => format!("{:.0}", row.rate),
            };
            let off = |model: f64| format!("{:+.0} %", (model / row.measured - 1.0) * 100.0);
            table.row([
                row.system.to_owned(),
                rate,
                measured,
                row.model.map_or("saturated".into(), duration),
                row.model.map_or("—".into(), off),
                if row.holds { "holds" } else { "does not hold" }.to_owned(),
            ]);
        }
        let held = self.rows.iter().filter(|row| row.holds).count();
        let mut text = format!(
            "Model and measurement{}: within {:.0} %, or the run's own interval, at {held} of {} \
             loads.\n{table}",
            self.clients
                .map_or(String::new(), |clients| format!(", {clients} clients")),
            WITHIN * 100.0,
            self.rows.len()
        );
        if let Some(error) = &self.error {
            text += &format!(
                "The model's mean delay is off by {:.0} % on average ({:.0} to {:.0} %, 95 %, by \
                 bootstrap over the loads).\n",
                error.value * 100.0,
                error.low * 100.0,
                error.high * 100.0
            );
        }
        if let Some((added, left)) = self.constant
            && self.error.is_some_and(|error| left < error.value * 0.9)
        {
            let what = if added > 0.0 { "more" } else { "less" };
            text += &format!(
                "With {} {what} at every load it would be off by {:.0} %: time that is no core's, \
                 such as the way and the waking of those who sleep.\n",
                duration(added.abs()),
                left * 100.0
            );
        }
        for note in &self.notes {
            text += note;
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_file_says_what_it_is_of_or_is_told() {
        let parsed = |text| Source::parse(text).unwrap();
        assert_eq!(parsed("engine=a.json").engine, Some(true));
        assert_eq!(parsed("kernel=a.json").path, Path::new("a.json"));
        assert_eq!(parsed("results.json").engine, None);
        assert!(Source::parse("kernel=").is_err());
    }

    #[test]
    fn a_constant_that_is_missing_is_found() {
        let row = |measured: f64, model: f64| Row {
            system: "kernel",
            rate: 1.0,
            measured,
            interval: None,
            model: Some(model),
            model_rate: None,
            holds: false,
        };
        let rows = [row(3.0, 1.0), row(5.0, 3.0), row(12.0, 10.0)];
        let (added, left) = constant(&rows).unwrap().unwrap();
        assert!((added - 2.0).abs() < 1e-12 && left < 1e-12);
        assert_eq!(constant(&rows[..1]).unwrap(), None);
    }

    #[test]
    fn near_enough_or_within_the_interval_holds() {
        let measured = |interval| Measured {
            engine: false,
            rate: 1.0,
            delay: 1.0,
            interval,
            errors: 0,
        };
        assert!(holds(1.15, &measured(None)) && !holds(1.16, &measured(None)));
        assert!(holds(1.3, &measured(Some((0.8, 1.3)))));
        assert!(!holds(1.3, &measured(Some((0.8, 1.2)))));
    }
}
