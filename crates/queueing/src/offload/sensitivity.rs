//! Which input the answer hangs on: elasticities.
//!
//! An elasticity of 2 means that one per cent more of the input makes the result two per cent
//! larger. Near saturation every delay is elastic, and the input with the greatest elasticity is
//! the one worth measuring well.

use super::{Class, System, predict::predict};
use crate::{Distribution, ModelError};
use serde::Serialize;

/// The elasticities of the mean delay with engine, and of the one without, to one input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Elasticity {
    /// Which input: `arrival_rate`, `application`, `protocol`, `overhead`, `control`, `engine`.
    pub input: &'static str,
    /// Of the delay of the host without engine.
    pub without_engine: f64,
    /// Of the delay of the host with engine.
    pub with_engine: f64,
}

/// The relative step of the central difference: its error is of the order of its square.
const STEP: f64 = 1e-4;

type Change = fn(&mut Class, f64) -> Result<(), ModelError>;

fn scale(distribution: &mut Distribution, factor: f64) -> Result<(), ModelError> {
    *distribution = distribution.clone().scaled(factor)?;
    Ok(())
}

const INPUTS: [(&str, Change); 6] = [
    ("arrival_rate", |class, factor| {
        class.arrival_rate *= factor;
        Ok(())
    }),
    ("application", |class, factor| {
        scale(&mut class.application, factor)
    }),
    ("protocol", |class, factor| {
        scale(&mut class.protocol, factor)
    }),
    ("overhead", |class, factor| {
        scale(&mut class.overhead, factor)
    }),
    ("control", |class, factor| scale(&mut class.control, factor)),
    ("engine", |class, factor| scale(&mut class.engine, factor)),
];

/// The elasticity of the mean delay to every input, all classes being changed alike, by central
/// differences.
///
/// # Errors
/// As [`predict`], also for a load that leaves no room for the step.
pub fn elasticities(classes: &[Class], system: &System) -> Result<Vec<Elasticity>, ModelError> {
    let of = |change: Change, engine: bool| -> Result<f64, ModelError> {
        let delay = |factor: f64| -> Result<f64, ModelError> {
            let mut changed = classes.to_vec();
            for class in &mut changed {
                change(class, factor)?;
            }
            Ok(predict(&changed, system, engine)?.delay)
        };
        let (above, below) = (delay(1.0 + STEP)?, delay(1.0 - STEP)?);
        Ok((above.ln() - below.ln()) / (2.0 * STEP))
    };
    INPUTS
        .iter()
        .map(|(input, change)| {
            Ok(Elasticity {
                input,
                without_engine: of(*change, false)?,
                with_engine: of(*change, true)?,
            })
        })
        .collect()
}
