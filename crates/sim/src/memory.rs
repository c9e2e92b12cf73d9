//! Where a simulated host keeps what it receives, and the first half of the oracle: the stack may
//! offer each byte only once, and may not call received what it never placed.

use std::collections::BTreeMap;

use tcp::{ConnId, PayloadStore};

use crate::rng::{Chance, Rng};

/// The receive memory of a host.
#[derive(Debug)]
pub struct Memory {
    streams: BTreeMap<ConnId, Stream>,
    /// How likely it is that memory has run out, for any placement.
    exhaustion: Chance,
    rng: Rng,
}

/// What a connection has received and nobody has read.
#[derive(Debug, Default)]
struct Stream {
    /// How far it has been read.
    read: u64,
    /// Pieces that do not overlap, by the offset of their first byte.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Memory {
    pub(crate) fn new(exhaustion: Chance, rng: Rng) -> Memory {
        Memory {
            streams: BTreeMap::new(),
            exhaustion,
            rng,
        }
    }

    /// Reads up to `count` bytes in order; what is missing is not there.
    pub(crate) fn read(&mut self, conn: ConnId, count: u64) -> Vec<u8> {
        let Some(stream) = self.streams.get_mut(&conn) else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            let Some(mut piece) = stream.pieces.remove(&stream.read) else {
                break;
            };
            let wanted = (count - bytes.len() as u64) as usize;
            if piece.len() > wanted {
                let rest = piece.split_off(wanted);
                stream.pieces.insert(stream.read + wanted as u64, rest);
            }
            stream.read += piece.len() as u64;
            bytes.append(&mut piece);
        }
        bytes
    }

    /// The bytes that [`read`](Self::read) would give, which stay.
    pub(crate) fn peek(&self, conn: ConnId, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(stream) = self.streams.get(&conn) else {
            return bytes;
        };
        for (&offset, piece) in &stream.pieces {
            if offset != stream.read + bytes.len() as u64 || bytes.len() as u64 >= count {
                break;
            }
            bytes.extend(piece);
        }
        bytes.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        bytes
    }

    /// What `from` has received is now called by another name.
    pub(crate) fn rename(&mut self, from: ConnId, to: ConnId) {
        if let Some(stream) = self.streams.remove(&from) {
            self.streams.insert(to, stream);
        }
    }

    /// Forgets a connection.
    pub(crate) fn release(&mut self, conn: ConnId) {
        self.streams.remove(&conn);
    }

    /// Forgets what `conn` has out of order, beyond `received`.
    pub(crate) fn shed(&mut self, conn: ConnId, received: u64) {
        if let Some(stream) = self.streams.get_mut(&conn) {
            stream.pieces.retain(|&offset, _| offset < received);
        }
    }

    /// How many connections hold anything.
    pub fn holders(&self) -> usize {
        self.streams.len()
    }
}

impl PayloadStore for Memory {
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        assert!(!bytes.is_empty(), "{conn:?}: nothing placed at {offset}");
        let stream = self.streams.entry(conn).or_default();
        let end = offset + bytes.len() as u64;
        let before = stream.pieces.range(..end).next_back();
        let taken_until = before.map_or(stream.read, |(at, piece)| at + piece.len() as u64);
        assert!(
            offset >= taken_until.max(stream.read),
            "{conn:?}: {offset}..{end} placed, but there are bytes up to {taken_until} already",
        );
        let mut count = bytes.len();
        if self.rng.happens(self.exhaustion) {
            count = self.rng.below(count as u64) as usize;
        }
        if count > 0 {
            stream.pieces.insert(offset, bytes[..count].to_vec());
        }
        count
    }
}
