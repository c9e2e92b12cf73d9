//! The bands of connections and of sizes, and what follows from them.

use core::fmt;

use serde::Serialize;

use crate::Band;

/// Rules at most: a decision looks at each in the worst case.
pub const MOST_RULES: usize = 32;

/// What holds for a class of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rule {
    /// The greatest size that it is for, in bytes; the least is above that of the rule before.
    pub up_to_bytes: u64,
    /// When the engine is to serve it.
    #[serde(flatten)]
    pub band: Band,
}

/// What the model says should go to the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    connections: Band,
    rules: Vec<Rule>,
    above: Band,
}

/// A part of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The band of connections.
    Connections,
    /// A rule, counted from 1.
    Rule(usize),
    /// The band above the last rule.
    Above,
}

/// Parts of which no policy is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {wrong}")]
pub struct Inconsistent {
    /// Which part is wrong.
    pub part: Part,
    /// What is.
    pub wrong: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections => f.write_str("connections"),
            Self::Rule(number) => write!(f, "rule {number}"),
            Self::Above => f.write_str("above"),
        }
    }
}

/// What is wrong with a rule after another; nothing in most cases.
fn check(before: Option<&Rule>, rule: &Rule) -> Result<(), String> {
    let size = rule.up_to_bytes;
    match before.map(|before| before.up_to_bytes) {
        Some(before) if size <= before => Err(format!(
            "up_to_bytes is {size}, and has to be above that of the rule before, {before}"
        )),
        _ => rule.band.check(),
    }
}

impl Policy {
    /// A policy from the band of connections, rules in ascending order of size, and what holds above the last.
    ///
    /// # Errors
    /// More than [`MOST_RULES`] rules, sizes that do not ascend, or a rate that is none.
    pub fn new(connections: Band, rules: Vec<Rule>, above: Band) -> Result<Self, Inconsistent> {
        let in_part = |part| move |wrong| Inconsistent { part, wrong };
        connections.check().map_err(in_part(Part::Connections))?;
        let mut before = None;
        for (number, rule) in (1..).zip(&rules) {
            let checked = match number > MOST_RULES {
                true => Err(format!("there are {MOST_RULES} at most")),
                false => check(before, rule),
            };
            checked.map_err(in_part(Part::Rule(number)))?;
            before = Some(rule);
        }
        above.check().map_err(in_part(Part::Above))?;
        Ok(Self {
            connections,
            rules,
            above,
        })
    }

    /// Whether new connections go to the engine while `rate` requests a second come by them.
    pub fn offload_connections(&self, rate: f64) -> bool {
        self.connections.holds(rate)
    }

    /// Whether so many bytes go to the engine while the server takes `rate` requests a second.
    pub fn offload(&self, bytes: u64, rate: f64) -> bool {
        let rule = self.rules.iter().find(|rule| bytes <= rule.up_to_bytes);
        rule.map_or(&self.above, |rule| &rule.band).holds(rate)
    }

    /// The sizes that go to the engine at this load: the first and the last of each range, ascending, with
    /// others in between.
    pub fn sizes(&self, rate: f64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let rules = self.rules.iter().map(|rule| (rule.up_to_bytes, &rule.band));
        let mut first = Some(0);
        for (last, band) in rules.chain([(u64::MAX, &self.above)]) {
            // Above the greatest number there is no other.
            let Some(low) = first else { break };
            first = last.checked_add(1);
            if !band.holds(rate) {
                continue;
            }
            match ranges.last_mut() {
                Some(range) if range.1.checked_add(1) == Some(low) => range.1 = last,
                _ => ranges.push((low, last)),
            }
        }
        ranges
    }

    /// The first and the last of the sizes around this one that go, or do not go, to the engine as it does at this
    /// load.
    pub fn sizes_like(&self, bytes: u64, rate: f64) -> (u64, u64) {
        let mut low = 0;
        for (first, last) in self.sizes(rate) {
            if bytes < first {
                return (low, first - 1);
            }
            if bytes <= last {
                return (first, last);
            }
            low = last + 1;
        }
        (low, u64::MAX)
    }

    /// When connections go to the engine.
    pub fn connections(&self) -> Band {
        self.connections
    }

    /// The rules in ascending order of size.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What holds above the last rule.
    pub fn above(&self) -> Band {
        self.above
    }
}
