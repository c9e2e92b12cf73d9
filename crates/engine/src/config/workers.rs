//! How many workers an engine has.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fast::handoff::MOST_WORKERS;

/// How many workers, each a thread with receive queues, a TCP and programs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One for each receive queue, but for half of the cores at most: the others are the programs'.
    Auto,
    /// So many, of which each has the queues whose number, divided by this, leaves its own.
    Count(u16),
}

const ALLOWED: &str = "\"auto\", or a number from 1 to 32";

impl Default for Workers {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Workers {
    /// Of an engine that serves `queues` on a machine where it may run on so many cores.
    pub fn of(self, queues: usize, cores: usize) -> usize {
        match self {
            Self::Auto => queues.min(cores / 2).clamp(1, MOST_WORKERS),
            Self::Count(count) => usize::from(count).clamp(1, MOST_WORKERS),
        }
    }

    fn counted(count: u64) -> Option<Self> {
        let count = u16::try_from(count).ok()?;
        let allowed = (1..=MOST_WORKERS).contains(&usize::from(count));
        allowed.then_some(Self::Count(count))
    }
}

impl FromStr for Workers {
    type Err = String;

    /// As the command line writes it: `auto`, or a number.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let count = text.parse().ok().and_then(Self::counted);
        count.ok_or_else(|| "write `auto`, or a number from 1 to 32".to_owned())
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(count) => serializer.serialize_u16(*count),
        }
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Workers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Workers, E> {
        match text {
            "auto" => Ok(Workers::Auto),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Workers, E> {
        let counted = u64::try_from(count).ok().and_then(Workers::counted);
        counted.ok_or_else(|| E::invalid_value(Unexpected::Signed(count), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<Workers, String> {
        let config = Config::parse("engine.toml", text);
        config
            .map(|config| config.workers)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn workers_are_counted_or_follow_the_machine() {
        assert_eq!(read(""), Ok(Workers::Count(1)));
        assert_eq!(read("workers = 4"), Ok(Workers::Count(4)));
        assert_eq!(read("workers = \"auto\""), Ok(Workers::Auto));
        assert_eq!("auto".parse(), Ok(Workers::Auto));
        assert_eq!("3".parse(), Ok(Workers::Count(3)));
        for (queues, cores, workers) in
            [(1, 64, 1), (4, 2, 1), (4, 8, 4), (16, 8, 4), (64, 256, 32)]
        {
            assert_eq!(Workers::Auto.of(queues, cores), workers);
        }
        assert_eq!(Workers::Count(4).of(1, 1), 4, "what is asked for");
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "workers = 0",
            "workers = 33",
            "workers = -1",
            "workers = \"all\"",
        ] {
            let message = read(text).expect_err("refused");
            assert!(message.starts_with("engine.toml:1: "), "{message}");
            assert!(message.contains(ALLOWED), "{message}");
        }
        assert!("0".parse::<Workers>().is_err());
    }
}
