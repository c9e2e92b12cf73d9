//! Which interfaces an engine works on.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Their names, in the order in which they were written: one of them, as a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interfaces(Vec<String>);

/// So many at most: each has queues, memory for its frames and an entry for each port.
const MOST: usize = 8;

const ALLOWED: &str = "the name of an interface, or a list of names such as [\"eth1\", \"eth2\"]";

impl Interfaces {
    /// With these names.
    pub fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// The names.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The name of the one in a place.
    pub fn name(&self, place: usize) -> &str {
        self.0.get(place).map_or("", String::as_str)
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// What is wrong with them, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.0.is_empty() || self.0.iter().any(String::is_empty) {
            return Some("name the interface to work on (-i IFACE)".to_owned());
        }
        let mut each = self.0.iter().enumerate();
        if let Some((_, twice)) = each.find(|(place, name)| self.0[..*place].contains(name)) {
            return Some(format!("{twice} is named twice"));
        }
        let count = self.0.len();
        (count > MOST).then(|| format!("{count} interfaces are named, allowed are {MOST}"))
    }
}

impl From<&str> for Interfaces {
    fn from(name: &str) -> Self {
        Self::of([name])
    }
}

impl fmt::Display for Interfaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(", "))
    }
}

impl<'de> Deserialize<'de> for Interfaces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl Serialize for Interfaces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => serializer.serialize_str(""),
            [one] => serializer.serialize_str(one),
            several => several.serialize(serializer),
        }
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Interfaces;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Interfaces, E> {
        Ok(match text {
            "" => Interfaces::default(),
            name => name.into(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Interfaces, A::Error> {
        let mut names: Vec<String> = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        let interfaces = Interfaces(names);
        match interfaces.problem() {
            Some(problem) => Err(A::Error::custom(problem)),
            None => Ok(interfaces),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<Interfaces, String> {
        let config = Config::parse("engine.toml", text);
        config
            .map(|config| config.interface)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn they_are_one_or_a_list() {
        assert_eq!(read(""), Ok(Interfaces::default()));
        assert_eq!(read("interface = \"eth1\""), Ok("eth1".into()));
        let two = Interfaces::of(["eth1", "eth2"]);
        assert_eq!(read("interface = [\"eth1\", \"eth2\"]"), Ok(two.clone()));
        assert_eq!(two.to_string(), "eth1, eth2");
        assert!(two.are_several() && two.name(1) == "eth2");
        let one = Config {
            interface: Interfaces::of(["eth1"]),
            ..Config::default()
        };
        assert!(one.check().is_ok() && !one.interface.are_several());
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        let message = read("name = \"web\"\ninterface = 7").expect_err("refused");
        assert!(message.starts_with("engine.toml:2: "), "{message}");
        assert!(message.contains(ALLOWED), "{message}");
        let nine: Vec<String> = (0..9).map(|number| format!("\"eth{number}\"")).collect();
        for (list, what) in [
            ("[]".to_owned(), "name the interface"),
            ("[\"\"]".to_owned(), "name the interface"),
            (
                "[\"eth1\", \"eth2\", \"eth1\"]".to_owned(),
                "eth1 is named twice",
            ),
            (format!("[{}]", nine.join(", ")), "allowed are 8"),
        ] {
            let message = read(&format!("interface = {list}")).expect_err("refused");
            assert!(message.contains(what), "{message}");
        }
        let unnamed = Config::default().check().expect_err("no interface");
        assert!(unnamed.to_string().contains("-i IFACE"));
    }
}
