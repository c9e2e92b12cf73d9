//! The answers at one load beside a simulation: `--simulate`.

use super::study::{Study, answer, at};
use super::written::duration;
use anyhow::{Context, Result};
use queueing::simulate::{Estimate, Run, simulate_placed};
use serde::Serialize;
use std::fmt;

/// Formulas beside a simulation.
#[derive(Debug, Serialize)]
pub struct Check {
    /// All arrivals, a second.
    rate: f64,
    seed: u64,
    requests: u64,
    rows: Vec<Row>,
}

/// One placement.
#[derive(Debug, Serialize)]
struct Row {
    /// What is offloaded, in words.
    offloaded: String,
    /// The model's mean delay, seconds.
    model: f64,
    /// Whether the model says that it is exact.
    exact: bool,
    /// What was simulated, seconds.
    simulated: Estimate,
}

/// Simulates the host alone, everything offloaded and the best placement at the study's load.
pub fn check(study: &Study, seed: u64) -> Result<Check> {
    let server = &study.server;
    let classes = at(server, study.at);
    let run = Run {
        seed,
        ..Run::default()
    };
    let mut rows = Vec::new();
    let mut row = |offloaded: &[bool], model: f64, exact: bool| -> Result<()> {
        let seen = simulate_placed(&classes, &server.system, offloaded, &run);
        rows.push(Row {
            offloaded: server.offloaded(offloaded),
            model,
            exact,
            simulated: seen.context("the simulation")?.delay,
        });
        Ok(())
    };
    for engine in [false, true] {
        if let Some(model) = answer(server, &classes, engine)? {
            row(&vec![engine; classes.len()], model.delay, model.exact)?;
        }
    }
    let best = study.points.iter().find(|point| point.rate == study.at);
    if let Some(best) = best.and_then(|point| point.best.as_ref())
        && best.offloaded.contains(&true)
        && best.offloaded.contains(&false)
    {
        row(
            &best.offloaded,
            best.prediction.delay,
            best.prediction.exact,
        )?;
    }
    Ok(Check {
        rate: study.at,
        seed,
        requests: run.requests,
        rows,
    })
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} requests simulated at {:.0} a second (seed {}), mean delay of a request:",
            self.requests, self.rate, self.seed
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "  offloaded {:<12} {} ± {} (95 %); the model says {} ({})",
                format!("{}:", row.offloaded),
                duration(row.simulated.mean),
                duration(row.simulated.half_width),
                duration(row.model),
                if row.exact { "exact" } else { "approximation" },
            )?;
        }
        Ok(())
    }
}
