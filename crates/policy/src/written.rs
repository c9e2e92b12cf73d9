//! A policy as a file. What is wrong in it is found on its line.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rules::Part;
use crate::{Band, Policy, Rule};

/// The format's version. The first one said nothing of connections, and no engine read it.
pub const VERSION: u32 = 2;

/// Why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct Unreadable {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Policy {
    /// Reads what was [written](Self::to_text).
    ///
    /// # Errors
    /// It is no policy, or one of another version.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let read: Read = serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            // The line is told apart.
            let end = message.rfind(" at line ").unwrap_or(message.len());
            Unreadable {
                line: error.line().max(1),
                message: message[..end].to_owned(),
            }
        })?;
        let rules = read.rules.into_iter().map(Rule::from).collect();
        Self::new(read.connections, rules, read.above).map_err(|error| Unreadable {
            line: line_of(text, error.part),
            message: error.to_string(),
        })
    }

    /// As the text of a file.
    ///
    /// # Errors
    /// None that could be met: there is nothing in a policy that cannot be written.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            version: u32,
            connections: Band,
            rules: &'a [Rule],
            above: Band,
        }
        let written = Written {
            version: VERSION,
            connections: self.connections(),
            rules: self.rules(),
            above: self.above(),
        };
        written.serialize(serializer)
    }
}

/// What stands in a file. What is left out is no `null`: a band that was forgotten would be one at which nothing is
/// offloaded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(deserialize_with = "known", rename = "version")]
    _version: u32,
    connections: Band,
    rules: Vec<ReadRule>,
    above: Band,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadRule {
    up_to_bytes: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    offload_from_rate: Option<f64>,
    #[serde(deserialize_with = "Option::deserialize")]
    offload_below_rate: Option<f64>,
}

impl From<ReadRule> for Rule {
    fn from(read: ReadRule) -> Self {
        Self {
            up_to_bytes: read.up_to_bytes,
            band: Band {
                offload_from_rate: read.offload_from_rate,
                offload_below_rate: read.offload_below_rate,
            },
        }
    }
}

fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(Error::custom(format!(
            "a policy of version {other}, and what is read is version {VERSION}: write it anew with \
             `outboard plan --policy`"
        ))),
    }
}

/// The line on which a part begins: in what could be read there are no other words than its keys.
fn line_of(text: &str, part: Part) -> usize {
    let (key, before) = match part {
        Part::Connections => ("\"connections\"", 0),
        Part::Rule(number) => ("\"up_to_bytes\"", number.saturating_sub(1)),
        Part::Above => ("\"above\"", 0),
    };
    let at = text.match_indices(key).nth(before).map_or(0, |(at, _)| at);
    text[..at].matches('\n').count() + 1
}
