//! Parts of an experiment: the levels and subjects that are asked for.

use ::lab::experiment::Experiment;
use anyhow::{Result, bail};

/// Leaves out the levels and subjects that are not asked for, and the claims and plots about them.
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
        if !names.contains(&wanted.as_str()) {
            bail!("{axis} is never {wanted}; it is {}", names.join("; "));
        }
    }
    for axis in &mut experiment.axes {
        let name = axis.name.clone();
        axis.levels.retain(|level| asked(&name, &level.name));
    }
    experiment.subjects.retain(|name| asked("subject", name));
    let bare = Experiment {
        claims: Vec::new(),
        pictures: Vec::new(),
        ..experiment.clone()
    };
    let fits = |claims, pictures| {
        let alone = Experiment {
            claims,
            pictures,
            ..bare.clone()
        };
        alone.mistakes().is_empty()
    };
    let claims = &mut experiment.claims;
    claims.retain(|claim| fits(vec![claim.clone()], Vec::new()));
    let pictures = &mut experiment.pictures;
    pictures.retain(|picture| fits(Vec::new(), vec![picture.clone()]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::keep;
    use ::lab::catalogue::{Extent, find};

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
