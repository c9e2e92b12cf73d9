//! What the measurements say: estimates with intervals, which of the source's findings hold, and
//! what makes a run doubtful.

use super::declaration::{Bound, Claim, Experiment};
use super::directory::{Directory, Record};
use super::order::{Cell, cells};
use super::rules::End;
use super::watched::watched;
use crate::statistics::{estimate, median};
use crate::table::figure;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A median and how far to trust it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How many values it is of.
    pub rounds: usize,
}

/// With fewer values than this a bootstrap is too sure of itself.
const ENOUGH: usize = 6;

/// The median of `values` with its 95 % bootstrap interval. With fewer than six values the interval
/// is all that lies between the least and the greatest: it has the true median in it with
/// probability 1 − 2^(1−n), which is 75 % for three values and 94 % for five. `None` of nothing.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let rounds = values.len();
    if rounds >= ENOUGH {
        let found = estimate(values)?;
        return Some(Interval {
            median: found.median,
            low: found.low,
            high: found.high,
            rounds,
        });
    }
    Some(Interval {
        median: median(values)?,
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        rounds,
    })
}

/// The ratio `numerators[i] / denominators[i]` over paired rounds, with its spread. Pairing takes
/// out what drifts slowly: the two of a pair ran one after the other. `None` without pairs.
pub fn paired_ratio(numerators: &[f64], denominators: &[f64]) -> Option<Interval> {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .filter(|(_, denominator)| **denominator != 0.0)
        .map(|(numerator, denominator)| numerator / denominator)
        .filter(|ratio| !ratio.is_nan())
        .collect();
    interval(&ratios)
}

impl Interval {
    /// With which probability the true median is in it; unknown of one value.
    pub fn coverage(&self) -> Option<f64> {
        match self.rounds {
            0 | 1 => None,
            few if few < ENOUGH => Some(1.0 - 0.5_f64.powi(few as i32 - 1)),
            _ => Some(0.95),
        }
    }

    /// From where to where, with so many digits, and with which probability; nothing of one value,
    /// which says nothing of others.
    pub fn shown(&self, digits: usize) -> String {
        let (low, high) = (self.low, self.high);
        self.coverage().map_or_else(String::new, |coverage| {
            let percent = (100.0 * coverage).round();
            format!("{low:.digits$} to {high:.digits$} ({percent} %)")
        })
    }

    /// The median, and from where to where, as tables have it.
    pub fn told(&self) -> String {
        let [median, low, high] = [self.median, self.low, self.high].map(|it| figure(Some(it)));
        format!("{median} ({low} to {high})")
    }

    /// As JSON; the ends of one value are not known.
    pub fn ends(&self) -> [Option<f64>; 3] {
        let coverage = self.coverage();
        [
            coverage.map(|_| self.low),
            coverage.map(|_| self.high),
            coverage,
        ]
    }

    /// How far it reaches from the median, as a part of the median. Infinite for a median of zero
    /// with an interval, and for a single value, of which nobody knows how far to trust it.
    pub fn reach(&self) -> f64 {
        self.reach_beside(0.0)
    }

    /// The same as a part of a figure, where that is more than the median.
    pub fn reach_beside(&self, figure: f64) -> f64 {
        let reach = (self.high - self.median).max(self.median - self.low);
        match (self.rounds, reach, self.median.abs().max(figure)) {
            (0 | 1, ..) => f64::INFINITY,
            (_, 0.0, _) => 0.0,
            (_, _, 0.0) => f64::INFINITY,
            (_, reach, whole) => reach / whole,
        }
    }
}

/// What was found of one combination.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Which.
    pub cell: Cell,
    /// By the name of the measure.
    pub values: BTreeMap<String, Interval>,
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval of the ratio says so.
    Holds,
    /// The whole interval says the contrary.
    Fails,
    /// The interval has both in it.
    Undecided,
}

impl Outcome {
    /// What a report calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Undecided => "undecided",
        }
    }
}

/// A claim at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Which claim, by its place among those of the experiment.
    pub claim: usize,
    /// The levels.
    pub levels: Vec<usize>,
    /// The ratio, over pairs of the same round; of a claim about one subject, its figure.
    pub ratio: Interval,
    /// Whether it holds there.
    pub outcome: Outcome,
}

/// All that a run says.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// By combination; without those that have no value.
    pub found: Vec<Found>,
    /// By claim and point; without those that have no pair.
    pub verdicts: Vec<Verdict>,
    /// What makes it doubtful. A report begins with it.
    pub warnings: Vec<String>,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// How many measurements have a client that was the limit, of how many.
    pub limited: (usize, usize),
    /// Of how many of them it is known whether it was.
    pub client_known: usize,
}

/// An interval that reaches further than this part of its median is one of rounds that disagree.
const DISAGREE: f64 = 0.25;
/// With fewer rounds than this a result is an impression.
const IMPRESSION: usize = 5;

/// Says what a run says.
pub fn analyse(directory: &Directory) -> Analysis {
    let experiment = &directory.header().experiment;
    let records = directory.records();
    let found: Vec<Found> = cells(experiment)
        .into_iter()
        .filter_map(|cell| found(experiment, records, cell))
        .collect();
    let claims = experiment.claims.iter().enumerate();
    let verdicts = claims
        .flat_map(|(index, claim)| verdicts(experiment, records, index, claim))
        .collect();
    let samples = records.iter().filter_map(|record| record.sample.as_ref());
    let limited = samples.clone().filter(|s| s.client.is_the_limit()).count();
    let notes: BTreeSet<String> = samples.clone().flat_map(|s| s.notes.clone()).collect();
    Analysis {
        warnings: warnings(directory, &found),
        client_known: samples.clone().filter(|s| s.client.is_known()).count(),
        limited: (limited, samples.count()),
        notes: notes.into_iter().collect(),
        found,
        verdicts,
    }
}

/// The values of a measure in a combination, round by round.
pub fn values(records: &[Record], cell: &Cell, measure: &str) -> Vec<(u32, f64)> {
    let of = records.iter().filter(|record| record.cell == *cell);
    of.filter_map(|record| {
        let sample = record.sample.as_ref()?;
        Some((record.round, *sample.values.get(measure)?))
    })
    .collect()
}

fn found(experiment: &Experiment, records: &[Record], cell: Cell) -> Option<Found> {
    let of = |name: &String| {
        let values: Vec<f64> = values(records, &cell, name)
            .iter()
            .map(|(_, value)| *value)
            .collect();
        Some((name.clone(), interval(&values)?))
    };
    let names = experiment.measures.iter().map(|measure| &measure.name);
    let values: BTreeMap<String, Interval> = names.filter_map(of).collect();
    (!values.is_empty()).then_some(Found { cell, values })
}

/// The ratio of two subjects' values of the same rounds.
pub fn ratio(records: &[Record], of: &Cell, to: &Cell, measure: &str) -> Option<Interval> {
    let below: BTreeMap<u32, f64> = values(records, to, measure).into_iter().collect();
    let pairs = values(records, of, measure);
    let ratios: Vec<f64> = pairs
        .into_iter()
        .filter_map(|(round, above)| Some(above / *below.get(&round).filter(|v| **v != 0.0)?))
        .collect();
    interval(&ratios)
}

fn verdicts(
    experiment: &Experiment,
    records: &[Record],
    index: usize,
    claim: &Claim,
) -> Vec<Verdict> {
    let subject = |name: &String| experiment.subjects.iter().position(|known| known == name);
    let (Some(above), below) = (subject(&claim.subject), claim.below().map(subject)) else {
        return Vec::new();
    };
    super::order::points(experiment)
        .into_iter()
        .filter(|levels| claim.is_at(experiment, levels))
        .filter_map(|levels| {
            let above = Cell {
                levels: levels.clone(),
                subject: above,
            };
            let measure = &claim.measure;
            let ratio = match below {
                Some(below) => {
                    let below = Cell {
                        levels: claim.levels_below(experiment, &levels)?,
                        subject: below?,
                    };
                    ratio(records, &above, &below, measure)?
                }
                None => {
                    let values = values(records, &above, measure).into_iter();
                    interval(&values.map(|(_, value)| value).collect::<Vec<f64>>())?
                }
            };
            let outcome = judge(claim.ratio, &ratio);
            Some(Verdict {
                claim: index,
                levels,
                ratio,
                outcome,
            })
        })
        .collect()
}

fn judge(bound: Bound, ratio: &Interval) -> Outcome {
    let (holds, fails) = match bound {
        Bound::AtLeast(least) => (ratio.low >= least, ratio.high < least),
        Bound::AtMost(most) => (ratio.high <= most, ratio.low > most),
    };
    match (holds, fails) {
        // One round has no interval to speak of.
        _ if ratio.rounds < 2 => Outcome::Undecided,
        (true, _) => Outcome::Holds,
        (_, true) => Outcome::Fails,
        _ => Outcome::Undecided,
    }
}

fn warnings(directory: &Directory, found: &[Found]) -> Vec<String> {
    let header = directory.header();
    let experiment = &header.experiment;
    let records = directory.records();
    let changes = directory.changes().iter();
    let mut warnings: Vec<String> = changes
        .map(|what| format!("Its measurements are not of the same: {what}."))
        .collect();
    let missing = experiment.left_out.iter().filter(|it| it.is_of_machine());
    warnings.extend(missing.map(|left_out| format!("This machine has not {left_out}.")));
    match directory.end() {
        Some(End::Narrow | End::Rounds) => {}
        Some(End::Time) => warnings.push(
            "The time was up before the intervals were as narrow as they should be.".to_owned(),
        ),
        Some(End::Interrupted) => warnings.push("The run was interrupted.".to_owned()),
        None => warnings.push("The run did not come to its end.".to_owned()),
    }
    let all = cells(experiment).len();
    if found.len() < all {
        let missing = all - found.len();
        warnings.push(format!("{missing} of {all} combinations have no value."));
    }
    let least = found
        .iter()
        .flat_map(|f| f.values.values().map(|value| value.rounds))
        .min();
    if let Some(least) = least.filter(|least| *least < IMPRESSION) {
        warnings.push(format!(
            "An impression, not a result: some figures are of {least} {}.",
            if least == 1 { "round" } else { "rounds" }
        ));
    }
    let failed: Vec<&Record> = records.iter().filter(|r| r.failed.is_some()).collect();
    if let Some(last) = failed.last() {
        warnings.push(format!(
            "{} of {} measurements failed; the last ({}): {}",
            failed.len(),
            records.len(),
            last.cell.describe(experiment),
            last.failed.as_deref().unwrap_or_default()
        ));
    }
    let limits = |record: &&Record| {
        let sample = record.sample.as_ref();
        sample.is_some_and(|sample| sample.client.is_the_limit())
    };
    let limited: Vec<&Record> = records.iter().filter(limits).collect();
    if !limited.is_empty() {
        warnings.push(format!(
            "The client was the limit in {} of {} measurements, among them: {}. There the server \
             could have done more.",
            limited.len(),
            records.len(),
            some(experiment, limited.iter().map(|record| &record.cell))
        ));
    }
    warnings.extend(overflowed(experiment, records));
    let unfair = records.iter().filter(|r| !r.conditions.are_fair());
    let unfair: Vec<&Record> = unfair.collect();
    if !unfair.is_empty() {
        let worst = |of: fn(&Record) -> f64| unfair.iter().map(|r| of(r)).fold(0.0, f64::max);
        warnings.push(format!(
            "The machine was not ours in {} of {} measurements: at worst {:.0} % of its time went to \
             others, and it stood still for {:.2} s.",
            unfair.len(),
            records.len(),
            worst(|record| record.conditions.went_to_others()) * 100.0,
            worst(|record| record.conditions.stood_still)
        ));
    }
    for measure in &experiment.measures {
        let wide = found.iter().filter(|found| {
            let watched = watched(experiment, &found.cell, &found.values);
            let beside = watched.get(measure.name.as_str());
            let value = found.values.get(&measure.name);
            value.zip(beside).is_some_and(|(value, beside)| {
                value.rounds > 1 && value.reach_beside(*beside) > DISAGREE
            })
        });
        let wide: Vec<&Cell> = wide.map(|found| &found.cell).collect();
        if !wide.is_empty() {
            warnings.push(format!(
                "Rounds disagree by more than {:.0} % about {} in {} of {} combinations, among them: \
                 {}.",
                DISAGREE * 100.0,
                measure.name,
                wide.len(),
                all,
                some(experiment, wide.iter().copied())
            ));
        }
    }
    warnings
}

/// Where connections came to an accept queue that was full, of which subjects, and how often.
fn overflowed(experiment: &Experiment, records: &[Record]) -> Option<String> {
    let times = |record: &Record| {
        let used = record.sample.as_ref()?.used.as_ref()?;
        (used.refused.overflowed > 0).then_some(used.refused.overflowed)
    };
    let all: Vec<(&Record, u64)> = records
        .iter()
        .filter_map(|record| Some((record, times(record)?)))
        .collect();
    let mut each: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
    for (record, times) in &all {
        let known = each.entry(record.cell.subject).or_default();
        *known = (known.0 + times, known.1 + 1);
    }
    let each: Vec<String> = each
        .into_iter()
        .map(|(subject, (times, measurements))| {
            let name = &experiment.subjects[subject];
            format!("{name}, {times} times in {measurements}")
        })
        .collect();
    (!all.is_empty()).then(|| {
        format!(
            "The server's accept queue overflowed in {} of {} measurements ({}), among them: {}. Connections came \
             that it did not take; whoever tries again waits for that, a second as a rule.",
            all.len(),
            records.len(),
            each.join("; "),
            some(experiment, all.iter().map(|(record, _)| &record.cell))
        )
    })
}

/// The names of the first few.
fn some<'a>(experiment: &Experiment, cells: impl Iterator<Item = &'a Cell>) -> String {
    let cells: BTreeSet<&Cell> = cells.collect();
    let mut names: Vec<String> = cells
        .iter()
        .take(3)
        .map(|cell| cell.describe(experiment))
        .collect();
    if cells.len() > names.len() {
        names.push("…".into());
    }
    names.join("; ")
}

#[cfg(test)]
mod tests {
    use super::{Interval, Outcome, interval, judge, paired_ratio};
    use crate::experiment::declaration::Bound;

    #[test]
    fn few_values_have_their_range_for_an_interval() {
        let few = interval(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.median, few.low, few.high), (2.0, 1.0, 3.0));
        assert_eq!(few.reach(), 0.5);
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[5.0]).unwrap().reach(), f64::INFINITY);
        let many = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert!(many.low > 1.0 && many.high < 9.0, "{many:?}");
    }

    #[test]
    fn pairing_removes_a_drift_that_both_sides_share() {
        let drift = [1.0, 2.0, 4.0, 8.0];
        let halved = drift.map(|value| value / 2.0);
        let ratio = paired_ratio(&halved, &drift).unwrap();
        assert_eq!((ratio.low, ratio.median, ratio.high), (0.5, 0.5, 0.5));
    }

    #[test]
    fn an_interval_says_how_sure_it_is() {
        let shown = |values: &[f64]| interval(values).unwrap().shown(2);
        assert_eq!(shown(&[1.02]), "");
        assert_eq!(interval(&[1.02]).unwrap().ends(), [None; 3]);
        assert_eq!(shown(&[1.02, 1.0]), "1.00 to 1.02 (50 %)");
        assert_eq!(shown(&[1.02, 1.0, 0.9]), "0.90 to 1.02 (75 %)");
        assert_eq!(shown(&[1.0; 5]), "1.00 to 1.00 (94 %)");
        assert_eq!(shown(&[1.0; 6]), "1.00 to 1.00 (95 %)");
    }

    #[test]
    fn a_claim_is_decided_by_a_whole_interval_only() {
        let ratio = |low, high, rounds| Interval {
            median: f64::midpoint(low, high),
            low,
            high,
            rounds,
        };
        let least = Bound::AtLeast(1.0);
        assert_eq!(judge(least, &ratio(1.0, 1.2, 5)), Outcome::Holds);
        assert_eq!(judge(least, &ratio(0.9, 1.2, 5)), Outcome::Undecided);
        assert_eq!(judge(least, &ratio(0.8, 0.9, 5)), Outcome::Fails);
        assert_eq!(judge(least, &ratio(1.1, 1.1, 1)), Outcome::Undecided);
        let most = Bound::AtMost(0.5);
        assert_eq!(judge(most, &ratio(0.4, 0.5, 5)), Outcome::Holds);
        assert_eq!(judge(most, &ratio(0.6, 0.7, 5)), Outcome::Fails);
    }
}
