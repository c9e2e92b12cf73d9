//! Measures round by round, in random order, until the intervals are narrow enough, or the time is
//! up, or someone interrupts.

use super::analysis::interval;
use super::bench::{At, Bench};
use super::declaration::Experiment;
use super::directory::{Directory, Record};
use super::order::{self, Cell};
use super::rules::{End, Rules};
use super::surroundings::Surroundings;
use super::watched::watched;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// After so many failures one after another a combination is left out.
const FAILURES: usize = 3;

/// What a run is at.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The round, from 1.
    pub round: u32,
    /// Measurements made, by this run and by those that it goes on with.
    pub made: usize,
    /// How many there will be at least, if nothing ends it before.
    pub expected: usize,
    /// What is measured now.
    pub doing: String,
    /// The time until those are made, or until the limit. Not known before the first.
    pub left: Option<Duration>,
}

/// A run.
pub struct Runner<'a> {
    /// Where it is kept, and what is run.
    pub directory: &'a mut Directory,
    /// The clock, and the state of the machine.
    pub surroundings: &'a mut dyn Surroundings,
    /// Set by whoever interrupts it.
    pub stop: &'a AtomicBool,
}

impl Runner<'_> {
    /// Runs it, or goes on with it. `watch` is told before each measurement.
    ///
    /// # Errors
    /// What was measured cannot be kept. A measurement that fails is kept as such.
    pub fn run(&mut self, bench: &mut dyn Bench, mut watch: impl FnMut(&Progress)) -> Result<End> {
        let end = self.rounds(bench, &mut watch)?;
        self.directory.finish(end)?;
        Ok(end)
    }

    fn rounds(&mut self, bench: &mut dyn Bench, watch: &mut dyn FnMut(&Progress)) -> Result<End> {
        let rules = self.directory.header().rules;
        let began = self.surroundings.elapsed();
        let mut state = State::of(self.directory);
        let mut made_now = 0_u32;
        for round in 1..=rules.most_rounds {
            let experiment = &self.directory.header().experiment;
            let order = order::round(experiment, rules.seed, round);
            let wanted: Vec<Cell> = order
                .iter()
                .filter(|cell| !state.made.contains(&(round, (*cell).clone())))
                .filter(|cell| {
                    round <= rules.least_rounds || !state.is_settled(experiment, cell, rules)
                })
                .cloned()
                .collect();
            if order.iter().all(|cell| state.is_given_up(cell)) {
                return Ok(End::Rounds);
            }
            let is_done =
                |cell: &Cell| state.is_given_up(cell) || state.is_settled(experiment, cell, rules);
            if round > rules.least_rounds && order.iter().all(is_done) {
                return Ok(End::Narrow);
            }
            for (index, cell) in wanted.iter().enumerate() {
                if state.is_given_up(cell) {
                    continue;
                }
                let spent = self.surroundings.elapsed().saturating_sub(began);
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(End::Interrupted);
                }
                if spent >= rules.limit {
                    return Ok(End::Time);
                }
                let further = order.len() * rules.least_rounds.saturating_sub(round) as usize;
                let ahead = wanted.len() - index + further;
                let made = self.directory.records().len();
                let each = (made_now > 0).then(|| spent / made_now);
                let left = each.map(|each| each * u32::try_from(ahead).unwrap_or(u32::MAX));
                watch(&Progress {
                    round,
                    made,
                    expected: made + ahead,
                    doing: cell.describe(&self.directory.header().experiment),
                    left: left.map(|left| left.min(rules.limit.saturating_sub(spent))),
                });
                let record = self.measure(bench, cell, round, rules);
                // Whoever interrupts interrupts programs of the measurement as well.
                if record.failed.is_some() && self.stop.load(Ordering::Relaxed) {
                    return Ok(End::Interrupted);
                }
                state.add(self.directory, &record);
                self.directory.add(record)?;
                made_now += 1;
            }
        }
        Ok(End::Rounds)
    }

    fn measure(&mut self, bench: &mut dyn Bench, cell: &Cell, round: u32, rules: Rules) -> Record {
        let experiment = &self.directory.header().experiment;
        let levels = cell.levels(experiment);
        let at = At {
            experiment,
            subject: &experiment.subjects[cell.subject],
            levels: &levels,
            window: rules.window,
            seed: rules.seed.wrapping_add(u64::from(round)),
        };
        let began = self.surroundings.elapsed();
        let prepared = bench.prepare(&at);
        self.surroundings.begin();
        let result = prepared.and_then(|()| bench.measure(&at));
        let conditions = self.surroundings.end();
        let took = self.surroundings.elapsed().saturating_sub(began);
        let (sample, failed) = match result {
            Ok(sample) => (Some(sample), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Record {
            round,
            cell: cell.clone(),
            sample,
            failed,
            conditions,
            took: took.as_secs_f64(),
        }
    }
}

/// What has been made of each combination.
struct State {
    made: HashSet<(u32, Cell)>,
    /// By the name of the measure.
    values: HashMap<Cell, BTreeMap<String, Vec<f64>>>,
    failures: HashMap<Cell, usize>,
}

impl State {
    fn of(directory: &Directory) -> Self {
        let mut state = Self {
            made: HashSet::new(),
            values: HashMap::new(),
            failures: HashMap::new(),
        };
        for record in directory.records() {
            state.add(directory, record);
        }
        state
    }

    fn add(&mut self, directory: &Directory, record: &Record) {
        let cell = record.cell.clone();
        self.made.insert((record.round, cell.clone()));
        let experiment = &directory.header().experiment;
        let sample = record.sample.as_ref();
        let sample = sample.filter(|sample| experiment.judged_by(&sample.values).is_some());
        let Some(sample) = sample else {
            *self.failures.entry(cell).or_default() += 1;
            return;
        };
        self.failures.remove(&cell);
        let known = self.values.entry(cell).or_default();
        for (measure, value) in &sample.values {
            known.entry(measure.clone()).or_default().push(*value);
        }
    }

    fn is_given_up(&self, cell: &Cell) -> bool {
        self.failures
            .get(cell)
            .is_some_and(|count| *count >= FAILURES)
    }

    /// Whether it was measured often enough, and the interval of each measure that is watched is narrow enough.
    fn is_settled(&self, experiment: &Experiment, cell: &Cell, rules: Rules) -> bool {
        let Some(known) = self.values.get(cell) else {
            return false;
        };
        let first = experiment.judged_by(known);
        let is_enough = |values: &Vec<f64>| values.len() >= rules.least_rounds as usize;
        if !first.is_some_and(|(_, values)| is_enough(values)) {
            return false;
        }
        let watched = watched(experiment, cell, known);
        watched.into_iter().all(|(measure, beside)| {
            let found = known.get(measure).and_then(|values| interval(values));
            found.is_some_and(|found| found.reach_beside(beside) <= rules.precision)
        })
    }
}
