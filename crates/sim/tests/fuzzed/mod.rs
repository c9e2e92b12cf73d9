//! What the fuzz targets run, driven by scripts of bytes: by the fuzzer, which makes them up, and by
//! the test `fuzzed` with the committed corpora and with random ones.

pub mod foreign;
pub mod node;
pub mod options;
mod promises;
pub mod reader;
pub mod stacks;
pub mod wire_input;

use tcp::Algorithm;

/// The congestion controls that two bits choose from. Whatever each does, what must hold is the same.
pub const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Cubic,
    Algorithm::Reno,
    Algorithm::Bbr,
    Algorithm::Bbr,
];

/// The bytes of a script, one after the other.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A byte; zero when there are no more.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }
}
