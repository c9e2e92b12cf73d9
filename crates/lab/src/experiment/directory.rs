//! Where a run keeps what it measures, line by line as it comes, so that nothing is lost when it is
//! cut short and it can go on later.
//!
//! `run.json` says what is run and on what; `rounds.jsonl` has a line for each measurement. A line
//! that was not written to its end is what the machine lost when it went down, and is left out.

use super::bench::Sample;
use super::declaration::Experiment;
use super::order::Cell;
use super::rules::{End, Rules};
use super::surroundings::Conditions;
use crate::whole_file;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const RUN: &str = "run.json";
const ROUNDS: &str = "rounds.jsonl";

/// What is run, and on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// What is run.
    pub experiment: Experiment,
    /// How.
    pub rules: Rules,
    /// The version of outboard that measures, with its commit if it knows it.
    pub version: String,
    /// The settings of the machine.
    pub settings: Value,
    /// What of it was asked for; not known of runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// What was asked for of all that an experiment declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Only what makes a first impression.
    pub quick: bool,
    /// Only these levels: names of an axis and of a level of it.
    pub only: Vec<(String, String)>,
    /// A log also at so many times its own rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speeds: Vec<f64>,
}

impl Header {
    /// What is not as it was if this version of outboard measures on a machine with these settings.
    pub fn differences(&self, version: &str, settings: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if self.version != version {
            found.push(format!("outboard: {}, then {version}", self.version));
        }
        let known = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let (before, after) = (known(&self.settings), known(settings));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let (one, other) = (&self.settings[name], &settings[name]);
            if one == other {
                continue;
            }
            found.push(match one.is_null() {
                true => format!("{name}: nothing was noted, then {other}"),
                false => format!("{name}: {one}, then {other}"),
            });
        }
        found
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The round, from 1.
    pub round: u32,
    /// Of what.
    pub cell: Cell,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What the machine did meanwhile.
    pub conditions: Conditions,
    /// How long it took, everything around it included, in seconds.
    pub took: f64,
}

/// A line of `rounds.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Measured(Box<Record>),
    Ended(End),
    Changed(String),
}

/// The directory of a run.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    header: Header,
    records: Vec<Record>,
    end: Option<End>,
    changes: Vec<String>,
    /// Where measurements are added; not of one that is only read. Its lock is that of the run.
    file: Option<File>,
}

impl Directory {
    /// Makes it, for a new run.
    ///
    /// # Errors
    /// It cannot be made, or there is a run in it already.
    pub fn create(path: &Path, header: Header) -> Result<Self> {
        let shown = path.display();
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {shown}"))?;
        if path.join(RUN).exists() {
            bail!("there is a run in {shown} already");
        }
        let text = serde_json::to_string_pretty(&header)?;
        let written = whole_file::keep(&path.join(RUN), &text);
        written.with_context(|| format!("cannot write {RUN} in {shown}"))?;
        Self::resume(path)
    }

    /// Whether there is a run in it.
    pub fn is_there(path: &Path) -> bool {
        path.join(RUN).exists()
    }

    /// Opens that of a run that was made before, to go on with it. Nobody else can meanwhile.
    ///
    /// # Errors
    /// There is none, it cannot be read or written, or somebody goes on with it.
    pub fn resume(path: &Path) -> Result<Self> {
        let shown = path.display();
        if !path.join(RUN).exists() {
            bail!("there is no run in {shown}");
        }
        let rounds = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path.join(ROUNDS));
        let file = rounds.with_context(|| format!("cannot write in {shown}"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!("the run in {shown} is going on"),
            Err(errno) => return Err(errno).with_context(|| format!("cannot lock {shown}")),
        }
        // Only now nobody else is writing the last line.
        let (mut directory, whole) = Self::read(path)?;
        let cut = file.set_len(whole);
        cut.with_context(|| format!("cannot write in {shown}"))?;
        directory.file = Some(file);
        Ok(directory)
    }

    /// Opens that of a run that was made before, or goes on, to read it. Nothing in it is changed.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        Self::read(path).map(|(directory, _)| directory)
    }

    /// Reads it; with the bytes of whole lines of measurements.
    fn read(path: &Path) -> Result<(Self, u64)> {
        let shown = path.display();
        let text = std::fs::read_to_string(path.join(RUN))
            .with_context(|| format!("there is no run in {shown}"))?;
        let header = serde_json::from_str(&text).with_context(|| format!("{RUN} in {shown}"))?;
        let rounds = path.join(ROUNDS);
        let text = match std::fs::read_to_string(&rounds) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {ROUNDS} in {shown}"));
            }
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let (mut records, mut end, mut changes) = (Vec::new(), None, Vec::new());
        for line in text[..whole].lines() {
            let line =
                serde_json::from_str(line).with_context(|| format!("{ROUNDS} in {shown}"))?;
            match line {
                Line::Measured(record) => records.push(*record),
                Line::Ended(how) => end = Some(how),
                Line::Changed(what) => changes.push(what),
            }
        }
        let directory = Self {
            path: path.to_owned(),
            header,
            records,
            end,
            changes,
            file: None,
        };
        Ok((directory, whole as u64))
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, record: Record) -> Result<()> {
        let line = Line::Measured(Box::new(record));
        self.write(&line)?;
        if let Line::Measured(record) = line {
            self.records.push(*record);
        }
        Ok(())
    }

    /// Notes how the run ended, this time.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self, end: End) -> Result<()> {
        self.end = Some(end);
        self.write(&Line::Ended(end))
    }

    /// Notes what has changed since the run was begun, and that it goes on in spite of it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn change(&mut self, what: String) -> Result<()> {
        self.write(&Line::Changed(what.clone()))?;
        self.changes.push(what);
        Ok(())
    }

    /// What had changed when it went on.
    pub fn changes(&self) -> &[String] {
        &self.changes
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let shown = self.path.display();
        let file = self.file.as_mut();
        let file = file.with_context(|| format!("{shown} was opened only to be read"))?;
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write in {shown}"))
    }

    /// Gives a run that goes on another limit of time.
    pub fn limit(&mut self, limit: std::time::Duration) {
        self.header.rules.limit = limit;
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is run, and on what.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Every measurement so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// A sentence about measurements that failed, if any did.
    pub fn failed(&self) -> Option<String> {
        let failed = self.records.iter().filter(|record| record.failed.is_some());
        let failed = failed.count();
        (failed > 0).then(|| crate::kept::some_failed(failed, self.records.len()))
    }

    /// How it ended the last time; not at all, if it was killed.
    pub fn end(&self) -> Option<End> {
        self.end
    }
}
