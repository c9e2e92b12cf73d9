//! What the intervals of fitted service times leave open: the verdict at either end of them.

use super::headline::headline;
use super::input::Server;
use super::study::{Study, answer, at, study};
use super::written::duration;
use serde_json::{Value, json};
use std::fmt::Write;

/// The servers at both ends of the intervals: all service times as an engine would have them, and as
/// it would not.
#[derive(Debug, Clone)]
pub struct Ends {
    /// Dear on the kernel, cheap on the engine.
    pub favourable: Server,
    /// The other way round.
    pub unfavourable: Server,
}

/// The verdict at both ends.
pub struct Open {
    ends: [Result<Study, String>; 2],
    /// Whether another is given at one of them.
    pub is_open: bool,
}

/// Asks the same of both ends as of what was fitted.
pub fn look(fitted: &Study, ends: &Ends) -> Open {
    let ask = |server: &Server| {
        let mut server = server.clone();
        server.rates = fitted.server.rates;
        study(&server).map_err(|error| format!("{error:#}"))
    };
    let ends = [ask(&ends.favourable), ask(&ends.unfavourable)];
    let here = kind(&headline(fitted));
    let same =
        |end: &Result<Study, String>| end.as_ref().is_ok_and(|end| kind(&headline(end)) == here);
    let is_open = !ends.iter().all(same);
    Open { ends, is_open }
}

/// A verdict up to its first sentence and without its figures: what to do, but not from which load on.
fn kind(headline: &str) -> String {
    let sentence = headline.split(". ").next().unwrap_or(headline);
    sentence
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .collect::<String>()
        .trim_end_matches('.')
        .to_owned()
}

impl Open {
    /// In words; `rate` is a load that the delays are told at.
    pub fn words(&self, rate: f64) -> String {
        let mut text = String::new();
        if let [Ok(best), Ok(worst)] = &self.ends {
            let change =
                |study: &Study| (study.saturation_with.0 / study.saturation_without - 1.0) * 100.0;
            let delay = |study: &Study, engine: bool| {
                let classes = at(&study.server, rate);
                let answer = answer(&study.server, &classes, engine).ok().flatten();
                answer.map_or("saturated".into(), |answer| duration(answer.delay))
            };
            let _ = writeln!(
                text,
                "Within the 95 % intervals of the fit, everything offloaded changes saturation by \
                 {:+.0} % to {:+.0} %; at {rate:.0} a second a request takes {} to {} instead of {} \
                 to {}.",
                change(worst),
                change(best),
                delay(best, true),
                delay(worst, true),
                delay(worst, false),
                delay(best, false),
            );
        }
        if !self.is_open {
            text += "The verdict is the same at either end of the intervals.\n";
            return text;
        }
        for (name, end) in ["favours", "does not favour"].iter().zip(&self.ends) {
            let said = match end {
                Ok(study) => headline(study),
                Err(error) => format!("no verdict ({error})."),
            };
            let _ = writeln!(
                text,
                "At the end of the intervals that {name} an engine: {said}"
            );
        }
        text += "Measure longer, or at more loads, before you decide.\n";
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let end = |end: &Result<Study, String>| match end {
            Ok(study) => json!({
                "verdict": headline(study),
                "saturation_without_engine": study.saturation_without,
                "saturation_with_engine": study.saturation_with.0,
            }),
            Err(error) => json!({ "error": error }),
        };
        json!({
            "open": self.is_open,
            "favourable": end(&self.ends[0]),
            "unfavourable": end(&self.ends[1]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn verdicts_differ_by_what_to_do_and_not_by_figures() {
        let from = |rate: u32| kind(&format!("Offload from {rate} requests a second on."));
        assert_eq!(from(300), from(4826));
        assert_ne!(from(300), kind("Offload everything, at every load."));
        let spares = "Do not offload: at no load. Offloading would spare the host.";
        assert_eq!(kind(spares), kind("Do not offload: at no load."));
    }
}
