//! The policy that an engine follows: which size classes to offload, at which load.
//!
//! A policy is a short list of rules in ascending order of size. Each names the greatest object
//! size that it is for, and the band of load in which requests of that size go to the engine.
//! Sizes above the last rule follow [`Policy::above`]. As JSON:
//!
//! ```json
//! { "version": 1,
//!   "rules": [
//!     { "up_to_bytes": 1024,  "offload_from_rate": null,  "offload_below_rate": null },
//!     { "up_to_bytes": 10240, "offload_from_rate": 200.0, "offload_below_rate": 900.0 } ],
//!   "above": { "offload_from_rate": 0.0, "offload_below_rate": null } }
//! ```
//! `offload_from_rate` null: never. `offload_below_rate` null: no upper end. Rates are all requests
//! a second that the server takes, over the last second or so.

use crate::ModelError;
use crate::error::{non_negative, positive};
use serde::{Deserialize, Serialize};

/// The format's version.
pub const VERSION: u32 = 1;

/// Rules at most: a decision looks at each in the worst case.
pub const MOST_RULES: usize = 32;

/// A band of load in which to offload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Offload from this many requests a second on; `None`: never.
    pub offload_from_rate: Option<f64>,
    /// Offload only below this many requests a second; `None`: no upper end.
    pub offload_below_rate: Option<f64>,
}

impl Band {
    /// At every load.
    pub const ALWAYS: Band = Band {
        offload_from_rate: Some(0.0),
        offload_below_rate: None,
    };
    /// At no load.
    pub const NEVER: Band = Band {
        offload_from_rate: None,
        offload_below_rate: None,
    };

    fn check(&self) -> Result<(), ModelError> {
        if let Some(from) = self.offload_from_rate {
            non_negative("offload_from_rate", from)?;
        }
        if let Some(below) = self.offload_below_rate {
            positive("offload_below_rate", below)?;
        }
        Ok(())
    }

    fn holds(&self, rate: f64) -> bool {
        self.offload_from_rate.is_some_and(|from| rate >= from)
            && self.offload_below_rate.is_none_or(|below| rate < below)
    }
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The greatest object size that it is for, bytes.
    pub up_to_bytes: u64,
    /// When to offload.
    #[serde(flatten)]
    pub band: Band,
}

/// The whole policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Policy {
    version: u32,
    rules: Vec<Rule>,
    above: Band,
}

impl Policy {
    /// A policy from rules in ascending order of size, and what holds above the last.
    ///
    /// # Errors
    /// More than [`MOST_RULES`] rules, sizes that do not ascend, or a rate outside its domain.
    pub fn new(rules: Vec<Rule>, above: Band) -> Result<Policy, ModelError> {
        if rules.len() > MOST_RULES {
            return Err(ModelError::OutOfRange {
                what: "number of rules",
                value: rules.len() as f64,
                low: 0.0,
                high: MOST_RULES as f64,
            });
        }
        for pair in rules.windows(2) {
            if pair[1].up_to_bytes <= pair[0].up_to_bytes {
                return Err(ModelError::OutOfRange {
                    what: "up_to_bytes, which has to ascend from rule to rule,",
                    value: pair[1].up_to_bytes as f64,
                    low: pair[0].up_to_bytes as f64 + 1.0,
                    high: f64::MAX,
                });
            }
        }
        for band in rules.iter().map(|rule| &rule.band).chain([&above]) {
            band.check()?;
        }
        Ok(Policy {
            version: VERSION,
            rules,
            above,
        })
    }

    /// Whether a request for `bytes` bytes goes to the engine while the server takes `rate` requests
    /// a second. A few comparisons: well under 100 ns.
    pub fn offload(&self, bytes: u64, rate: f64) -> bool {
        let rule = self.rules.iter().find(|rule| bytes <= rule.up_to_bytes);
        rule.map_or(&self.above, |rule| &rule.band).holds(rate)
    }

    /// The rules in ascending order of size.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            version: u32,
            rules: Vec<Rule>,
            above: Band,
        }
        let written = Written::deserialize(deserializer)?;
        if written.version != VERSION {
            return Err(serde::de::Error::custom(format!(
                "policy version {} is not known; this program knows version {VERSION}",
                written.version
            )));
        }
        Policy::new(written.rules, written.above).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let middle = Band {
            offload_from_rate: Some(200.0),
            offload_below_rate: Some(900.0),
        };
        let rule = |up_to_bytes, band| Rule { up_to_bytes, band };
        Policy::new(
            vec![rule(1024, Band::NEVER), rule(10_240, middle)],
            Band::ALWAYS,
        )
        .unwrap()
    }

    #[test]
    fn sizes_and_loads_decide() {
        let policy = policy();
        assert!(!policy.offload(1024, 500.0));
        assert!(policy.offload(1025, 200.0) && !policy.offload(1025, 199.9));
        assert!(!policy.offload(10_240, 900.0));
        assert!(policy.offload(10_241, 0.0));
    }

    #[test]
    fn what_is_written_reads_back_and_what_is_wrong_is_refused() {
        let text = serde_json::to_string(&policy()).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy());
        let newer = text.replace("\"version\":1", "\"version\":2");
        let error = serde_json::from_str::<Policy>(&newer)
            .unwrap_err()
            .to_string();
        assert!(error.contains("version 2 is not known"), "{error}");
        let descending = text.replace("10240", "512");
        assert!(serde_json::from_str::<Policy>(&descending).is_err());
    }
}
