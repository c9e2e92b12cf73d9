//! What would be in an experiment, if what it needs were installed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A level of an axis, a subject, or a part of the machine that would be in an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Said")]
pub struct LeftOut {
    /// Its axis, by name, or "subject", or [the machine](Self::of_machine).
    pub axis: String,
    /// The level of it, or the subject.
    pub name: String,
    /// Why it is not in it.
    pub why: String,
}

/// What the axis of something is that the machine has not.
const MACHINE: &str = "machine";

impl LeftOut {
    /// What the machine has not. All that is measured is there, on less than it should be: a report says so on top.
    pub fn of_machine(name: &str, why: String) -> Self {
        Self {
            axis: MACHINE.into(),
            name: name.into(),
            why,
        }
    }

    /// Whether it is something that the machine has not.
    pub fn is_of_machine(&self) -> bool {
        self.axis == MACHINE
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "{}", self.why),
            name => write!(f, "{name}: {}", self.why),
        }
    }
}

/// What is stored of it: runs of earlier versions have all of it in words.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Words(String),
    Apart {
        axis: String,
        name: String,
        why: String,
    },
}

impl From<Said> for LeftOut {
    fn from(said: Said) -> Self {
        match said {
            Said::Words(why) => Self {
                axis: String::new(),
                name: String::new(),
                why,
            },
            Said::Apart { axis, name, why } => Self { axis, name, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LeftOut;

    #[test]
    fn what_was_left_out_is_read_in_words_and_apart() {
        let apart = LeftOut {
            axis: "load".into(),
            name: "ping-pong".into(),
            why: "no sockperf".into(),
        };
        let text = serde_json::to_string(&apart).unwrap();
        assert_eq!(serde_json::from_str::<LeftOut>(&text).unwrap(), apart);
        let words: LeftOut = serde_json::from_str("\"ping-pong: no sockperf\"").unwrap();
        assert_eq!(words.to_string(), apart.to_string());
    }
}
