//! The answers at one load beside a simulation: `--simulate`.

use super::study::{Study, answer, at};
use super::written::duration;
use anyhow::{Context, Result};
use queueing::simulate::{Coupling, Estimate, Percentiles, Run, simulate_placed};
use serde::Serialize;
use std::fmt;

/// Formulas beside a simulation.
#[derive(Debug, Serialize)]
pub struct Check {
    /// All arrivals, a second.
    rate: f64,
    seed: u64,
    requests: u64,
    /// How a request's times at both stages hang together.
    coupling: Coupling,
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
    /// How the simulated delays are spread, seconds.
    percentiles: Option<Percentiles>,
}

/// What is simulated, from this seed.
pub fn run(seed: u64, same_size: bool) -> Run {
    Run {
        seed,
        coupling: if same_size {
            Coupling::SameSize
        } else {
            Coupling::Independent
        },
        ..Run::default()
    }
}

/// Simulates the host alone, everything offloaded and the best placement at the study's load;
/// `same_size` if one draw decides a request's times at both stages.
pub fn check(study: &Study, seed: u64, same_size: bool) -> Result<Check> {
    let server = &study.server;
    let classes = at(server, study.at);
    let run = run(seed, same_size);
    let mut rows = Vec::new();
    let mut row = |offloaded: &[bool], model: f64, exact: bool| -> Result<()> {
        let seen = simulate_placed(&classes, &server.system, offloaded, &run);
        let seen = seen.context("the simulation")?;
        rows.push(Row {
            offloaded: server.offloaded(offloaded),
            model,
            exact,
            simulated: seen.delay,
            percentiles: seen.percentiles,
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
        coupling: run.coupling,
        rows,
    })
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} requests simulated at {:.0} a second (seed {}{}), mean delay of a request:",
            self.requests,
            self.rate,
            self.seed,
            match self.coupling {
                Coupling::Independent => "",
                Coupling::SameSize => ", the same size at both stages",
            }
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
            if let Some(spread) = &row.percentiles {
                writeln!(
                    f,
                    "    p50 {}  p90 {}  p99 {}  p99.9 {}",
                    duration(spread.p50),
                    duration(spread.p90),
                    duration(spread.p99),
                    duration(spread.p999),
                )?;
            }
        }
        Ok(())
    }
}
