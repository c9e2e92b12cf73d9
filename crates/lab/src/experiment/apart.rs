//! Where two declarations of an experiment are apart: in the levels of an axis, the subjects, the measures.

use super::declaration::{Axis, Experiment};

/// Something that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Of what, and who has which of it.
    pub what: String,
    /// Whether nothing of it is in both: then no combination is.
    pub is_wholly: bool,
}

/// What one has and the other has not, by the names that a reader has for the two.
pub fn apart(experiments: [&Experiment; 2], names: [&str; 2]) -> Vec<Apart> {
    let [one, other] = experiments;
    let mut found = Vec::new();
    for axis in &one.axes {
        match other.axis(&axis.name) {
            Some(there) => found.extend(of(&axis.name, [levels(axis), levels(there)], names)),
            None => found.push(only(&axis.name, names[0])),
        }
    }
    let new = other.axes.iter().filter(|a| one.axis(&a.name).is_none());
    found.extend(new.map(|axis| only(&axis.name, names[1])));
    let subjects = experiments.map(|experiment| experiment.subjects.clone());
    found.extend(of("subject", subjects, names));
    let measures = experiments.map(|experiment| {
        let each = experiment.measures.iter();
        each.map(|it| format!("{} ({})", it.name, it.unit))
            .collect()
    });
    found.extend(of("measure", measures, names));
    found
}

/// An axis that the other does not know: combinations are not of the same things.
fn only(axis: &str, whose: &str) -> Apart {
    Apart {
        what: format!("the axis {axis} is only in {whose}"),
        is_wholly: true,
    }
}

fn levels(axis: &Axis) -> Vec<String> {
    let unit = match axis.unit.as_str() {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let each = axis.levels.iter();
    each.map(|level| format!("{}{unit}", level.name)).collect()
}

fn of(what: &str, both: [Vec<String>; 2], names: [&str; 2]) -> Option<Apart> {
    let [one, other] = &both;
    let beside = |all: &[String], others: &[String]| -> Vec<String> {
        let alone = all.iter().filter(|name| !others.contains(name));
        alone.cloned().collect()
    };
    let alone = [beside(one, other), beside(other, one)];
    let is_wholly = alone[0].len() == one.len();
    let each = alone.iter().zip(names);
    let said: Vec<String> = each
        .filter(|(alone, _)| !alone.is_empty())
        .map(|(alone, whose)| format!("{} only in {whose}", alone.join(", ")))
        .collect();
    (!said.is_empty()).then(|| Apart {
        what: format!("{what}: {}", said.join("; ")),
        is_wholly,
    })
}

#[cfg(test)]
mod tests {
    use super::{Axis, Experiment, apart};

    fn with(sizes: &[f64], subjects: &[&str]) -> Experiment {
        Experiment {
            axes: vec![Axis::of_numbers("size", "B", sizes)],
            subjects: subjects.iter().copied().map(String::from).collect(),
            ..Experiment::default()
        }
    }

    fn said(one: &Experiment, other: &Experiment) -> Vec<(String, bool)> {
        let found = apart([one, other], ["this", "that"]);
        let each = found.into_iter();
        each.map(|apart| (apart.what, apart.is_wholly)).collect()
    }

    #[test]
    fn what_only_one_has_is_named() {
        let one = with(&[1.0, 2.0], &["kernel"]);
        assert_eq!(said(&one, &one), []);
        let more = with(&[2.0, 4.0], &["kernel", "engine"]);
        let expected = [
            "size: 1 B only in this; 4 B only in that",
            "subject: engine only in that",
        ];
        assert_eq!(said(&one, &more), expected.map(|it| (it.into(), false)));
        let none = with(&[8.0], &["kernel"]);
        let expected = "size: 1 B, 2 B only in this; 8 B only in that";
        assert_eq!(said(&one, &none), [(expected.into(), true)]);
        let bare = Experiment {
            axes: Vec::new(),
            ..one.clone()
        };
        let expected = "the axis size is only in this";
        assert_eq!(said(&one, &bare), [(expected.into(), true)]);
    }
}
