//! Which classes to offload, at which load.
//!
//! Offloading one class changes the wait of all, because they share the host; so the choice is made
//! for all classes together: the placement with the least mean delay, every subset being tried.

use super::{Class, Prediction, System, predict_placed, saturation_placed};
use crate::ModelError;
use crate::error::{at_least_one, within};
use policy::{Band, Policy, Rule};
use serde::Serialize;

/// Classes up to which every subset is tried.
pub const MOST_CLASSES: usize = 12;

/// The best placement at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placement {
    /// One entry a class: whether to offload it.
    pub offloaded: Vec<bool>,
    /// What the system then does.
    pub prediction: Prediction,
}

/// The placement with the least mean delay; of equals, the one that offloads fewer classes.
/// `None` when no placement carries the load.
///
/// # Errors
/// No class, more than [`MOST_CLASSES`], or an input outside its domain.
pub fn best(classes: &[Class], system: &System) -> Result<Option<Placement>, ModelError> {
    few_enough(classes)?;
    let mut found: Option<Placement> = None;
    for offloaded in subsets(classes.len()) {
        let prediction = match predict_placed(classes, system, &offloaded) {
            Ok(prediction) => prediction,
            Err(ModelError::Unstable { .. }) => continue,
            Err(error) => return Err(error),
        };
        let better = found
            .as_ref()
            .is_none_or(|found| prediction.delay < found.prediction.delay * (1.0 - 1e-12));
        if better {
            found = Some(Placement {
                offloaded,
                prediction,
            });
        }
    }
    Ok(found)
}

/// The greatest total arrival rate that any placement carries, the mix of classes being kept, and
/// the placement; of equals, the one that offloads fewer classes.
///
/// # Errors
/// As [`best`].
pub fn greatest_load(classes: &[Class], system: &System) -> Result<(f64, Vec<bool>), ModelError> {
    few_enough(classes)?;
    let mut greatest = (0.0, Vec::new());
    for offloaded in subsets(classes.len()) {
        let (limit, _) = saturation_placed(classes, system, &offloaded)?;
        if limit > greatest.0 * (1.0 + 1e-12) {
            greatest = (limit, offloaded);
        }
    }
    Ok(greatest)
}

fn few_enough(classes: &[Class]) -> Result<(), ModelError> {
    at_least_one("number of classes", classes.len())?;
    within(
        "number of classes",
        classes.len() as f64,
        1.0,
        MOST_CLASSES as f64,
    )?;
    Ok(())
}

/// All placements of so many classes, those that offload fewer first.
fn subsets(classes: usize) -> impl Iterator<Item = Vec<bool>> {
    let mut subsets: Vec<u32> = (0..1 << classes).collect();
    subsets.sort_by_key(|subset| subset.count_ones());
    subsets
        .into_iter()
        .map(move |subset| (0..classes).map(|i| subset >> i & 1 == 1).collect())
}

/// Whether connections are better off with the engine, which then serves all that they ask for: it has the
/// lesser mean delay, or carries the load alone. `None`: neither does.
pub fn engine_is_better(without: Option<&Prediction>, with: Option<&Prediction>) -> Option<bool> {
    match (without, with) {
        (Some(without), Some(with)) => Some(with.delay < without.delay * (1.0 - 1e-12)),
        (Some(_), None) => Some(false),
        (None, Some(_)) => Some(true),
        (None, None) => None,
    }
}

/// Writes what is best over a range of loads as a policy. `sizes` has the greatest object
/// size of each class in bytes, ascending, the last class without one; `loads` the placements found
/// at ascending total rates, and `connections` whether [the engine is better](engine_is_better) at such.
///
/// What is offloaded at some loads gets the band from the first to the last of them; its
/// upper end stays open if it is offloaded at the highest load that anything carries.
///
/// # Errors
/// Sizes that do not ascend.
pub fn policy(
    sizes: &[u64],
    loads: &[(f64, Option<Placement>)],
    connections: &[(f64, Option<bool>)],
) -> Result<Policy, ModelError> {
    let of_class = |class: usize| {
        band(loads.iter().map(|(rate, best)| {
            let offloaded = |best: &Placement| best.offloaded.get(class) == Some(&true);
            (*rate, best.as_ref().map(offloaded))
        }))
    };
    let rules = sizes.iter().enumerate().map(|(class, up_to_bytes)| Rule {
        up_to_bytes: *up_to_bytes,
        band: of_class(class),
    });
    let connections = band(connections.iter().copied());
    let above = of_class(sizes.len());
    Policy::new(connections, rules.collect(), above).map_err(ModelError::Policy)
}

/// From the first to the last load at which something is offloaded, of those that are carried.
fn band(loads: impl Iterator<Item = (f64, Option<bool>)>) -> Band {
    let carried: Vec<(f64, bool)> = loads
        .filter_map(|(rate, offloaded)| Some((rate, offloaded?)))
        .collect();
    let is_offloaded = |(_, offloaded): &(f64, bool)| *offloaded;
    let first = carried.iter().position(is_offloaded);
    let Some((first, last)) = first.zip(carried.iter().rposition(is_offloaded)) else {
        return Band::NEVER;
    };
    Band {
        // From the lowest load that was looked at means from no load at all.
        offload_from_rate: Some(if first == 0 { 0.0 } else { carried[first].0 }),
        offload_below_rate: carried.get(last + 1).map(|(rate, _)| *rate),
    }
}
