//! Durations, ranges of rates and distributions, as people write them.

use queueing::{Distribution, ModelError};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::Path;

/// Seconds, written as `200us`, `1.5ms`, `2s`, `80ns`. Only nothing, `0`, needs no unit: whoever
/// writes `50` for service times seldom means a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Seconds, String> {
        let text = text.trim();
        if text.contains('/') {
            return Err(format!(
                "{text:?} grows with the size of what is asked for; only -p, -o and -e can, with \
                 --preset"
            ));
        }
        let refused = || format!("{text:?} is not a duration; write one such as 200us or 1.5ms");
        let digits =
            text.find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E' || c == 'µ');
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        if unit.is_empty() {
            return match number.parse() {
                Ok(0.0) => Ok(Seconds(0.0)),
                Ok(bare) if f64::is_finite(bare) && bare > 0.0 => Err(without_unit(text)),
                Ok(_) => Err(format!(
                    "{text:?} is not a duration of 0 or more; write one such as 200us or 1.5ms"
                )),
                Err(_) => Err(refused()),
            };
        }
        // Divided, because a thousandth has no exact binary form: 50us is then the nearest number.
        let a_second = match unit {
            "s" => 1.0,
            "ms" => 1e3,
            "us" | "µs" => 1e6,
            "ns" => 1e9,
            _ if number.is_empty() => return Err(refused()),
            other => return Err(format!("unknown unit {other:?}; write ns, us, ms or s")),
        };
        let number: f64 = number.trim().parse().map_err(|_| refused())?;
        Seconds::checked(number / a_second).map_err(|_| {
            format!("{text:?} is not a duration of 0 or more; write one such as 200us or 1.5ms")
        })
    }

    /// Takes what a service time can be: a finite number of at least 0.
    fn checked(seconds: f64) -> Result<Seconds, String> {
        if seconds.is_finite() && seconds >= 0.0 {
            Ok(Seconds(seconds))
        } else {
            Err(format!("{seconds} is not a duration of 0 seconds or more"))
        }
    }
}

fn without_unit(number: &str) -> String {
    format!("{number} has no unit: write {number}us, {number}ms or {number}s")
}

/// A time that grows with the size of what is asked for, written as `80us+3us/KB`; or does not,
/// written as `80us`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growing {
    /// Whatever the size.
    pub fixed: Seconds,
    /// Seconds for each byte.
    pub each_byte: f64,
}

impl Growing {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Growing, String> {
        let text = text.trim();
        let Some((before, unit)) = text.split_once('/') else {
            return Ok(Growing {
                fixed: Seconds::parse(text)?,
                each_byte: 0.0,
            });
        };
        let (fixed, each) = before.rsplit_once('+').unwrap_or(("0", before));
        let bytes = match unit.trim() {
            "B" => 1.0,
            "KB" => 1e3,
            "KiB" => 1_024.0,
            "MB" => 1e6,
            "MiB" => 1_048_576.0,
            other => {
                return Err(format!(
                    "unknown unit {other:?}; write a time for each B, KB (1,000), KiB (1,024), MB or \
                     MiB, such as 80us+3us/KB"
                ));
            }
        };
        Ok(Growing {
            fixed: Seconds::parse(fixed)?,
            each_byte: Seconds::parse(each)?.0 / bytes,
        })
    }

    /// The distribution over the requests whose sizes, in bytes, are distributed so. A time that
    /// does not grow is the mean of an exponential one; one that grows varies with the size alone.
    pub fn distribution(self, sizes: Option<&Distribution>) -> anyhow::Result<Distribution> {
        match sizes {
            Some(sizes) if self.each_byte > 0.0 => Ok(sizes
                .clone()
                .scaled(self.each_byte)?
                .shifted(self.fixed.0)?),
            None if self.each_byte > 0.0 => anyhow::bail!(
                "a time that grows with the size needs sizes: add --preset, such as --preset webstone"
            ),
            _ => Written::Mean(self.fixed).distribution(Path::new("")),
        }
    }
}

/// A duration for people: three digits and a unit.
pub fn duration(seconds: f64) -> String {
    if seconds.is_nan() {
        return "—".into();
    }
    if seconds.is_infinite() {
        return "∞".into();
    }
    let (value, unit) = match seconds.abs() {
        s if s >= 1.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        s if s >= 1e-6 => (seconds * 1e6, "µs"),
        _ => (seconds * 1e9, "ns"),
    };
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

impl serde::Serialize for Seconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // With its unit, as it is read.
        serializer.serialize_str(&format!("{}us", self.0 * 1e6))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a duration such as \"200us\"")]
        enum Form {
            Number(f64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Seconds::parse(&number.to_string()),
            Form::Text(text) => Seconds::parse(&text),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// Total arrival rates to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The lowest, a second.
    pub from: f64,
    /// The highest.
    pub to: f64,
}

impl Rates {
    /// Reads `1000` or `100..5000`.
    pub fn parse(text: &str) -> Result<Rates, String> {
        let number = |text: &str| -> Result<f64, String> {
            match text.trim().parse::<f64>() {
                Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
                _ => Err(format!(
                    "{text:?} is not a rate above 0; write 1000, or a range as 100..5000"
                )),
            }
        };
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(format!("the range {text} ends below its start"));
        }
        Ok(Rates { from, to })
    }
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a rate such as 1000, or a range such as \"100..5000\""
        )]
        enum Form {
            Number(f64),
            Text(String),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Number(rate) => rate.to_string(),
            Form::Text(text) => text,
        };
        Rates::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A distribution: a duration alone is the mean of an exponential one.
#[derive(Debug, Clone)]
pub enum Written {
    /// `"200us"`.
    Mean(Seconds),
    /// `{ kind = { … } }`.
    Kind(Kind),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}

/// Decides by what stands there, so that an error speaks of that and not of all it could have been.
struct WrittenVisitor;

impl<'de> Visitor<'de> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a duration, or a distribution such as { lognormal = { mean = \"1ms\", scv = 2 } }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
        Seconds::parse(text).map(Written::Mean).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Written, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Written, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
        Kind::deserialize(de::value::MapAccessDeserializer::new(map)).map(Written::Kind)
    }
}

/// The distributions by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Always the same.
    Deterministic(Seconds),
    /// Exponential with this mean.
    Exponential(Seconds),
    /// A sum of equal exponential stages.
    Erlang {
        /// How many.
        stages: u32,
        /// Of the sum.
        mean: Seconds,
    },
    /// A sum of exponential stages with these means.
    Hypoexponential(Vec<Seconds>),
    /// Lognormal by mean and squared coefficient of variation.
    Lognormal {
        /// The mean.
        mean: Seconds,
        /// Variance over squared mean.
        scv: f64,
    },
    /// Pareto without an upper bound.
    Pareto {
        /// The least value.
        scale: Seconds,
        /// The tail index.
        alpha: f64,
    },
    /// Pareto between two bounds.
    BoundedPareto {
        /// The least value.
        low: Seconds,
        /// The greatest value.
        high: Seconds,
        /// The tail index.
        alpha: f64,
    },
    /// The durations in a file, one a line.
    Samples(String),
    /// Parts with weights.
    Mixture(Vec<Part>),
}

/// A part of a mixture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    weight: f64,
    of: Written,
}

impl Written {
    /// A duration that is always nothing.
    pub fn nothing() -> Written {
        Written::Kind(Kind::Deterministic(Seconds(0.0)))
    }

    /// The distribution; files of samples are looked for beside `base`.
    pub fn distribution(&self, base: &Path) -> anyhow::Result<Distribution> {
        Ok(match self {
            Written::Mean(Seconds(0.0)) => Distribution::deterministic(0.0)?,
            Written::Mean(Seconds(mean)) => exponential(*mean)?,
            Written::Kind(kind) => match kind {
                Kind::Deterministic(Seconds(value)) => Distribution::deterministic(*value)?,
                Kind::Exponential(Seconds(mean)) => exponential(*mean)?,
                Kind::Erlang { stages, mean } => {
                    let rate = f64::from(*stages) / positive(mean.0)?;
                    Distribution::erlang(*stages, rate)?
                }
                Kind::Hypoexponential(means) => {
                    let rates = means
                        .iter()
                        .map(|mean| Ok(1.0 / positive(mean.0)?))
                        .collect::<Result<Vec<f64>, ModelError>>()?;
                    Distribution::hypoexponential(&rates)?
                }
                Kind::Lognormal { mean, scv } => {
                    Distribution::log_normal_from_mean_and_scv(mean.0, *scv)?
                }
                Kind::Pareto { scale, alpha } => Distribution::pareto(scale.0, *alpha)?,
                Kind::BoundedPareto { low, high, alpha } => {
                    Distribution::bounded_pareto(low.0, high.0, *alpha)?
                }
                Kind::Samples(file) => Distribution::empirical(&samples(&base.join(file))?)?,
                Kind::Mixture(parts) => {
                    let parts = parts
                        .iter()
                        .map(|part| Ok((part.weight, part.of.distribution(base)?)))
                        .collect::<anyhow::Result<_>>()?;
                    Distribution::mixture(parts)?
                }
            },
        })
    }
}

fn exponential(mean: f64) -> Result<Distribution, ModelError> {
    Distribution::exponential(1.0 / positive(mean)?)
}

/// Refuses a mean by the number that was written, not by the rate that would follow from it.
fn positive(mean: f64) -> Result<f64, ModelError> {
    if mean.is_finite() && mean > 0.0 {
        Ok(mean)
    } else {
        Err(ModelError::NotPositive {
            what: "mean",
            value: mean,
        })
    }
}

fn samples(path: &Path) -> anyhow::Result<Vec<f64>> {
    use anyhow::Context;
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    if text.trim().is_empty() {
        anyhow::bail!(
            "{} has no samples in it: one duration a line",
            path.display()
        );
    }
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            Seconds::parse(line)
                .map(|seconds| seconds.0)
                .map_err(|error| anyhow::anyhow!("{}:{}: {error}", path.display(), number + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        assert_eq!(Seconds::parse("200us").unwrap(), Seconds(200e-6));
        assert_eq!(Seconds::parse("1.5 ms").unwrap(), Seconds(1.5e-3));
        assert_eq!(Seconds::parse("2e-3s").unwrap(), Seconds(2e-3));
        assert_eq!(Seconds::parse("0").unwrap(), Seconds(0.0));
        for bare in ["50", "2e-3", "0.001"] {
            let error = Seconds::parse(bare).unwrap_err();
            assert_eq!(error, without_unit(bare));
        }
        assert!(Seconds::parse("3 weeks").unwrap_err().contains("weeks"));
        for refused in ["-5us", "nan", "inf", "1e400", "us", ""] {
            let error = Seconds::parse(refused).unwrap_err();
            assert!(error.contains(&format!("{refused:?}")), "{error}");
        }
        assert_eq!(duration(0.000_123_4), "123 µs");
        assert_eq!(duration(1.5), "1.50 s");
    }

    #[test]
    fn times_may_grow_with_the_size() {
        let growing = |text: &str| Growing::parse(text).map(|g| (g.fixed.0, g.each_byte));
        assert_eq!(growing("80us+3us/KB").unwrap(), (80e-6, 3e-9));
        assert_eq!(growing("1024ns/KiB").unwrap(), (0.0, 1024e-9 / 1024.0));
        assert_eq!(growing("80us").unwrap(), (80e-6, 0.0));
        for (refused, part) in [
            ("80us+3us/page", "\"page\""),
            ("80us+3/KB", "3 has no unit"),
            ("80+3us/KB", "80 has no unit"),
            ("us/KB", "not a duration"),
        ] {
            let error = growing(refused).unwrap_err();
            assert!(error.contains(part), "{refused}: {error}");
        }
        assert!(Seconds::parse("3us/KB").unwrap_err().contains("--preset"));
        let of_two = Distribution::empirical(&[1_000.0, 3_000.0]).unwrap();
        let time = Growing::parse("5us+1us/KB").unwrap();
        let mean = time.distribution(Some(&of_two)).unwrap().moment(1).unwrap();
        assert!((mean - 7e-6).abs() < 1e-18, "{mean}");
        let error = time.distribution(None).unwrap_err().to_string();
        assert!(error.contains("--preset"), "{error}");
    }

    #[test]
    fn rates_are_one_or_a_range() {
        assert_eq!(
            Rates::parse("100..500").unwrap(),
            Rates {
                from: 100.0,
                to: 500.0
            }
        );
        assert_eq!(Rates::parse("7").unwrap(), Rates { from: 7.0, to: 7.0 });
        assert!(Rates::parse("5..1").is_err() && Rates::parse("-1").is_err());
    }
}
