//! Several experiments that one command runs: a directory with those of each, and one page about all of them, with
//! everything that was to hold and a link to each report.

use super::analysis::{Analysis, analyse};
use super::beside;
use super::directory::Directory;
use super::document::{self, Part};
use super::fitted::curves;
use super::report::{CLAIMS, claimed, words};
use crate::whole_file;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GROUP: &str = "group.json";
const PAGE: &str = "index";

/// What is run together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// What commands call it.
    pub name: String,
    /// Its experiments, by name, in their order. Each has a directory of that name.
    pub experiments: Vec<String>,
    /// Those that could not be run, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<(String, String)>,
    /// How they are run; not known of groups of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
    /// Seconds that each took that was run, everything around its measurements included, as far as it was
    /// noted: of one that went on, both times, but nothing of a time that ended by the end of the lab's process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<(String, f64)>,
    /// What had changed when it went on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// How the experiments of a group are run: what has not begun is run so when the group goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Only what makes a first impression.
    pub quick: bool,
    /// Only these levels: names of an axis and of a level of it.
    pub only: Vec<(String, String)>,
    /// Rounds at most.
    pub rounds: Option<u32>,
    /// Seconds of each measurement.
    pub seconds: Option<u64>,
    /// Minutes after which no measurement begins, for each experiment.
    pub limit: Option<u64>,
    /// How far intervals may reach from their medians, in percent.
    pub precision: f64,
    /// The access log that is replayed, by its whole path.
    pub log: Option<PathBuf>,
    /// It also at so many times its own rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speeds: Vec<f64>,
    /// What the order of measurements begins with.
    pub seed: u64,
}

impl Group {
    /// The group that has this directory, if it is one of a group.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let file = path.join(GROUP);
        if !file.exists() {
            return Ok(None);
        }
        let shown = file.display();
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
        let group = serde_json::from_str(&text).with_context(|| format!("in {shown}"))?;
        Ok(Some(group))
    }

    /// Notes why an experiment is not there, or that it is.
    pub fn note(&mut self, name: &str, why: Option<String>) {
        self.left_out.retain(|(known, _)| known != name);
        self.left_out.extend(why.map(|why| (name.to_owned(), why)));
    }

    /// Notes that an experiment took so long, again if it went on.
    pub fn spend(&mut self, name: &str, time: Duration) {
        let seconds = time.as_secs_f64();
        match self.took.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known += seconds,
            None => self.took.push((name.to_owned(), seconds)),
        }
    }

    /// How long each took, and all of them together, which were run one after another; nothing, if it is not known.
    pub fn times(&self) -> Vec<(&str, String)> {
        if self.took.is_empty() {
            return Vec::new();
        }
        let all = self.took.iter().map(|(_, seconds)| seconds).sum();
        let each = self
            .took
            .iter()
            .map(|(name, seconds)| (name.as_str(), *seconds));
        let each = each.chain([("all of it", all)]);
        each.map(|(name, seconds)| (name, minutes(seconds)))
            .collect()
    }

    /// Writes the page of what has been run by now, and returns where it is, but for what its name ends in.
    ///
    /// # Errors
    /// It cannot be written, or a run cannot be read.
    pub fn write(&self, path: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        put(path, GROUP, &serde_json::to_string_pretty(self)?)?;
        let mut runs = Vec::new();
        for name in &self.experiments {
            let directory = path.join(name);
            let is_there = Directory::is_there(&directory);
            let run = is_there.then(|| Directory::open(&directory)).transpose()?;
            runs.push(run.map(|run| (analyse(&run), run)));
        }
        let parts = self.parts(&runs);
        put(
            path,
            &format!("{PAGE}.md"),
            &document::markdown(&linked(&parts, "md")),
        )?;
        put(
            path,
            &format!("{PAGE}.html"),
            &document::html(&linked(&parts, "html")),
        )?;
        Ok(path.join(PAGE))
    }

    fn parts(&self, runs: &[Option<(Analysis, Directory)>]) -> Vec<Part> {
        let each = || self.experiments.iter().zip(runs);
        let made = || each().filter_map(|(name, run)| Some((name, run.as_ref()?)));
        // What is said of several in the same words is said once.
        let mut warnings: Vec<(&String, Vec<&str>)> = Vec::new();
        for (name, (analysis, _)) in made() {
            for warning in &analysis.warnings {
                match warnings.iter_mut().find(|(known, _)| *known == warning) {
                    Some((_, names)) => names.push(name),
                    None => warnings.push((warning, vec![name])),
                }
            }
        }
        let warnings = warnings.into_iter();
        let warnings = warnings.map(|(words, names)| format!("{}: {words}", names.join(", ")));
        let warnings = self.changes.iter().cloned().chain(warnings);
        let mut parts = vec![
            Part::Title(format!("{}, all of it", self.name)),
            Part::Warnings(warnings.collect()),
        ];
        let rows: Vec<Vec<String>> = made()
            .flat_map(|(name, (analysis, run))| {
                let curves = curves(run, analysis);
                let rows = claimed(&run.header().experiment, analysis, &curves);
                rows.into_iter().map(move |mut row| {
                    row.insert(1, name.clone());
                    row
                })
            })
            .collect();
        if !rows.is_empty() {
            let mut head = CLAIMS.map(String::from).to_vec();
            head.insert(1, "experiment".into());
            parts.push(Part::Heading("What was to hold".into()));
            parts.push(Part::Table { head, rows });
        }
        parts.push(Part::Heading("Each by itself".into()));
        for (name, (analysis, run)) in made() {
            let experiment = &run.header().experiment;
            let title = format!("{name}: {}", experiment.title);
            parts.push(Part::Links(vec![(title, format!("{name}/report"))]));
            parts.push(Part::Text(words(experiment, analysis)));
            let curves = curves(run, analysis);
            if !curves.is_empty() {
                parts.push(Part::Text(beside::words(experiment, &curves)));
            }
        }
        let out = |name: &String| {
            let why = self.left_out.iter().find(|(known, _)| known == name);
            why.map_or("not run", |(_, why)| why)
        };
        let missing: Vec<String> = each()
            .filter(|(_, run)| run.is_none())
            .map(|(name, _)| format!("{name}: {}", out(name)))
            .collect();
        if !missing.is_empty() {
            parts.push(Part::Heading("Not there".into()));
            parts.push(Part::List(missing));
        }
        let times = self.times().into_iter();
        let rows: Vec<Vec<String>> = times.map(|(name, time)| vec![name.into(), time]).collect();
        if !rows.is_empty() {
            let head = ["", "took"].map(String::from).to_vec();
            parts.push(Part::Heading("How long it took".into()));
            parts.push(Part::Table { head, rows });
        }
        parts
    }
}

/// As in "41 min 7 s".
fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {} s", seconds % 60),
    }
}

/// The same with links to files that end in this.
fn linked(parts: &[Part], end: &str) -> Vec<Part> {
    let with_end = |part: &Part| match part {
        Part::Links(points) => Part::Links(
            points
                .iter()
                .map(|(words, to)| (words.clone(), format!("{to}.{end}")))
                .collect(),
        ),
        other => other.clone(),
    };
    parts.iter().map(with_end).collect()
}

fn put(path: &Path, file: &str, text: &str) -> Result<()> {
    let path = path.join(file);
    whole_file::keep(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
