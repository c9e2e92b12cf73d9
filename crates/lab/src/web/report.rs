//! What was measured: series by case and measure, printed as ratios with their spread, or as JSON.

use super::Plan;
use super::subject::Subject;
use crate::machine;
use crate::statistics::{Estimate, median, paired_ratio};
use crate::table::{Table, figure};
use serde_json::{Value, json};
use std::fmt;

/// A quantity that is measured.
#[derive(Debug)]
pub struct Measure {
    /// What tables call it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

macro_rules! measures {
    ($($constant:ident: $name:literal in $unit:literal;)*) => {
        $(pub(super) const $constant: Measure = Measure { name: $name, unit: $unit };)*
    };
}

measures! {
    THROUGHPUT: "throughput" in "req/s";
    SERVER_CPU: "CPU of the server a request" in "us";
    ENGINE_CPU: "CPU of the engine a request" in "us";
    MACHINE_CPU: "CPU of the machine a request" in "us";
    P50: "latency, median" in "us";
    P99: "latency, 99 %" in "us";
    P999: "latency, 99.9 %" in "us";
    ECHO_MEDIAN: "round trip, median" in "us";
}

/// What the ratio engine / kernel is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(limit) => ratio <= limit,
            Self::AtLeast(limit) => ratio >= limit,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

/// The rounds of one measure in one case.
#[derive(Debug)]
pub struct Series {
    case: &'static str,
    measure: &'static Measure,
    goal: Option<Goal>,
    kernel: Vec<f64>,
    engine: Vec<f64>,
}

impl Series {
    /// Engine over kernel, round by round.
    pub fn ratio(&self) -> Option<Estimate> {
        paired_ratio(&self.engine, &self.kernel)
    }
}

/// All that a run measured.
#[derive(Debug)]
pub struct Report {
    series: Vec<Series>,
    notes: Vec<String>,
    settings: Value,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut settings = machine::settings();
        settings["rounds"] = plan.rounds.into();
        settings["window_seconds"] = plan.window.as_secs_f64().into();
        settings["connections"] = plan.connections.into();
        settings["placement"] = "server and engine on core 0, client on core 1".into();
        Self {
            series: Vec::new(),
            notes: Vec::new(),
            settings,
        }
    }

    pub(super) fn add(
        &mut self,
        case: &'static str,
        measure: &'static Measure,
        goal: Option<Goal>,
        subject: &Subject,
        value: f64,
    ) {
        let known = self
            .series
            .iter()
            .position(|series| series.case == case && series.measure.name == measure.name);
        let index = known.unwrap_or_else(|| {
            self.series.push(Series {
                case,
                measure,
                goal,
                kernel: Vec::new(),
                engine: Vec::new(),
            });
            self.series.len() - 1
        });
        let series = &mut self.series[index];
        if subject.is_engine() {
            series.engine.push(value);
        } else {
            series.kernel.push(value);
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The report for programs.
    pub fn to_json(&self) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                let ratio = series.ratio();
                json!({
                    "case": series.case,
                    "measure": series.measure.name,
                    "unit": series.measure.unit,
                    "kernel": series.kernel,
                    "engine": series.engine,
                    "ratio": ratio.map(|ratio| ratio.median),
                    "ratio_low": ratio.map(|ratio| ratio.low),
                    "ratio_high": ratio.map(|ratio| ratio.high),
                    "goal": series.goal.map(|goal| goal.to_string()),
                    "goal_met": series.goal.zip(ratio).map(|(goal, ratio)| goal.is_met(ratio.median)),
                })
            })
            .collect();
        json!({ "settings": self.settings, "series": series, "notes": self.notes })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "",
            "kernel",
            "engine",
            "",
            "engine/kernel",
            "95 % interval",
            "goal",
            "",
        ]);
        let mut case = "";
        for series in &self.series {
            if series.case != case {
                case = series.case;
                table.row([case]);
            }
            let ratio = series.ratio();
            table.row([
                format!("  {}", series.measure.name),
                figure(median(&series.kernel)),
                figure(median(&series.engine)),
                series.measure.unit.to_string(),
                ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
                ratio.map_or_else(String::new, |ratio| {
                    format!("{:.2} to {:.2}", ratio.low, ratio.high)
                }),
                series
                    .goal
                    .map_or_else(String::new, |goal| goal.to_string()),
                match series.goal.zip(ratio) {
                    Some((goal, ratio)) if goal.is_met(ratio.median) => "met".into(),
                    Some(_) => "NOT MET".into(),
                    None => String::new(),
                },
            ]);
        }
        table.left(3);
        write!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Goal;

    #[test]
    fn goals_have_a_side() {
        assert!(Goal::AtMost(0.5).is_met(0.5) && !Goal::AtMost(0.5).is_met(0.51));
        assert!(Goal::AtLeast(1.0).is_met(1.1) && !Goal::AtLeast(1.0).is_met(0.99));
    }
}
