//! Two earlier models beside the answer, for orientation: `--laws` and `--emo`.

use super::input::Server;
use super::written::{Seconds, duration};
use anyhow::{Result, bail};
use queueing::Distribution;
use queueing::offload::emo::{Emo, MessageCost, Work, emo};
use queueing::offload::laws::{Laws, Throughput, laws};
use serde_json::{Value, json};

/// The mean times of a request over all classes, where a server is described.
#[derive(Debug, Clone, Copy)]
struct Means {
    application: f64,
    protocol: f64,
    overhead: f64,
    engine: f64,
}

impl Means {
    fn of(server: &Server) -> Result<Means> {
        let total: f64 = server.classes.iter().map(|class| class.arrival_rate).sum();
        let mut means = Means {
            application: 0.0,
            protocol: 0.0,
            overhead: 0.0,
            engine: 0.0,
        };
        for class in &server.classes {
            let share = class.arrival_rate / total;
            let mean = |of: &Distribution| -> Result<f64> { Ok(share * of.moment(1)?) };
            means.application += mean(&class.application)?;
            means.protocol += mean(&class.protocol)?;
            means.overhead += mean(&class.overhead)?;
            means.engine += mean(&class.control)? + mean(&class.engine)?;
        }
        Ok(means)
    }
}

/// What both say.
#[derive(Debug, Default)]
pub struct Earlier {
    laws: Option<(Laws, Throughput)>,
    /// Without an engine, where that is known, and with one.
    emo: Option<(Option<MessageCost>, MessageCost)>,
}

/// Asks those of the two that are wanted. What their parameters do not say is taken from `server`.
pub fn look(
    with_laws: Option<&str>,
    with_emo: Option<&str>,
    server: Option<&Server>,
) -> Result<Earlier> {
    let means = server.map(Means::of).transpose()?;
    Ok(Earlier {
        laws: with_laws.map(|text| ask_laws(text, means)).transpose()?,
        emo: with_emo.map(|text| ask_emo(text, means)).transpose()?,
    })
}

/// `KEY=VALUE`, separated by commas; each key is one of `known`.
fn pairs<'a>(option: &str, text: &'a str, known: &[&str]) -> Result<Vec<(&'a str, &'a str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            bail!("{option}: {part:?} is not KEY=VALUE");
        };
        let key = key.trim();
        if !known.contains(&key) {
            bail!(
                "{option}: there is no {key:?}; there are {}",
                known.join(", ")
            );
        }
        if pairs.iter().any(|(before, _)| *before == key) {
            bail!("{option}: {key} is given twice");
        }
        pairs.push((key, value.trim()));
    }
    Ok(pairs)
}

fn given<'a>(pairs: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    let found = pairs.iter().find(|(known, _)| *known == key)?;
    Some(found.1)
}

fn time(option: &str, text: &str) -> Result<f64> {
    Seconds::parse(text)
        .map(|seconds| seconds.0)
        .map_err(|error| anyhow::anyhow!("{option}: {error}"))
}

fn number(option: &str, key: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => bail!("{option}: {key} is a number, not {text:?}"),
    }
}

const LAWS: &str = "--laws";
/// Its symbols: a and o are times, b a rate, the others ratios.
const OF_LAWS: [&str; 7] = ["a", "o", "x", "y", "b", "p", "beta"];

fn ask_laws(text: &str, means: Option<Means>) -> Result<(Laws, Throughput)> {
    let pairs = pairs(LAWS, text, &OF_LAWS)?;
    let time_of = |key: &str, else_: Option<f64>| -> Result<f64> {
        match (given(&pairs, key), else_) {
            (Some(text), _) => time(LAWS, text),
            (None, Some(mean)) => Ok(mean),
            (None, None) => bail!(
                "{LAWS}: {key} is missing, and no server is described; such as {LAWS} \
                 a=50us,o=80us,y=2,b=10000"
            ),
        }
    };
    let number_of = |key: &str, else_: f64| match given(&pairs, key) {
        Some(text) => number(LAWS, key, text),
        None => Ok(else_),
    };
    let overhead = time_of("o", means.map(|means| means.protocol))?;
    // Where the engine's time is known, it is what the offloaded work has become.
    let structure = match means {
        Some(means) if means.engine > 0.0 && means.protocol > 0.0 => means.engine / means.protocol,
        _ => 1.0,
    };
    let input = Laws {
        application: time_of("a", means.map(|means| means.application))?,
        overhead,
        host_scale: number_of("x", 1.0)?,
        engine_scale: number_of("y", 1.0)?,
        // Without one the wire does not bind.
        bandwidth: number_of("b", f64::MAX)?,
        offloaded: number_of("p", 1.0)?,
        structure: number_of("beta", structure)?,
    };
    Ok((input, laws(&input)?))
}

const EMO: &str = "--emo";
/// Its parts: all of them times.
const OF_EMO: [&str; 6] = ["nic", "host", "app", "to_host", "to_app", "share"];

fn ask_emo(text: &str, means: Option<Means>) -> Result<(Option<MessageCost>, MessageCost)> {
    let pairs = pairs(EMO, text, &OF_EMO)?;
    let time_of = |key: &str, else_: f64| match given(&pairs, key) {
        Some(text) => time(EMO, text),
        None => Ok(else_),
    };
    if means.is_none() && given(&pairs, "app").is_none() {
        bail!(
            "{EMO}: no server is described; say the parts of a message's way, such as {EMO} \
             nic=20us,host=5us,app=50us,to_host=4us,to_app=6us"
        );
    }
    // A time is so many cycles of a clock that makes one a second.
    let work = |cycles: f64| Work { cycles, rate: 1.0 };
    let none = Means {
        application: 0.0,
        protocol: 0.0,
        overhead: 0.0,
        engine: 0.0,
    };
    let known = means.unwrap_or(none);
    let moving = |nic: f64, host: f64| -> Result<Emo> {
        Ok(Emo {
            nic: work(nic),
            host: work(host),
            application: work(time_of("app", known.application)?),
            nic_to_host: time_of("to_host", 0.0)?,
            host_to_application: time_of("to_app", 0.0)?,
            host_share: time_of("share", 0.0)?,
        })
    };
    let nic = time_of("nic", known.engine)?;
    let with = emo(&moving(nic, time_of("host", known.overhead)?)?)?;
    let without = match means {
        Some(means) => Some(emo(&moving(0.0, means.protocol)?)?),
        None => None,
    };
    Ok((without, with))
}

impl Earlier {
    /// In words; nothing, if nothing was asked.
    pub fn words(&self) -> String {
        let mut text = String::new();
        if let Some((input, found)) = &self.laws {
            let limit = match found.after {
                after if after >= input.bandwidth => "the wire",
                after
                    if after
                        < 1.0
                            / ((input.application + (1.0 - input.offloaded) * input.overhead)
                                * input.host_scale) =>
                {
                    "the engine"
                }
                _ => "the host",
            };
            text += &format!(
                "LAWS (Shivam and Chase 2003), peak throughput: {:.0} a second before, {:.0} after \
                 ({:+.0} %), where {limit} binds; β = {:.2}. It knows neither the host's cost of \
                 talking to the engine nor any wait.\n",
                found.before,
                found.after,
                (found.after / found.before - 1.0) * 100.0,
                input.structure,
            );
        }
        if let Some((without, with)) = &self.emo {
            let line = |cost: &MessageCost| {
                format!(
                    "latency {}, overhead {}",
                    duration(cost.latency),
                    duration(cost.overhead)
                )
            };
            text += "EMO (Gilfeather and Maccabe 2005), one message, nobody else there: ";
            if let Some(without) = without {
                text += &format!("without an engine {}; with one ", line(without));
            }
            text += &line(with);
            text += ".\n";
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "laws": self.laws.map(|(input, found)| json!({ "input": input, "found": found })),
            "emo": self.emo.map(|(without, with)| json!({ "without": without, "with": with })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_binds_where_it_is_slow_and_the_wire_where_it_is_slower() {
        let ask = |text: &str| look(Some(text), None, None).unwrap();
        let words = ask("a=50us,o=50us").words();
        assert!(
            words.contains("10000 a second before, 20000 after (+100 %)"),
            "{words}"
        );
        let slow = ask("a=50us,o=50us,y=4").words();
        assert!(
            slow.contains("5000 after (-50 %), where the engine binds"),
            "{slow}"
        );
        let wire = ask("a=50us,o=50us,b=12000").words();
        assert!(
            wire.contains("12000 after (+20 %), where the wire binds"),
            "{wire}"
        );
        let half = ask("a=50us,o=50us,p=0").words();
        assert!(
            half.contains("10000 after (+0 %), where the host binds"),
            "{half}"
        );
    }

    #[test]
    fn a_message_passes_all_its_parts() {
        let text = "nic=20us,host=5us,app=50us,to_host=4us,to_app=6us,share=2us";
        let words = look(None, Some(text), None).unwrap().words();
        assert!(
            words.contains("latency 85.0 µs, overhead 57.0 µs"),
            "{words}"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("a=50us", "o is missing"),
            ("a=50us,o=80us,z=1", "there is no \"z\""),
            ("a=50us,o=80us,x", "\"x\" is not KEY=VALUE"),
            ("a=50us,o=80us,a=1us", "a is given twice"),
            ("a=50,o=80us", "50 has no unit"),
            ("a=50us,o=80us,x=fast", "x is a number"),
            ("a=50us,o=80us,p=2", "offloaded share"),
        ] {
            let error = format!("{:#}", look(Some(text), None, None).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = look(None, Some("nic=1us"), None).unwrap_err();
        assert!(error.to_string().contains("no server is described"));
    }
}
