//! What to do, in one line.

use super::ranges::{Ranges, all_or_nothing};
use super::study::Study;
use super::written::duration;

/// What to do at which load: what the table shows below, in one line.
pub fn headline(study: &Study) -> String {
    let classes = &study.server.classes;
    let at = |class: usize| Ranges::of(study, |offloaded| offloaded[class]);
    let ranges: Vec<Ranges> = (0..classes.len()).map(at).collect();
    let names: Vec<&str> = classes
        .iter()
        .zip(&ranges)
        .filter_map(|(class, ranges)| (*ranges != Ranges::Never).then_some(class.name.as_str()))
        .collect();
    if names.is_empty() {
        let what = if study.server.bounded() {
            "turn fewer requests away or shorten the delay"
        } else {
            "shorten the delay"
        };
        let spared = spared(study);
        return format!("Do not offload: at no load that was looked at does it {what}.{spared}");
    }
    if all_or_nothing(&study.points) {
        let what = if classes.len() == 1 {
            "Offload"
        } else {
            "Offload everything,"
        };
        return match &ranges[0] {
            Ranges::Always if study.server.rates.is_some() => {
                "Offload everything, at every load that was looked at.".into()
            }
            Ranges::Always => "Offload everything, at every load.".into(),
            Ranges::Once(_, Some(until)) => format!(
                "{what} {}; do not offload from {until:.0} on.",
                ranges[0].words()
            ),
            some => format!("{what} {}.", some.words()),
        };
    }
    let always = ranges
        .iter()
        .all(|ranges| matches!(ranges, Ranges::Always | Ranges::Never));
    let loads = if always { "" } else { ", each at its loads" };
    if names.len() == classes.len() {
        return "Offload every class, each at its loads.".into();
    }
    format!(
        "Offload {}{loads}; leave the rest to the host.",
        names.join(", ")
    )
}

/// What offloading would do to the host's CPU where it does not shorten the delay.
fn spared(study: &Study) -> String {
    let point = study.points.iter().find(|point| point.rate == study.at);
    let Some((without, with)) = point.and_then(|p| Some((p.without.as_ref()?, p.with.as_ref()?)))
    else {
        return String::new();
    };
    if with.host_utilisation >= without.host_utilisation {
        return String::new();
    }
    format!(
        " Offloading everything would spare the host, though: {:.0} % of its cores instead of \
         {:.0} % at {:.0} a second, for a delay of {} instead of {}.",
        with.host_utilisation * 100.0,
        without.host_utilisation * 100.0,
        study.at,
        duration(with.delay),
        duration(without.delay),
    )
}
