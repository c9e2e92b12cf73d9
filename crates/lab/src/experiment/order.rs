//! Which measurements there are, and in which order.

use super::declaration::{Experiment, Level};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// One combination of subject and levels, by their indices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// A level of each axis.
    pub levels: Vec<usize>,
    /// The subject.
    pub subject: usize,
}

impl Cell {
    /// The levels themselves.
    pub fn levels<'a>(&self, experiment: &'a Experiment) -> Vec<&'a Level> {
        let axes = experiment.axes.iter().zip(&self.levels);
        axes.filter_map(|(axis, &index)| axis.levels.get(index))
            .collect()
    }

    /// Whether its subject has all of its levels.
    fn is_there(&self, experiment: &Experiment) -> bool {
        let subject = &experiment.subjects[self.subject];
        let levels = self.levels(experiment);
        levels.iter().all(|level| !level.without.contains(subject))
    }

    /// What a person calls it.
    pub fn describe(&self, experiment: &Experiment) -> String {
        let mut words: Vec<String> = Vec::new();
        for (axis, level) in experiment.axes.iter().zip(self.levels(experiment)) {
            words.push(match (level.value, axis.unit.as_str()) {
                (Some(_), "") => format!("{} {}", level.name, axis.name),
                (Some(_), unit) => format!("{} {unit}", level.name),
                (None, _) => level.name.clone(),
            });
        }
        words.push(experiment.subjects[self.subject].clone());
        words.join(", ")
    }
}

/// Every combination of levels.
pub fn points(experiment: &Experiment) -> Vec<Vec<usize>> {
    let mut points = vec![Vec::new()];
    for axis in &experiment.axes {
        let longer = |point: &Vec<usize>| {
            let point = point.clone();
            (0..axis.levels.len()).map(move |index| {
                let mut point = point.clone();
                point.push(index);
                point
            })
        };
        points = points.iter().flat_map(longer).collect();
    }
    points
}

/// Every combination that there is, subjects side by side.
pub fn cells(experiment: &Experiment) -> Vec<Cell> {
    let subjects = 0..experiment.subjects.len();
    let of = |levels: Vec<usize>| {
        subjects.clone().map(move |subject| Cell {
            levels: levels.clone(),
            subject,
        })
    };
    let all = points(experiment).into_iter().flat_map(of);
    all.filter(|cell| cell.is_there(experiment)).collect()
}

/// The order of a round: points at random, and at each of them the subjects at random, one after the
/// other, so that what drifts slowly is the same for all of them. The same for the same seed.
pub fn round(experiment: &Experiment, seed: u64, round: u32) -> Vec<Cell> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ (u64::from(round) << 32));
    let mut points = points(experiment);
    points.shuffle(&mut random);
    let mut order = Vec::new();
    for levels in points {
        let mut subjects: Vec<usize> = (0..experiment.subjects.len()).collect();
        subjects.shuffle(&mut random);
        let cells = subjects.into_iter().map(|subject| Cell {
            levels: levels.clone(),
            subject,
        });
        order.extend(cells.filter(|cell| cell.is_there(experiment)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::{cells, round};
    use crate::experiment::declaration::{Axis, Experiment};

    fn experiment() -> Experiment {
        Experiment {
            subjects: vec!["kernel".into(), "engine".into()],
            axes: vec![
                Axis::of_numbers("size", "B", &[1.0, 2.0, 4.0]),
                Axis::of_words("connections", &["keep-alive", "close"]),
            ],
            ..Experiment::default()
        }
    }

    #[test]
    fn every_round_has_every_cell_once_and_subjects_side_by_side() {
        let experiment = experiment();
        let all = cells(&experiment);
        assert_eq!(all.len(), 12);
        let mut orders = Vec::new();
        for number in 1..=8 {
            let order = round(&experiment, 7, number);
            for pair in order.chunks(2) {
                assert_eq!(pair[0].levels, pair[1].levels);
            }
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, all);
            assert_eq!(order, round(&experiment, 7, number));
            orders.push(order);
        }
        orders.dedup();
        assert_eq!(orders.len(), 8, "rounds differ in order");
        assert!(orders.iter().any(|order| order[0].subject == 0));
        assert!(orders.iter().any(|order| order[0].subject == 1));
    }

    #[test]
    fn what_a_subject_has_not_is_not_measured() {
        let mut part = experiment();
        part.axes[0] = part.axes[0].clone().without("engine", |size| size > 2.0);
        assert!(part.axes[0].levels[2].without == ["engine"]);
        let is_there = |cell: &super::Cell| cell.levels[0] < 2 || cell.subject == 0;
        let all = cells(&part);
        assert!(all.len() == 10 && all.iter().all(is_there));
        // The others are where they would be.
        let mut whole = round(&experiment(), 7, 1);
        whole.retain(is_there);
        assert_eq!(round(&part, 7, 1), whole);
        assert!(part.mistakes().contains(&"no measure".to_owned()));
        part.subjects.remove(0);
        let none = part
            .mistakes()
            .into_iter()
            .any(|mistake| mistake.contains("no subject has 4"));
        assert!(none, "nothing is measured there");
    }

    #[test]
    fn an_experiment_without_axes_has_its_subjects() {
        let bare = Experiment {
            axes: Vec::new(),
            ..experiment()
        };
        assert_eq!(cells(&bare).len(), 2);
        assert_eq!(cells(&bare)[1].describe(&bare), "engine");
    }
}
