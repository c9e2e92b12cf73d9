//! Pipes, for `splice`.

use std::collections::VecDeque;

use sim::script::Errno;
use sim::sockets::{Attempt, Refusal};

/// How much a pipe holds in bytes, as Linux's.
const CAPACITY: usize = 65_536;

/// The bytes between two ends.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    read_end: bool,
    write_end: bool,
}

impl Pipe {
    /// An empty one with both ends open.
    pub(crate) fn new() -> Pipe {
        Pipe {
            bytes: VecDeque::new(),
            read_end: true,
            write_end: true,
        }
    }

    pub(crate) fn close_read_end(&mut self) {
        self.read_end = false;
    }

    pub(crate) fn close_write_end(&mut self) {
        self.write_end = false;
    }

    /// How many bytes it takes now.
    pub(crate) fn room(&self) -> Attempt<usize> {
        if !self.read_end {
            return Err(Errno::EPIPE.into());
        }
        match CAPACITY - self.bytes.len() {
            0 => Err(Refusal::Wait),
            room => Ok(room),
        }
    }

    /// Takes as many bytes as it has room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Attempt<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let count = self.room()?.min(bytes.len());
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    /// The next bytes, which stay; none at the end.
    pub(crate) fn peek(&self, count: usize) -> Attempt<Vec<u8>> {
        if self.bytes.is_empty() && self.write_end {
            return Err(Refusal::Wait);
        }
        Ok(self.bytes.iter().take(count).copied().collect())
    }

    /// Takes out what has been looked at.
    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes.drain(..count);
    }
}
