//! What has to be narrow: the measure by which a combination is judged, and those of which something is claimed there.

use super::declaration::{Bound, Experiment};
use super::order::Cell;
use std::collections::BTreeMap;

/// What is watched of a combination that has these values, by the name of the measure: what it is judged by, and what is
/// claimed of it, if it has that. Each has the figure beside which its interval is wide or narrow, where that is more than
/// its median.
pub fn watched<'a, T>(
    experiment: &'a Experiment,
    cell: &Cell,
    values: &'a BTreeMap<String, T>,
) -> BTreeMap<&'a str, f64> {
    let mut watched = BTreeMap::new();
    if let Some((measure, _)) = experiment.judged_by(values) {
        watched.insert(measure.name.as_str(), 0.0);
    }
    let Some(subject) = experiment.subjects.get(cell.subject) else {
        return watched;
    };
    for claim in &experiment.claims {
        let is_of_it = claim.is_of(experiment, subject, &cell.levels);
        if !is_of_it || !values.contains_key(&claim.measure) {
            continue;
        }
        // A bound of a figure itself is in its unit: of what is next to nothing beside it no more is asked.
        let bound = match (claim.below(), claim.ratio) {
            (Some(_), _) => 0.0,
            (None, Bound::AtMost(bound) | Bound::AtLeast(bound)) => bound.abs(),
        };
        let known: &mut f64 = watched.entry(claim.measure.as_str()).or_default();
        *known = known.max(bound);
    }
    watched
}
