//! Parts of an experiment: the levels and subjects that are asked for.

use ::lab::experiment::declaration::Claim;
use ::lab::experiment::{Experiment, order};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// Leaves out the levels and subjects that are not asked for, and the claims, plots and notes about them.
pub fn keep(experiment: &mut Experiment, only: &[(String, String)]) -> Result<()> {
    let asked = |axis: &str, name: &str| {
        let mut named = only.iter().filter(|(known, _)| known == axis).peekable();
        named.peek().is_none() || named.any(|(_, wanted)| wanted == name)
    };
    for (axis, wanted) in only {
        let names: Vec<&str> = match experiment.axis(axis) {
            Some(axis) => axis
                .levels
                .iter()
                .map(|level| level.name.as_str())
                .collect(),
            None if axis == "subject" => experiment.subjects.iter().map(String::as_str).collect(),
            None => {
                let axes: Vec<&str> = experiment.axes.iter().map(|a| a.name.as_str()).collect();
                bail!(
                    "there is no axis {axis}; there are subject, {}",
                    axes.join(", ")
                );
            }
        };
        let missing = experiment.left_out.iter();
        let mut missing = missing.filter(|left| left.axis == *axis && left.name == *wanted);
        if let Some(left_out) = missing.next() {
            bail!("{left_out}");
        }
        if !names.contains(&wanted.as_str()) {
            bail!("{axis} is never {wanted}; it is {}", names.join("; "));
        }
    }
    for axis in &mut experiment.axes {
        let name = axis.name.clone();
        axis.levels.retain(|level| asked(&name, &level.name));
    }
    experiment.subjects.retain(|name| asked("subject", name));
    if let Some(model) = &mut experiment.model {
        let of_second = model.second.iter_mut().map(|second| &mut second.subjects);
        for subjects in of_second.chain([&mut model.without]) {
            subjects.retain(|name| asked("subject", name));
        }
    }
    if order::cells(experiment).is_empty() {
        let none = experiment.subjects.join(", ");
        bail!("there is nothing to be measured: {none} has none of what is asked for");
    }
    // Of a level that none of them has there is nothing to tell, either.
    let subjects = &experiment.subjects;
    for axis in &mut experiment.axes {
        axis.levels.retain(|level| level.is_had_by(subjects));
    }
    let left_out = &mut experiment.left_out;
    left_out.retain(|left_out| asked(&left_out.axis, &left_out.name));
    // What is to hold at several levels is asked of those that are left of them.
    let claims = std::mem::take(&mut experiment.claims);
    let left = claims
        .into_iter()
        .filter_map(|one| narrowed(one, experiment));
    experiment.claims = left.collect();
    // Of what is about levels, subjects and measures each is kept with which the rest makes no mistake.
    let bare = Experiment {
        findings: Vec::new(),
        claims: Vec::new(),
        pictures: Vec::new(),
        ..experiment.clone()
    };
    let fits = |part: Experiment| part.mistakes().is_empty();
    experiment.findings.retain(|one| {
        fits(Experiment {
            findings: vec![one.clone()],
            ..bare.clone()
        })
    });
    experiment.claims.retain(|one| {
        fits(Experiment {
            claims: vec![one.clone()],
            ..bare.clone()
        })
    });
    experiment.pictures.retain(|one| {
        fits(Experiment {
            pictures: vec![one.clone()],
            ..bare.clone()
        })
    });
    Ok(())
}

/// The same of the levels that are left; nothing if it names an axis of which none is.
fn narrowed(mut claim: Claim, experiment: &Experiment) -> Option<Claim> {
    let named: BTreeSet<String> = claim.at.iter().map(|(axis, _)| axis.clone()).collect();
    claim.at.retain(|(axis, level)| {
        let axis = experiment.axis(axis);
        axis.is_some_and(|axis| axis.levels.iter().any(|left| left.name == *level))
    });
    let is_left = |axis: &String| claim.at.iter().any(|(left, _)| left == axis);
    named.iter().all(is_left).then_some(claim)
}

#[cfg(test)]
mod tests {
    use super::keep;
    use ::lab::catalogue::{Extent, find};
    use ::lab::experiment::left_out::LeftOut;

    #[test]
    fn what_the_source_has_of_other_levels_takes_no_picture_with_it() {
        let mut experiment = find("message-latency").unwrap().declare(Extent::Full);
        let before = experiment.pictures.len();
        keep(&mut experiment, &[("MTU".into(), "9000".into())]).unwrap();
        assert!(experiment.findings.is_empty() && experiment.claims.is_empty());
        assert_eq!(experiment.pictures.len(), before / 2);
        assert!(experiment.mistakes().is_empty());
    }

    #[test]
    fn only_what_is_asked_for_is_kept_and_claimed() {
        let entry = find("web").unwrap();
        let words = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(axis, level)| ((*axis).into(), (*level).into()))
                .collect()
        };
        let mut experiment = entry.declare(Extent::Full);
        keep(&mut experiment, &words(&[("request", "close, 64 B")])).unwrap();
        assert_eq!(experiment.axes[0].levels.len(), 1);
        assert_eq!(experiment.claims.len(), 1);
        assert!(experiment.mistakes().is_empty());
        keep(&mut experiment, &words(&[("subject", "engine")])).unwrap();
        assert_eq!(experiment.subjects, ["engine"]);
        assert!(experiment.claims.is_empty());
        let wrong = keep(&mut experiment, &words(&[("request", "nothing")]));
        assert!(wrong.unwrap_err().to_string().contains("close, 64 B"));
        assert!(keep(&mut experiment, &words(&[("colour", "red")])).is_err());
    }

    /// A claim of all the source's rates is one of the two that are measured, and one of a full server is none.
    #[test]
    fn of_many_levels_what_is_left_is_claimed() {
        let mut experiment = find("rates").unwrap().declare(Extent::Full);
        let rates = ["20", "120"].map(|rate| ("connections a second".to_owned(), rate.to_owned()));
        keep(&mut experiment, &rates).unwrap();
        assert!(experiment.mistakes().is_empty());
        // Errors and time, of each stack.
        let of_source = experiment.claims.iter().map(|claim| &claim.at);
        assert!(of_source.clone().count() >= 4);
        for at in of_source {
            assert_eq!(at[..], rates);
        }
    }

    /// Whose engine is no stage of its own takes nothing with him that is of all.
    #[test]
    fn a_model_is_kept_of_those_that_are_left() {
        let mut experiment = find("model").unwrap().declare(Extent::Full);
        let before = experiment.pictures.len();
        let only = ["kernel", "engine"].map(|name| ("subject".to_owned(), name.to_owned()));
        keep(&mut experiment, &only).unwrap();
        assert!(experiment.mistakes().is_empty());
        assert_eq!(experiment.pictures.len(), before);
        assert!(!experiment.claims.is_empty());
    }

    #[test]
    fn what_a_subject_has_not_is_not_kept_for_it() {
        let words = |pairs: &[[&str; 2]]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|[axis, level]| ((*axis).into(), (*level).into()))
                .collect()
        };
        let whole = find("objects").unwrap().declare(Extent::Full);
        let alone = ["subject", "in the driver"];
        let mut experiment = whole.clone();
        keep(&mut experiment, &words(&[alone])).unwrap();
        assert!(experiment.axes[0].levels.len() < whole.axes[0].levels.len());
        assert!(experiment.mistakes().is_empty());
        let mut experiment = whole.clone();
        let none = keep(&mut experiment, &words(&[alone, ["size", "4096"]]));
        let error = none.unwrap_err().to_string();
        assert!(error.contains("nothing to be measured"), "{error}");
        let mut experiment = whole;
        keep(&mut experiment, &words(&[["size", "4096"]])).unwrap();
        assert!(experiment.mistakes().is_empty());
    }

    /// Nobody who asks for something else has to know what is not installed.
    #[test]
    fn what_could_not_be_run_is_told_to_who_asks_for_it() {
        let mut experiment = find("web").unwrap().declare(Extent::Full);
        let left_out = |name: &str| LeftOut {
            axis: "request".into(),
            name: name.into(),
            why: "no server".into(),
        };
        experiment.left_out = vec![left_out("by post")];
        let only = |level: &str| [("request".to_owned(), level.to_owned())];
        let error = keep(&mut experiment, &only("by post")).unwrap_err();
        assert_eq!(error.to_string(), "by post: no server");
        let subject = [("subject".to_owned(), "kernel".to_owned())];
        keep(&mut experiment, &subject).unwrap();
        assert_eq!(experiment.left_out.len(), 1);
        keep(&mut experiment, &only("close, 64 B")).unwrap();
        assert!(experiment.left_out.is_empty());
    }

    #[test]
    fn of_one_place_its_claims_and_its_plot_are_left() {
        let mut experiment = find("long-paths").unwrap().declare(Extent::Full);
        let place = [("wire", "loses nothing"), ("round trip", "1")];
        let only = place.map(|(axis, level)| (axis.to_owned(), level.to_owned()));
        keep(&mut experiment, &only).unwrap();
        // By CUBIC and by BBR.
        assert_eq!(experiment.claims.len(), 2);
        assert_eq!(experiment.pictures.len(), 1);
        assert!(experiment.mistakes().is_empty());
    }
}
