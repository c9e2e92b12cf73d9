//! What was measured, of every subject, and how it compares with the kernel's.

use super::Plan;
use crate::experiment::analysis::{Interval, paired_ratio};
use crate::kept::keep;
use crate::machine;
use crate::statistics::median;
use crate::table::{Table, figure};
use serde_json::{Value, json};
use std::fmt;

/// A quantity that is measured.
#[derive(Debug, PartialEq)]
pub struct Measure {
    /// What tables call it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

macro_rules! measures {
    ($($constant:ident: $name:literal in $unit:literal;)*) => {
        $(pub(super) const $constant: Measure = Measure { name: $name, unit: $unit };)*
        /// In the order of the report.
        pub(crate) const MEASURES: &[&Measure] = &[$(&$constant),*];
    };
}

measures! {
    RATE: "requests" in "1/s";
    BULK: "throughput" in "Mb/s";
    P50: "latency, median" in "us";
    P99: "latency, 99 %" in "us";
    MACHINE_CPU: "CPU of the machine a request" in "us";
    PROGRAMS_CPU: "CPU of client, server and engine" in "us";
    SERVER_CPU: "CPU of the server" in "us";
    ENGINE_CPU: "CPU of the engine" in "us";
    SWITCHES: "switches of server and engine" in "";
}

/// The kernel's place among the subjects.
const KERNEL: usize = 0;

#[derive(Debug)]
struct Series {
    case: &'static str,
    measure: &'static Measure,
    /// By subject, by round.
    values: Vec<Vec<f64>>,
}

impl Series {
    /// A subject over the kernel, round by round.
    fn ratio(&self, subject: usize) -> Option<Interval> {
        paired_ratio(&self.values[subject], &self.values[KERNEL])
    }
}

/// All that a run measured.
#[derive(Debug)]
pub struct Report {
    subjects: Vec<String>,
    series: Vec<Series>,
    notes: Vec<String>,
    settings: Value,
}

impl Report {
    pub(super) fn new<'a>(plan: &Plan, subjects: impl Iterator<Item = &'a str>) -> Self {
        let mut settings = machine::settings();
        settings["rounds"] = plan.rounds.into();
        settings["window_seconds"] = plan.window.as_secs_f64().into();
        settings["placement"] = "nothing pinned".into();
        settings["load_average_before"] = machine::load_average().into();
        Self {
            subjects: subjects.map(str::to_owned).collect(),
            series: Vec::new(),
            notes: Vec::new(),
            settings,
        }
    }

    pub(super) fn add(
        &mut self,
        case: &'static str,
        measure: &'static Measure,
        subject: usize,
        (round, value): (usize, f64),
    ) {
        let place = |series: &Series| {
            let index = MEASURES.iter().position(|known| *known == series.measure);
            index.unwrap_or(MEASURES.len())
        };
        let known = |series: &Series| series.case == case && series.measure == measure;
        if !self.series.iter().any(known) {
            let series = Series {
                case,
                measure,
                values: vec![Vec::new(); self.subjects.len()],
            };
            let of_case = |series: &&mut Series| series.case == case;
            self.series.push(series);
            let first = self.series.iter().position(|series| series.case == case);
            let count = self.series.iter_mut().filter(of_case).count();
            let first = first.unwrap_or(0);
            self.series[first..first + count].sort_by_key(place);
        }
        if let Some(series) = self.series.iter_mut().find(|series| known(series)) {
            keep(&mut series.values[subject], round, value);
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The last round is over.
    pub(super) fn finish(&mut self) {
        self.settings["load_average_after"] = machine::load_average().into();
    }

    /// The report for programs.
    pub fn to_json(&self) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                let subjects = self.subjects.iter().enumerate().map(|(index, name)| {
                    let ratio = series.ratio(index);
                    let value = json!({
                        "rounds": series.values[index],
                        "ratio": ratio.map(|ratio| ratio.median),
                        "ratio_low": ratio.and_then(|ratio| ratio.ends()[0]),
                        "ratio_high": ratio.and_then(|ratio| ratio.ends()[1]),
                        "ratio_coverage": ratio.and_then(|ratio| ratio.ends()[2]),
                    });
                    (name.clone(), value)
                });
                json!({
                    "case": series.case,
                    "measure": series.measure.name,
                    "unit": series.measure.unit,
                    "subjects": subjects.collect::<serde_json::Map<_, _>>(),
                })
            })
            .collect();
        json!({ "settings": self.settings, "series": series, "notes": self.notes })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With whom the kernel is compared: every engine.
        let engines: Vec<usize> = (0..self.subjects.len())
            .filter(|&index| index != KERNEL && self.subjects[index] != "floor")
            .collect();
        let mut headings = vec![String::new()];
        headings.extend(self.subjects.iter().cloned());
        headings.push(String::new());
        for &index in &engines {
            headings.push(format!("{}/kernel", self.subjects[index]));
            headings.push("interval".into());
        }
        let mut table = Table::new(headings);
        let mut case = "";
        for series in &self.series {
            if series.case != case {
                case = series.case;
                table.row([case]);
            }
            let mut row = vec![format!("  {}", series.measure.name)];
            row.extend(series.values.iter().map(|values| figure(median(values))));
            row.push(series.measure.unit.into());
            for &index in &engines {
                let ratio = series.ratio(index);
                row.push(ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)));
                row.push(ratio.map_or_else(String::new, |ratio| ratio.shown(2)));
            }
            table.row(row);
        }
        table.left(self.subjects.len() + 1);
        write!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let load = |when: &str| self.settings[when].as_str().unwrap_or("?").to_owned();
        writeln!(
            f,
            "load average of the machine: {} before, {} after; cores: {}",
            load("load_average_before"),
            load("load_average_after"),
            self.settings["cores"],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report() -> Report {
        let plan = Plan {
            binary: "outboard".into(),
            beside: Vec::new(),
            rounds: 2,
            window: Duration::from_secs(1),
            only: Vec::new(),
            floor: true,
        };
        let mut report = Report::new(&plan, ["kernel", "engine", "floor"].into_iter());
        for (round, value) in [1.0, 3.0].into_iter().enumerate() {
            report.add("one", &SWITCHES, 0, (round, 2.0 * value));
            report.add("one", &RATE, 0, (round, value));
            report.add("one", &RATE, 1, (round, 2.0 * value));
            report.add("two", &P50, 0, (round, value));
            report.add("one", &RATE, 2, (round, 9.0));
        }
        report
    }

    #[test]
    fn subjects_are_compared_with_the_kernel_round_by_round() {
        let json = report().to_json();
        assert_eq!(json["series"][0]["measure"], "requests");
        let engine = &json["series"][0]["subjects"]["engine"];
        assert_eq!(engine["ratio"], 2.0);
        assert_eq!(engine["rounds"], json!([2.0, 6.0]));
    }

    /// One round has no interval, and two have one of which the half is true.
    #[test]
    fn intervals_say_how_sure_they_are() {
        let text = report().to_string();
        assert!(text.contains("2.00 to 2.00 (50 %)"), "{text}");
        let mut once = report();
        for series in &mut once.series {
            series
                .values
                .iter_mut()
                .for_each(|values| values.truncate(1));
        }
        let text = once.to_string();
        assert!(!text.contains(" to "), "{text}");
        let engine = &once.to_json()["series"][0]["subjects"]["engine"];
        assert_eq!(engine["ratio"], 2.0);
        assert!(engine["ratio_low"].is_null(), "{engine}");
    }

    #[test]
    fn the_table_has_cases_and_measures_in_their_order() {
        let text = report().to_string();
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("one") < at("requests"), "{text}");
        assert!(at("requests") < at("switches"), "{text}");
        assert!(at("switches") < at("two"), "{text}");
        assert!(text.contains("engine/kernel"), "{text}");
        assert!(!text.contains("floor/kernel"), "{text}");
    }
}
