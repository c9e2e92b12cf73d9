//! Answers that the server computes itself: bytes of a random number each, as the dynamic part of WebStone 2.

use super::super::random::{BEGINNING, random};
use super::args::Way;
use super::site::{Then, head};
use native::{Back, Context, Errno, Handle, Memory, Piece, Queue};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::Ordering;

/// The path of what is computed.
const PATH: &[u8] = b"/computed";
/// Answers in registered memory at once, at most. What the peer has not acknowledged must not change, so beyond them
/// answers are copied, as those of servers that have no registered memory.
const MOST: usize = 512;

/// A head may be longer than that of the answer that had the memory before.
const ROOM: usize = 16;

/// What computes answers.
pub struct Computer {
    /// Bytes of a body.
    size: usize,
    state: u64,
    /// Memory of answers before, the oldest first, if answers are sent from registered memory; and how much there is.
    used: Option<VecDeque<Memory>>,
    made: usize,
}

/// An answer, with its head before it.
pub struct Computed {
    bytes: Bytes,
    head: usize,
    len: usize,
}

enum Bytes {
    Own(Vec<u8>),
    Registered(Memory),
}

impl Computer {
    pub fn new(size: usize, way: Way) -> Self {
        Self {
            size,
            state: BEGINNING,
            used: way.is_registered().then(VecDeque::new),
            made: 0,
        }
    }

    /// Whether that is what is asked for.
    pub fn is_asked(target: &[u8]) -> bool {
        target == PATH
    }

    /// Computes an answer.
    pub fn answer(&mut self, context: &Context, then: Then) -> Computed {
        let head = head(self.size, then);
        let len = head.len() + self.size;
        let memory = self.free(context, len);
        let state = &mut self.state;
        let bytes = head.bytes().chain((0..self.size).map(|_| random(state)));
        let bytes = match memory {
            Some(memory) => {
                for (place, byte) in memory.bytes().unwrap_or_default().iter().zip(bytes) {
                    place.store(byte, Ordering::Relaxed);
                }
                Bytes::Registered(memory)
            }
            None => Bytes::Own(bytes.collect()),
        };
        Computed {
            bytes,
            head: head.len(),
            len,
        }
    }

    /// Registered memory for an answer that may be changed, if answers are to be sent from it and there is any.
    fn free(&mut self, context: &Context, len: usize) -> Option<Memory> {
        let used = self.used.as_mut()?;
        let is_free = |memory: &&Memory| memory.len() >= len && !memory.is_under_way();
        if used.front().as_ref().is_some_and(is_free) {
            return used.pop_front();
        }
        if self.made == MOST {
            return None;
        }
        let made = context.register(len + ROOM).ok()?;
        self.made += 1;
        Some(made)
    }

    /// Takes back the memory of an answer that was sent, or of which nothing more is sent.
    pub fn take_back(&mut self, computed: Computed) {
        if let (Bytes::Registered(memory), Some(used)) = (computed.bytes, &mut self.used) {
            used.push_back(memory);
        }
    }
}

impl Computed {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The same without its body.
    pub fn without_body(self) -> Self {
        Self {
            len: self.head,
            ..self
        }
    }

    /// What is to be sent when so many bytes of it have been: the rest of the head, and of the body so much at most.
    fn next(&self, sent: usize, most: usize) -> std::ops::Range<usize> {
        sent..self.len.min(self.head.max(sent) + most)
    }

    /// Sends what follows the bytes that were sent, of its body so much at most; how much was sent.
    pub fn send(
        &self,
        queue: &mut Queue,
        handle: Handle,
        sent: usize,
        most: usize,
        back: Back,
    ) -> Result<usize, Errno> {
        let next = self.next(sent, most);
        match &self.bytes {
            Bytes::Own(bytes) => queue.sendv(handle, &[IoSlice::new(&bytes[next])], false, back),
            Bytes::Registered(memory) => {
                let piece = Piece {
                    memory,
                    offset: next.start,
                    len: next.len(),
                };
                queue.sendv_registered(handle, &[piece], false, back)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Computed, Computer};

    #[test]
    fn an_answer_leaves_in_pieces_of_its_body_behind_its_head() {
        let computed = |len| Computed {
            bytes: Bytes::Own(Vec::new()),
            head: 10,
            len,
        };
        let answer = computed(30);
        let sends = [(0, 8), (18, 8), (26, 8)].map(|(sent, most)| answer.next(sent, most));
        assert_eq!(sends, [0..18, 18..26, 26..30]);
        // A head that did not leave as a whole.
        assert_eq!(answer.next(4, 100), 4..30);
        assert_eq!(answer.without_body().next(4, 100), 4..10);
    }

    #[test]
    fn the_path_alone_is_computed() {
        assert!(Computer::is_asked(b"/computed"));
        assert!(!Computer::is_asked(b"/computed/"));
    }
}
