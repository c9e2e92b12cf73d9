//! What was measured: goodput by loss, and the ratio with its spread.

use super::{Congestion, Found, Plan};
use crate::experiment::analysis::{Interval, paired_ratio};
use crate::kept::keep;
use crate::machine;
use crate::statistics::median;
use crate::table::Table;
use serde_json::{Value, json};
use std::fmt;

/// The least ratio engine / kernel that is to be reached, up to [`GOAL_LOSS`].
const GOAL: f64 = 0.95;
/// The same of CUBIC where as many are lost, each by itself.
const CUBIC_GOAL: f64 = 1.0;
/// Where the goals hold.
const GOAL_LOSS: f64 = 0.01;

/// The rounds of one loss: kernel, engine.
#[derive(Debug, Default)]
struct Series {
    loss: f64,
    goodput: [Vec<f64>; 2],
    /// Of all frames that came, the share that was lost on purpose or for want of room, by round.
    lost: [Vec<f64>; 2],
}

impl Series {
    fn ratio(&self) -> Option<Interval> {
        paired_ratio(&self.goodput[1], &self.goodput[0])
    }

    fn goal(&self, congestion: Congestion, in_bursts: bool) -> Option<f64> {
        let cubic = congestion == Congestion::Cubic && self.loss == GOAL_LOSS && !in_bursts;
        let goal = if cubic { CUBIC_GOAL } else { GOAL };
        (self.loss <= GOAL_LOSS).then_some(goal)
    }
}

/// All that a run measured.
#[derive(Debug)]
pub struct Report {
    series: Vec<Series>,
    congestion: Congestion,
    in_bursts: bool,
    notes: Vec<String>,
    settings: Value,
    wire: String,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut settings = machine::settings();
        settings["rounds"] = plan.rounds.into();
        settings["window_seconds"] = plan.window.as_secs_f64().into();
        settings["connections"] = plan.connections.into();
        settings["round_trip_seconds"] = plan.round_trip.as_secs_f64().into();
        settings["bits_per_second"] = plan.bandwidth.into();
        settings["queue_bytes"] = plan.queue.into();
        settings["seed"] = plan.seed.into();
        settings["burst_frames"] = plan.burst.into();
        settings["congestion_control"] = plan.congestion.name().into();
        let series = plan.losses.iter().map(|&loss| Series {
            loss,
            ..Series::default()
        });
        let in_bursts = plan.burst > 1;
        let lost = if in_bursts {
            format!(", lost in bursts of up to {} frames", plan.burst)
        } else {
            String::new()
        };
        Self {
            series: series.collect(),
            congestion: plan.congestion,
            in_bursts,
            notes: Vec::new(),
            settings,
            wire: format!(
                "{}, round trip {} ms, {} Mbit/s each way, {} KB of buffer{lost}; connections: {}, {} s each",
                match plan.congestion {
                    Congestion::Cubic => "CUBIC",
                    Congestion::Bbr => "BBR, of version 1 on the kernel, 3 on the engine",
                },
                plan.round_trip.as_millis(),
                plan.bandwidth / 1_000_000,
                plan.queue / 1_000,
                plan.connections,
                plan.window.as_secs_f64(),
            ),
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(super) fn add(&mut self, case: usize, subject: usize, round: usize, found: &Found) {
        let series = &mut self.series[case];
        keep(&mut series.goodput[subject], round, found.goodput());
        keep(&mut series.lost[subject], round, found.lost());
        let late = found.late().into_iter();
        self.notes
            .extend(late.map(|passed| format!("{} % loss: {passed}", series.loss * 100.0)));
    }

    /// The report for programs.
    pub fn to_json(&self) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                let ratio = series.ratio();
                json!({
                    "loss": series.loss,
                    "unit": "Mbit/s",
                    "kernel": series.goodput[0],
                    "engine": series.goodput[1],
                    "kernel_lost": series.lost[0],
                    "engine_lost": series.lost[1],
                    "ratio": ratio.map(|ratio| ratio.median),
                    "ratio_low": ratio.and_then(|ratio| ratio.ends()[0]),
                    "ratio_high": ratio.and_then(|ratio| ratio.ends()[1]),
                    "ratio_coverage": ratio.and_then(|ratio| ratio.ends()[2]),
                    "goal": series.goal(self.congestion, self.in_bursts),
                })
            })
            .collect();
        json!({ "settings": self.settings, "series": series, "notes": self.notes })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.wire)?;
        let mut table = Table::new([
            "loss each way",
            "kernel Mbit/s",
            "engine Mbit/s",
            "engine/kernel",
            "interval",
            "goal",
            "",
        ]);
        for series in &self.series {
            let figure = |values: &[f64]| {
                median(values).map_or_else(|| "–".to_owned(), |figure| format!("{figure:.2}"))
            };
            let ratio = series.ratio();
            let goal = series.goal(self.congestion, self.in_bursts);
            table.row([
                format!("{} %", series.loss * 100.0),
                figure(&series.goodput[0]),
                figure(&series.goodput[1]),
                ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
                ratio.map_or_else(String::new, |ratio| ratio.shown(2)),
                goal.map_or_else(String::new, |goal| format!("at least {goal}")),
                match goal.zip(ratio) {
                    Some((goal, ratio)) if ratio.median >= goal => "met".into(),
                    Some(_) => "NOT MET".into(),
                    None => String::new(),
                },
            ]);
        }
        write!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
