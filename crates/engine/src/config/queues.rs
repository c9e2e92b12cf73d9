//! Which receive queues are served.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which receive queues of the interface the engine serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Queues {
    /// All that there are, and those that are added while it runs.
    #[default]
    All,
    /// These, numbered from 0. New clients whose frames come to others are the kernel's.
    These(Vec<u32>),
}

const ALLOWED: &str = "\"all\", or numbers of receive queues such as [0, 1]";

impl Queues {
    /// Those of an interface that has `there` of them; none of them twice.
    pub fn of(&self, there: u32) -> Vec<u32> {
        match self {
            Self::All => (0..there).collect(),
            Self::These(numbers) => {
                let mut numbers = numbers.clone();
                numbers.sort_unstable();
                numbers.dedup();
                numbers
            }
        }
    }
}

/// The queues of one worker of several: those whose number, divided by that of the workers, leaves its own.
pub(crate) fn of_worker(queues: &[u32], worker: usize, workers: usize) -> Vec<u32> {
    let own = |queue: &u32| *queue as usize % workers == worker;
    queues.iter().copied().filter(own).collect()
}

impl FromStr for Queues {
    type Err = String;

    /// As the command line writes it: `all`, or numbers with commas between.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers = text.split(',').map(|number| number.trim().parse());
        let numbers: Result<Vec<u32>, _> = numbers.collect();
        numbers
            .map(Self::These)
            .map_err(|_| "write `all`, or numbers of receive queues such as 0,1".to_owned())
    }
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl Serialize for Queues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::These(numbers) => numbers.serialize(serializer),
        }
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Queues;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Queues, E> {
        match text {
            "all" => Ok(Queues::All),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    // As it was written when one queue was all that an engine served.
    fn visit_i64<E: Error>(self, number: i64) -> Result<Queues, E> {
        let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(number), &self);
        let number = u32::try_from(number).map_err(wrong)?;
        Ok(Queues::These(vec![number]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Queues, A::Error> {
        let mut these = Vec::new();
        while let Some(number) = numbers.next_element()? {
            these.push(number);
        }
        if these.is_empty() {
            return Err(A::Error::invalid_length(0, &self));
        }
        Ok(Queues::These(these))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<Queues, String> {
        let config = Config::parse("engine.toml", text);
        config
            .map(|config| config.queues)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn queues_are_all_or_a_list() {
        assert_eq!(read(""), Ok(Queues::All));
        assert_eq!(read("queues = \"all\""), Ok(Queues::All));
        assert_eq!(read("queues = [2, 0, 2]"), Ok(Queues::These(vec![2, 0, 2])));
        assert_eq!(Queues::These(vec![2, 0, 2]).of(4), [0, 2]);
        assert_eq!(Queues::All.of(3), [0, 1, 2]);
        assert_eq!("all".parse(), Ok(Queues::All));
        assert_eq!("1,0".parse(), Ok(Queues::These(vec![1, 0])));
    }

    #[test]
    fn one_queue_is_taken_as_it_was_written_before() {
        assert_eq!(read("queue = 3"), Ok(Queues::These(vec![3])));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "queues = \"some\"",
            "queues = []",
            "queues = -1",
            "queues = [-1]",
        ] {
            let message = read(text).expect_err("refused");
            assert!(message.starts_with("engine.toml:1: "), "{message}");
        }
        let message = read("queues = []").expect_err("refused");
        assert!(message.contains(ALLOWED), "{message}");
        let message = "some".parse::<Queues>().expect_err("refused");
        assert!(message.contains("0,1"), "{message}");
    }
}
