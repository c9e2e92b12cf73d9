//! What a claim compares with: another subject at the same levels, or a subject, be it the same, at other ones.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What stands below the line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Said", into = "Said")]
pub struct Below {
    /// The subject, by name. Empty: nothing stands there.
    pub subject: String,
    /// Its levels, where they are not those of what stands above: names of an axis and of a level of it.
    pub at: Vec<(String, String)>,
}

impl Below {
    /// The same, at this level of an axis.
    pub fn at(mut self, axis: &str, level: &str) -> Self {
        self.at.push((axis.into(), level.into()));
        self
    }

    /// The name of the subject.
    pub fn as_str(&self) -> &str {
        &self.subject
    }
}

impl From<&str> for Below {
    fn from(subject: &str) -> Self {
        subject.to_owned().into()
    }
}

impl From<String> for Below {
    fn from(subject: String) -> Self {
        Self {
            subject,
            at: Vec::new(),
        }
    }
}

impl PartialEq<&str> for Below {
    fn eq(&self, other: &&str) -> bool {
        self.at.is_empty() && self.subject == *other
    }
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject)?;
        self.at
            .iter()
            .try_for_each(|(_, level)| write!(f, ", {level}"))
    }
}

/// What is stored of it: a name alone, where it is at the same levels, as runs of earlier versions have it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Said {
    Name(String),
    Elsewhere {
        subject: String,
        at: Vec<(String, String)>,
    },
}

impl From<Said> for Below {
    fn from(said: Said) -> Self {
        match said {
            Said::Name(subject) => subject.into(),
            Said::Elsewhere { subject, at } => Self { subject, at },
        }
    }
}

impl From<Below> for Said {
    fn from(below: Below) -> Self {
        let Below { subject, at } = below;
        match at.is_empty() {
            true => Self::Name(subject),
            false => Self::Elsewhere { subject, at },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Below;

    #[test]
    fn a_subject_is_stored_by_its_name_unless_it_is_at_other_levels() {
        let same = Below::from("kernel");
        let elsewhere = Below::from("kernel").at("features", "off");
        assert_eq!(serde_json::to_string(&same).unwrap(), "\"kernel\"");
        for one in [same, elsewhere.clone(), Below::default()] {
            let text = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Below>(&text).unwrap(), one);
        }
        assert_eq!(elsewhere.to_string(), "kernel, off");
    }
}
