//! What measures. One measurement is of one subject at one combination of levels.

use super::declaration::{Experiment, Level};
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
    /// Whether the figure is the client's rather than the server's: it did not offer what it should,
    /// or its own cores were used up while the server's were not.
    pub fn is_the_limit(&self) -> bool {
        let short = self.offered.is_some_and(|offered| offered < OFFERED);
        let busy = self.busy.is_some_and(|busy| busy > USED_UP);
        short || (busy && self.server_busy.is_none_or(|busy| busy < USED_UP))
    }
}

#[cfg(test)]
mod tests {
    use super::Client;

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
    }
}
