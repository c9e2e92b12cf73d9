//! What measures. One measurement is of one subject at one combination of levels.

use super::declaration::{Experiment, Level};
use super::used::Used;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Measures whatever an experiment declares. It keeps what it needs between measurements (worlds,
/// servers) and gives it back when it is dropped.
pub trait Bench {
    /// Makes ready what [`measure`](Self::measure) needs there and is no part of what is measured: servers that are
    /// started, what they are asked for. The watch on the machine begins after it.
    ///
    /// # Errors
    /// It cannot be measured.
    fn prepare(&mut self, _at: &At<'_>) -> Result<()> {
        Ok(())
    }

    /// Measures once, where it was [prepared](Self::prepare).
    ///
    /// # Errors
    /// What kept it from being measured. That a subject does badly is a result, not an error.
    fn measure(&mut self, at: &At<'_>) -> Result<Sample>;
}

/// Where a measurement is: one combination of subject and levels, in one round.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// What is being run.
    pub experiment: &'a Experiment,
    /// The subject.
    pub subject: &'a str,
    /// A level of each axis, in the order of the axes.
    pub levels: &'a [&'a Level],
    /// How long to measure.
    pub window: Duration,
    /// For what is drawn at random: the same in every run with the same seed, for all subjects of a
    /// round, so that they are given the same.
    pub seed: u64,
}

impl At<'_> {
    /// The level of an axis.
    ///
    /// # Errors
    /// The experiment has no such axis.
    pub fn level(&self, axis: &str) -> Result<&Level> {
        let index = self.experiment.axes.iter().position(|a| a.name == axis);
        let level = index.and_then(|index| self.levels.get(index).copied());
        level.with_context(|| format!("no axis {axis}"))
    }

    /// Its number.
    ///
    /// # Errors
    /// The experiment has no such axis, or it is not one of numbers.
    pub fn number(&self, axis: &str) -> Result<f64> {
        let number = self.level(axis)?.value;
        number.with_context(|| format!("{axis} is not a number"))
    }

    /// Its name.
    ///
    /// # Errors
    /// The experiment has no such axis.
    pub fn word(&self, axis: &str) -> Result<&str> {
        Ok(&self.level(axis)?.name)
    }
}

/// What came of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// By the name of the measure. One that is left out could not be measured.
    pub values: BTreeMap<String, f64>,
    /// What is known of the client's part in it.
    pub client: Client,
    /// What programs used, and what the engine says of itself, as far as there is an account of it. Runs of earlier
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Sample {
    /// With one more value.
    pub fn with(mut self, measure: &str, value: f64) -> Self {
        self.values.insert(measure.into(), value);
        self
    }

    /// With what is known of the client.
    pub fn by(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// With what came of a further part of the same measurement: of what both have, the value of that.
    pub fn and(mut self, part: Self) -> Self {
        self.values.extend(part.values);
        self.client = self.client.or(part.client);
        self.notes.extend(part.notes);
        match &part.used {
            Some(used) => self.using(used),
            None => self,
        }
    }

    /// With what programs and the engine used, besides what is known already: one measurement may have several parts.
    pub fn using(mut self, used: &Used) -> Self {
        self.used.get_or_insert_default().add(used);
        self
    }
}

/// What is known of the client: whether it could have done more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// The part of the client's cores that it used, from 0 to 1.
    #[serde(default)]
    pub busy: Option<f64>,
    /// The part of the server's cores that server and engine used, from 0 to 1.
    #[serde(default)]
    pub server_busy: Option<f64>,
    /// Of what was to be offered, the part that was, from 0 to 1.
    #[serde(default)]
    pub offered: Option<f64>,
}

/// From here on a core counts as used up.
const USED_UP: f64 = 0.9;
/// Below this a rate was not the one that was asked for.
const OFFERED: f64 = 0.98;

impl Client {
    /// Whether the figure is the client's rather than the server's: it did not offer what it should, or its own cores
    /// were used up, while the server's were not. All connections wait for a server that is full.
    pub fn is_the_limit(&self) -> bool {
        let short = self.offered.is_some_and(|offered| offered < OFFERED);
        let busy = self.busy.is_some_and(|busy| busy > USED_UP);
        (short || busy) && self.server_busy.is_none_or(|busy| busy < USED_UP)
    }

    /// Whether anything is known by which it could have been the limit.
    pub fn is_known(&self) -> bool {
        self.busy.is_some() || self.offered.is_some()
    }

    /// Of two clients of one measurement, the one that a reader should know of: that which was the limit.
    pub fn or(self, other: Self) -> Self {
        let is_news = match self.is_known() {
            true => other.is_the_limit() && !self.is_the_limit(),
            false => true,
        };
        if is_news { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Sample, Used};

    #[test]
    fn parts_of_a_measurement_are_one_sample() {
        let used = Used {
            passed: 1.0,
            ..Used::default()
        };
        let busy = |busy| Client {
            busy: Some(busy),
            ..Client::default()
        };
        let one = Sample::default().with("time", 1.0).with("CPU", 5.0);
        let one = one.using(&used).by(busy(0.5));
        let other = Sample::default().with("rate", 2.0).with("CPU", 7.0);
        let other = other.using(&used).by(busy(0.95));
        let both = one.clone().and(other);
        let values: Vec<f64> = ["CPU", "rate", "time"].map(|name| both.values[name]).into();
        assert_eq!(values, [7.0, 2.0, 1.0]);
        assert_eq!(both.client, busy(0.95));
        assert_eq!(both.used.map(|used| used.passed), Some(2.0));
        assert_eq!(one.clone().and(Sample::default()), one);
    }

    #[test]
    fn a_client_is_the_limit_if_it_alone_is_used_up_or_offers_less() {
        let client = |busy, server_busy, offered| Client {
            busy,
            server_busy,
            offered,
        };
        assert!(!client(None, None, None).is_the_limit());
        assert!(client(Some(0.95), Some(0.5), None).is_the_limit());
        assert!(client(Some(0.95), None, None).is_the_limit());
        assert!(!client(Some(0.95), Some(0.97), None).is_the_limit());
        assert!(!client(Some(0.5), Some(0.5), Some(1.0)).is_the_limit());
        assert!(client(Some(0.5), Some(0.5), Some(0.9)).is_the_limit());
        assert!(client(None, None, Some(0.9)).is_the_limit());
        assert!(!client(Some(0.5), Some(0.97), Some(0.9)).is_the_limit());
    }

    #[test]
    fn of_two_clients_that_which_was_the_limit_is_told_of() {
        let client = |busy| Client {
            busy,
            ..Client::default()
        };
        let (unknown, idle, full) = (client(None), client(Some(0.5)), client(Some(0.95)));
        assert_eq!(
            [unknown, idle, full].map(|client| client.is_known()),
            [false, true, true]
        );
        assert_eq!((idle.or(full), full.or(idle)), (full, full));
        assert_eq!((unknown.or(idle), idle.or(unknown)), (idle, idle));
    }
}
