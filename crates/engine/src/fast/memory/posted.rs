//! Buffers of a program's own, in its send area, that a connection receives into.
//!
//! Each stands for a part of the stream, in its order. What arrives there is placed in it at once, in order
//! or not, and takes no chunk. What had arrived before the buffer came stays in chunks, from where the
//! program's library copies it; so a byte has one place from the moment it arrives.

use std::collections::VecDeque;

/// Buffers that a connection may have. One too many is not used: what it stands for goes to chunks.
const MOST: usize = 64;

/// A part of the stream, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffer {
    begin: u64,
    end: u64,
    /// Where in the send area the byte at `begin` goes.
    addr: u64,
}

/// The buffers of one connection, in the order of the stream.
#[derive(Debug, Default)]
pub struct Posted(VecDeque<Buffer>);

impl Posted {
    /// One more, for the `len` bytes of the stream that begin at `from`; nothing before `placed` goes
    /// there, because it has its place. False: it is not used.
    pub fn add(&mut self, from: u64, len: u32, addr: u64, placed: u64) -> bool {
        let Some(end) = from.checked_add(len.into()) else {
            return false;
        };
        let begin = from.max(placed);
        let follows = self.0.back().is_none_or(|last| last.end <= begin);
        if !follows || begin >= end || self.0.len() >= MOST {
            return false;
        }
        let addr = addr + (begin - from);
        self.0.push_back(Buffer { begin, end, addr });
        true
    }

    /// Where the bytes at `at` go, and how many of them.
    pub fn place(&self, at: u64) -> Option<(u64, u64)> {
        let buffer = self.0.iter().find(|buffer| at < buffer.end)?;
        (buffer.begin <= at).then(|| (buffer.addr + (at - buffer.begin), buffer.end - at))
    }

    /// Where the next of them begins, after `at`, for which there is none.
    pub fn next(&self, at: u64) -> Option<u64> {
        let next = self.0.iter().find(|buffer| at < buffer.begin);
        next.map(|buffer| buffer.begin)
    }

    /// What lies before `total` is done with.
    pub fn forget_before(&mut self, total: u64) {
        while self.0.front().is_some_and(|first| first.end <= total) {
            self.0.pop_front();
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them: the parts of the stream that they stand for, and where those go.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.0
            .iter()
            .map(|buffer| (buffer.begin, buffer.end, buffer.addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_one_place() {
        let mut posted = Posted::default();
        assert!(posted.add(100, 50, 1000, 120));
        assert_eq!(posted.place(119), None, "it has its place");
        assert_eq!(posted.next(119), Some(120));
        assert_eq!(posted.place(120), Some((1020, 30)));
        assert_eq!(posted.place(149), Some((1049, 1)));
        assert_eq!(posted.place(150), None);
        assert_eq!(posted.next(150), None);
        assert!(posted.add(150, 10, 5000, 120));
        assert_eq!(posted.place(150), Some((5000, 10)));
        posted.forget_before(149);
        assert_eq!(posted.place(149), Some((1049, 1)));
        posted.forget_before(150);
        assert_eq!(posted.place(149), None);
        assert_eq!(posted.place(159), Some((5009, 1)));
    }

    #[test]
    fn what_makes_no_sense_is_not_used() {
        let mut posted = Posted::default();
        assert!(!posted.add(u64::MAX, 2, 0, 0));
        assert!(!posted.add(10, 5, 0, 15), "all of it has its place");
        assert!(!posted.add(10, 0, 0, 0));
        assert!(posted.add(10, 5, 0, 0));
        assert!(!posted.add(14, 5, 0, 0), "two places for a byte");
        assert!(!posted.add(0, 5, 0, 0), "out of order");
        for n in 1..MOST as u64 {
            assert!(posted.add(10 + 10 * n, 10, 0, 0));
        }
        assert!(!posted.add(1 << 20, 10, 0, 0), "too many");
        assert!(!posted.is_empty());
    }
}
