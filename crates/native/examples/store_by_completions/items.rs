//! The items of the store, and what its commands do with them: nothing here knows of a network.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of all items, with their keys.
const MEMORY: usize = 64 << 20;
/// Longer times than this are dates, in seconds.
const MONTH: u64 = 60 * 60 * 24 * 30;

const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";

pub struct Item {
    pub flags: u32,
    /// In seconds since 1970; 0: never.
    pub ends: u64,
    pub unique: u64,
    pub value: Vec<u8>,
}

/// A command of which the value is coming.
pub struct Storing {
    pub command: String,
    pub key: String,
    pub item: Item,
    /// Of the value and the end of its line.
    pub lacking: usize,
}

#[derive(Default)]
pub struct Store {
    items: HashMap<String, Item>,
    held: usize,
    last_unique: u64,
    pub flush_at: u64,
}

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

pub fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits)
}

/// When an item ends.
pub fn date(word: &str) -> Option<u64> {
    if let Some(past) = word.strip_prefix('-') {
        return number::<u64>(past).map(|_| 1);
    }
    Some(match number(word)? {
        seconds @ 1..=MONTH => now() + seconds,
        seconds => seconds,
    })
}

impl Store {
    pub fn find(&mut self, key: &str) -> Option<&mut Item> {
        if matches!(self.items.get(key), Some(item) if (1..=now()).contains(&item.ends)) {
            self.forget(key);
        }
        self.items.get_mut(key)
    }

    pub fn forget(&mut self, key: &str) -> bool {
        let gone = self.items.remove(key);
        self.held -= gone.as_ref().map_or(0, |item| key.len() + item.value.len());
        gone.is_some()
    }

    fn keep(&mut self, key: &str, mut item: Item) -> &'static str {
        self.forget(key);
        if self.held + key.len() + item.value.len() > MEMORY {
            return NO_MEMORY;
        }
        self.held += key.len() + item.value.len();
        self.last_unique += 1;
        item.unique = self.last_unique;
        self.items.insert(key.to_owned(), item);
        "STORED"
    }

    pub fn flush(&mut self) {
        *self = Self {
            last_unique: self.last_unique,
            ..Self::default()
        };
    }

    /// Does with a value that has come what its command says.
    pub fn store(&mut self, storing: Storing) -> &'static str {
        let (key, mut item) = (&storing.key, storing.item);
        if !item.value.ends_with(b"\r\n") {
            return "CLIENT_ERROR bad data chunk";
        }
        item.value.truncate(item.value.len() - 2);
        match (storing.command.as_str(), self.find(key)) {
            ("cas", None) => return "NOT_FOUND",
            ("cas", Some(old)) if old.unique != item.unique => return "EXISTS",
            ("add", Some(_)) | ("replace" | "append" | "prepend", None) => return "NOT_STORED",
            ("append", Some(old)) => {
                item.value = [&old.value[..], &item.value].concat();
                (item.flags, item.ends) = (old.flags, old.ends);
            }
            ("prepend", Some(old)) => {
                item.value.extend_from_slice(&old.value);
                (item.flags, item.ends) = (old.flags, old.ends);
            }
            _ => {}
        }
        self.keep(key, item)
    }

    pub fn count(&mut self, words: &[&str]) -> String {
        let Some(by) = number::<u64>(words[2]) else {
            return "CLIENT_ERROR invalid numeric delta argument".to_owned();
        };
        let Some(item) = self.find(words[1]) else {
            return "NOT_FOUND".to_owned();
        };
        let digits = std::str::from_utf8(&item.value).unwrap_or_default();
        let Some(old) = number::<u64>(digits.trim_end()) else {
            return "CLIENT_ERROR cannot increment or decrement non-numeric value".to_owned();
        };
        let new = match words[0] {
            "incr" => old.wrapping_add(by),
            _ => old.saturating_sub(by),
        };
        // One that gets shorter keeps its length, as memcached has it.
        let value = format!("{new:<width$}", width = digits.len()).into_bytes();
        let (flags, ends, unique) = (item.flags, item.ends, 0);
        let item = Item {
            flags,
            ends,
            unique,
            value,
        };
        match self.keep(words[1], item) {
            "STORED" => new.to_string(),
            refused => refused.to_owned(),
        }
    }
}
