//! What a call came to.

use crate::program::{Connection, Event};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a call returned, without what differs from run to run (ports, process ids).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// −1 and this errno.
    Error(String),
    /// What it returned.
    Value(i64),
    /// New descriptors, by number: programs rely on the lowest that is free.
    Descriptors(Vec<i32>),
    /// The number of a descriptor, and which of the peer's connections it is.
    Accepted(i32, Option<Connection>),
    /// Bytes, and the flags of a message.
    Data(String, i32),
    /// Descriptors that are ready, each with its events, in the order of their slots.
    Ready(Vec<(u8, Vec<Event>)>),
    /// Anything else, as text.
    Text(String),
    /// The actor knows no descriptor of that name.
    NoSlot,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(name) => write!(f, "-1 {name}"),
            Self::Value(value) => write!(f, "{value}"),
            Self::Descriptors(numbers) => write!(f, "descriptor {numbers:?}"),
            Self::Accepted(number, Some(connection)) => {
                write!(f, "descriptor [{number}], connection {connection}")
            }
            Self::Accepted(number, None) => {
                write!(f, "descriptor [{number}], no connection of the peer's")
            }
            Self::Data(bytes, flags) => {
                write!(f, "{} bytes", bytes.len())?;
                if !bytes.is_empty() {
                    let (first, last) = (bytes.len().min(16), bytes.len().saturating_sub(16));
                    write!(f, ", {:?} to {:?}", &bytes[..first], &bytes[last..])?;
                }
                match flags {
                    0 => Ok(()),
                    flags => write!(f, ", flags {flags:#x}"),
                }
            }
            Self::Ready(ready) => write!(f, "ready {ready:?}"),
            Self::Text(text) => f.write_str(text),
            Self::NoSlot => f.write_str("no such descriptor"),
        }
    }
}

/// What an actor tells the stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// It is there: its process and its thread.
    Here(i32, i32),
    /// Its call has returned.
    Returned(Outcome),
}

/// `length` bytes of a text in which each place differs from every other within eight million
/// bytes, and from those of other tags.
pub fn text(tag: char, from: u64, length: usize) -> String {
    let mut whole = String::with_capacity(length + 16);
    let skip = (from % 8) as usize;
    let mut block = from / 8;
    while whole.len() < length + skip {
        whole.push(tag);
        whole.push_str(&format!("{:06}.", block % 1_000_000));
        block += 1;
    }
    whole[skip..skip + length].to_owned()
}

/// The tag of the text that the peer sends on a connection.
pub fn peer_tag(connection: u8) -> char {
    char::from(b'a' + connection % 26)
}

/// The tag of the text that the program writes in a step.
pub fn step_tag(step: usize) -> char {
    const TAGS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char::from(TAGS[step % TAGS.len()])
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn pieces_of_a_text_make_the_whole() {
        let whole = text('x', 0, 100);
        assert_eq!(whole[..16], *"x000000.x000001.");
        assert_eq!(text('x', 0, 13) + &text('x', 13, 87), whole);
    }
}
