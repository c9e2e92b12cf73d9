//! What was measured: by `outboard load --json`, at a rate (`-R`) or, with `--clients`, in a closed loop; or by a run of
//! `outboard lab run model`, of which `results.json` has each load of each class.

use anyhow::{Context, Result, bail};
use lab::catalogue::HIGH;
use lab::experiment::declaration::{Experiment, Model};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file, and what was measured in it.
#[derive(Debug, Clone)]
pub struct Source {
    /// With everything offloaded, rather than without an engine; not said of files that say it.
    engine: Option<bool>,
    /// The file, and behind a `#` the class of it that is meant.
    named: String,
}

impl Source {
    /// Reads `kernel=FILE`, `engine=FILE`, or `FILE` of one that says of each figure what it is of; behind a `#`, the
    /// class of a run that is meant.
    pub fn parse(text: &str) -> Result<Source, String> {
        let (engine, named) = match text.split_once('=') {
            Some(("kernel", named)) => (Some(false), named),
            Some(("engine", named)) => (Some(true), named),
            _ => (None, text),
        };
        if named.is_empty() || named.starts_with('#') {
            return Err("write kernel=FILE or engine=FILE".into());
        }
        Ok(Source {
            engine,
            named: named.into(),
        })
    }

    /// The file, and the class of it. A file may have a `#` in its name.
    pub fn place(&self) -> (PathBuf, Option<&str>) {
        match self.named.rsplit_once('#') {
            Some((path, class)) if !Path::new(&self.named).exists() => (path.into(), Some(class)),
            _ => ((&self.named).into(), None),
        }
    }

    /// As it was said.
    pub fn shown(&self) -> &str {
        &self.named
    }
}

/// Who measured.
#[derive(Debug, Clone, PartialEq)]
pub enum By {
    /// `outboard load`.
    Load,
    /// A run of the lab.
    Lab {
        /// What was measured, as the run calls it.
        subject: String,
        /// What was asked for, as the run calls it: the level of its other axis, with its name and by itself.
        class: [String; 2],
        /// Whether server and engine shared a core.
        shared_cores: bool,
    },
}

/// A figure, and its interval where the file has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

impl Figure {
    /// Whether what the model says is off by no more than this part of it, or within its interval.
    pub fn holds(&self, model: f64, within: f64) -> bool {
        let near = (model / self.value - 1.0).abs() <= within;
        let inside = |(low, high): (f64, f64)| (low..=high).contains(&model);
        near || self.interval.is_some_and(inside)
    }
}

/// One load.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub by: By,
    pub engine: bool,
    /// Requests a second that were answered.
    pub rate: f64,
    /// The mean, seconds.
    pub delay: Figure,
    /// The busy share of the server's core, from 0 to 1, where it was measured.
    pub busy: Option<Figure>,
    /// What 99 % of the requests took at most, seconds, where it was measured.
    pub high: Option<Figure>,
    pub errors: u64,
}

impl Measured {
    /// What it was measured on, as the run calls it, or by `kernel` and `engine`.
    pub fn system(&self) -> &str {
        match (&self.by, self.engine) {
            (By::Lab { subject, .. }, _) => subject,
            (By::Load, true) => "engine",
            (By::Load, false) => "kernel",
        }
    }
}

/// All loads of a file that are meant.
pub fn read(source: &Source) -> Result<Vec<Measured>> {
    let (path, class) = source.place();
    let text = std::fs::read_to_string(&path).context("cannot read it")?;
    let value: Value = serde_json::from_str(&text).context("it is no JSON")?;
    if value.get("analysis").is_some() {
        return of_lab(&value, source.engine, class);
    }
    if class.is_some() {
        bail!("only a run of the lab has classes to choose from");
    }
    let Some(engine) = source.engine else {
        bail!(
            "say what it was measured on: kernel={0} or engine={0}",
            path.display()
        );
    };
    let number = |place: &str| {
        let found = value.pointer(place).and_then(Value::as_f64);
        found.filter(|number| *number > 0.0).with_context(|| {
            format!("it has no {place} above 0; `outboard load --json` writes one")
        })
    };
    Ok(vec![Measured {
        by: By::Load,
        engine,
        rate: number("/requests_per_second")?,
        delay: Figure {
            value: number("/latency/mean_us")? / 1e6,
            interval: None,
        },
        busy: None,
        high: None,
        errors: value["errors"].as_u64().unwrap_or(0),
    }])
}

/// What a run of the lab found, cell by cell, if its experiment says which figures are meant.
fn of_lab(value: &Value, wanted: Option<bool>, class: Option<&str>) -> Result<Vec<Measured>> {
    let experiment: Experiment = serde_json::from_value(value["run"]["experiment"].clone())
        .context("it has no experiment of this version")?;
    let Some(model) = &experiment.model else {
        bail!(
            "{} measures no delay over load; `outboard lab run model` does",
            experiment.name
        );
    };
    let found = value["analysis"]["found"].as_array();
    let all: Vec<Measured> = found
        .into_iter()
        .flatten()
        .filter_map(|found| of_cell(&experiment, model, found))
        .filter(|one| wanted.is_none_or(|wanted| wanted == one.engine))
        .collect();
    if all.is_empty() {
        bail!("it has no delays");
    }
    let is_meant = |one: &&Measured| match (&one.by, class) {
        (By::Lab { class: named, .. }, Some(class)) => named.iter().any(|name| name == class),
        _ => true,
    };
    let meant: Vec<Measured> = all.iter().filter(is_meant).cloned().collect();
    if let (true, Some(class)) = (meant.is_empty(), class) {
        bail!("it has no {class:?}, but {}", classes(&all).join(", "));
    }
    Ok(meant)
}

fn of_cell(experiment: &Experiment, model: &Model, found: &Value) -> Option<Measured> {
    let subject = found["cell"]["subject"].as_u64()? as usize;
    let subject = experiment.subjects.get(subject)?;
    let second = model.second.as_ref();
    let is_apart = second.is_some_and(|second| second.subjects.contains(subject));
    let engine = match subject.as_str() {
        "engine" => true,
        "kernel" => false,
        _ if is_apart => true,
        _ => return None,
    };
    let at = found["cell"]["levels"].as_array()?;
    let mut class: [Vec<String>; 2] = Default::default();
    for (axis, index) in experiment.axes.iter().zip(at) {
        let level = axis.levels.get(index.as_u64()? as usize)?;
        if axis.name != model.axis {
            class[0].push(format!("{} {}", axis.name, level.name));
            class[1].push(level.name.clone());
        }
    }
    let figure = |measure: &str, unit: f64| {
        let of = |what: &str| found["values"][measure][what].as_f64();
        let value = of("median").filter(|value| *value > 0.0)?;
        let interval = of("low").zip(of("high"));
        Some(Figure {
            value: value * unit,
            interval: interval.map(|(low, high)| (low * unit, high * unit)),
        })
    };
    Some(Measured {
        by: By::Lab {
            subject: subject.clone(),
            class: class.map(|words| words.join(", ")),
            shared_cores: model.shared_cores && !is_apart,
        },
        engine,
        rate: figure(&model.rate, 1.0)?.value,
        // Milliseconds, and percent.
        delay: figure(&model.delay, 1e-3)?,
        busy: figure(&model.utilisation, 1e-2),
        high: figure(HIGH, 1e-3),
        errors: 0,
    })
}

/// The classes of a run, each once, as they came.
pub fn classes(all: &[Measured]) -> Vec<&str> {
    let mut names = Vec::new();
    for one in all {
        if let By::Lab { class, .. } = &one.by
            && !names.contains(&class[0].as_str())
        {
            names.push(&class[0]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_is_of_or_is_told() {
        let parsed = |text| Source::parse(text).unwrap();
        assert_eq!(parsed("engine=a.json").engine, Some(true));
        let (path, class) = (Path::new("a.json").to_owned(), None);
        assert_eq!(parsed("kernel=a.json").place(), (path, class));
        assert_eq!(parsed("results.json").engine, None);
        let chosen = parsed("engine=run/results.json#3");
        let path = Path::new("run/results.json").to_owned();
        assert_eq!(chosen.place(), (path, Some("3")));
        assert!(Source::parse("kernel=").is_err());
        assert!(Source::parse("#3").is_err());
    }

    #[test]
    fn near_enough_or_within_the_interval_holds() {
        let holds = |model, interval| {
            let figure = Figure {
                value: 1.0,
                interval,
            };
            figure.holds(model, 0.15)
        };
        assert!(holds(1.15, None) && !holds(1.16, None));
        assert!(holds(1.3, Some((0.8, 1.3))));
        assert!(!holds(1.3, Some((0.8, 1.2))));
    }
}
