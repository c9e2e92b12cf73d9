//! Descriptors: what travels in the rings.
//!
//! A descriptor takes one entry of four 64-bit words, or two where addresses do not fit. The first
//! word is laid out alike in all:
//!
//! ```text
//! bits 0–7   kind
//! bits 8–15  flags
//! bits 16–31 a small value
//! bits 32–63 a 32-bit value (a length, a listener)
//! ```
//!
//! and the second word is the connection, where there is one. Decoding refuses every bit that the
//! kind does not define, so that a later version can give it a meaning.

mod address;
mod completion;
mod connect;
mod submission;

pub use completion::Completion;
pub use connect::{CONNECT_BLOCK_LEN, ConnectBlock, FastOpen};
pub use submission::{OptionKind, Submission};

use crate::Violation;
use serde::{Deserialize, Serialize};

/// What a ring carries: four words, 32 bytes.
pub type Entry = [u64; 4];

/// Something that can travel in a ring.
pub trait Descriptor: Sized {
    /// The entries of this descriptor.
    fn encode(&self) -> (Entry, Option<Entry>);

    /// Whether a descriptor that begins with `first` has a second entry.
    fn takes_two(first: &Entry) -> bool;

    /// The descriptor in these entries; `second` is there exactly if
    /// [`takes_two`](Self::takes_two) says so.
    ///
    /// # Errors
    /// The kind, a bit or a value is not defined.
    fn decode(first: &Entry, second: Option<&Entry>) -> Result<Self, Violation>;
}

/// Names a connection of the engine in a session: a place, and which of its successive tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConnRef {
    /// The place in the engine's table.
    pub index: u32,
    /// How many connections had this place before.
    pub generation: u32,
}

impl ConnRef {
    /// Both in one word: the index in its low half.
    pub fn to_word(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }

    /// The inverse of [`to_word`](Self::to_word).
    pub fn from_word(word: u64) -> Self {
        Self {
            index: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}

/// A plain entry, for whoever tests a ring with its own meaning of the words.
impl Descriptor for Entry {
    fn encode(&self) -> (Entry, Option<Entry>) {
        (*self, None)
    }

    fn takes_two(_: &Entry) -> bool {
        false
    }

    fn decode(first: &Entry, _: Option<&Entry>) -> Result<Self, Violation> {
        Ok(*first)
    }
}

/// The first word of a descriptor, taken apart.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u8,
    flags: u8,
    small: u16,
    value: u32,
}

impl Head {
    fn new(kind: u8) -> Self {
        Self {
            kind,
            flags: 0,
            small: 0,
            value: 0,
        }
    }

    fn flag(mut self, flag: u8, set: bool) -> Self {
        if set {
            self.flags |= flag;
        }
        self
    }

    fn small(self, small: u16) -> Self {
        Self { small, ..self }
    }

    fn value(self, value: u32) -> Self {
        Self { value, ..self }
    }

    fn to_word(self) -> u64 {
        u64::from(self.kind)
            | u64::from(self.flags) << 8
            | u64::from(self.small) << 16
            | u64::from(self.value) << 32
    }

    fn from_word(word: u64) -> Self {
        Self {
            kind: word as u8,
            flags: (word >> 8) as u8,
            small: (word >> 16) as u16,
            value: (word >> 32) as u32,
        }
    }

    /// Refuses flags outside of `flags`, a small value unless `small`, a value unless `value`.
    fn check(self, flags: u8, small: bool, value: bool) -> Result<(), Violation> {
        let mut allowed = 0xff | u64::from(flags) << 8;
        if small {
            allowed |= 0xffff << 16;
        }
        if value {
            allowed |= 0xffff_ffff << 32;
        }
        check_word(self.kind, 0, self.to_word(), allowed)
    }
}

/// Refuses bits of `word` outside of `allowed`.
fn check_word(kind: u8, index: u8, word: u64, allowed: u64) -> Result<(), Violation> {
    match word & !allowed {
        0 => Ok(()),
        bits => Err(Violation::UndefinedBits {
            kind,
            word: index,
            bits,
        }),
    }
}

/// Refuses anything in words that this kind does not use.
fn check_unused(kind: u8, entry: &Entry, words: &[u8]) -> Result<(), Violation> {
    words
        .iter()
        .try_for_each(|&i| check_word(kind, i, entry[usize::from(i)], 0))
}
