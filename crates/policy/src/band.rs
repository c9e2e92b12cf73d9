//! Loads at which something goes to the engine.

use serde::{Deserialize, Serialize};

/// A band of load, in requests a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// The engine's from this load on; `None`: at no load.
    #[serde(deserialize_with = "Option::deserialize")]
    pub offload_from_rate: Option<f64>,
    /// The engine's below this load only; `None`: there is no upper end.
    #[serde(deserialize_with = "Option::deserialize")]
    pub offload_below_rate: Option<f64>,
}

impl Band {
    /// At every load.
    pub const ALWAYS: Self = Self {
        offload_from_rate: Some(0.0),
        offload_below_rate: None,
    };
    /// At no load.
    pub const NEVER: Self = Self {
        offload_from_rate: None,
        offload_below_rate: None,
    };

    /// Whether it is the engine's at this load.
    pub fn holds(&self, rate: f64) -> bool {
        self.offload_from_rate.is_some_and(|from| rate >= from)
            && self.offload_below_rate.is_none_or(|below| rate < below)
    }

    /// Whether it holds anywhere between two loads, these included.
    pub fn meets(&self, low: f64, high: f64) -> bool {
        self.offload_from_rate.is_some_and(|from| from <= high)
            && self.offload_below_rate.is_none_or(|below| low < below)
    }

    /// What is wrong with it, in words; nothing in most cases.
    pub(crate) fn check(&self) -> Result<(), String> {
        let from = self.offload_from_rate.unwrap_or(0.0);
        if !(from.is_finite() && from >= 0.0) {
            return Err(format!("offload_from_rate is {from}, and no rate"));
        }
        match self.offload_below_rate {
            // Whatever cannot be compared is none, too.
            Some(below) if !(below.is_finite() && below > from) => Err(format!(
                "offload_below_rate is {below}, and has to be above offload_from_rate, {from}"
            )),
            _ => Ok(()),
        }
    }
}
