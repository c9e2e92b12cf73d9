//! Buffers that the program has posted to receive into, in the order of the stream.
//!
//! The engine places what it can there itself; what had arrived before the engine knew of a buffer lies in
//! the receive area, and is copied from there. So a buffer fills from its front, whoever fills it.

use std::collections::VecDeque;

use rustix::io::Errno;

/// Buffers that a connection may have at once.
pub(crate) const MOST: usize = 64;

/// What has become of a posted buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// From when it was posted.
    pub key: u64,
    /// How many bytes it holds, from its front.
    pub filled: u32,
    /// It is the program's again: it is full, or nothing more comes.
    pub is_back: bool,
    /// It is full.
    pub is_full: bool,
    /// Why nothing more comes, unless the stream has ended.
    pub error: Option<Errno>,
}

/// A buffer: `len` bytes at `addr` of the send area.
pub(crate) struct Buffer<M> {
    /// What keeps it from being given to somebody else.
    pub(crate) _memory: M,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) key: u64,
    /// How many bytes of the stream come before it.
    pub(crate) from: u64,
}

struct Posted<M> {
    buffer: Buffer<M>,
    filled: u32,
    told: u32,
}

/// The buffers of a connection.
pub(crate) struct PostQueue<M> {
    buffers: VecDeque<Posted<M>>,
    /// Those from here on are not full.
    full: usize,
    /// Another process reads: nothing comes any more.
    is_lost: bool,
}

impl<M> Default for PostQueue<M> {
    fn default() -> Self {
        Self {
            buffers: VecDeque::new(),
            full: 0,
            is_lost: false,
        }
    }
}

impl<M> PostQueue<M> {
    /// Whether a buffer waits for bytes.
    pub(crate) fn wants(&self) -> bool {
        self.full < self.buffers.len()
    }

    /// Whether there is no room for another.
    pub(crate) fn is_crowded(&self) -> bool {
        self.buffers.len() >= MOST
    }

    /// Where in the stream the last buffer that waits for bytes ends.
    pub(crate) fn end(&self) -> Option<u64> {
        let last = self.buffers.back().filter(|_| self.wants())?;
        Some(last.buffer.from + u64::from(last.buffer.len))
    }

    pub(crate) fn push(&mut self, buffer: Buffer<M>) {
        self.is_lost = false;
        self.buffers.push_back(Posted {
            buffer,
            filled: 0,
            told: 0,
        });
    }

    /// Where the next byte goes, and how many of those that follow.
    pub(crate) fn next_place(&self) -> Option<(u64, u32)> {
        let Posted { buffer, filled, .. } = self.buffers.get(self.full)?;
        Some((buffer.addr + u64::from(*filled), buffer.len - filled))
    }

    /// So many bytes have come there; no more than [`next_place`](Self::next_place) has said.
    pub(crate) fn fill(&mut self, count: u32) {
        if let Some(posted) = self.buffers.get_mut(self.full) {
            posted.filled += count;
            self.full += usize::from(posted.filled == posted.buffer.len);
        }
    }

    /// Whether [`take`](Self::take) has something to tell, if nothing has ended.
    pub(crate) fn has_news(&self) -> bool {
        self.full > 0
            || (self.is_lost && !self.buffers.is_empty())
            || self
                .buffers
                .get(self.full)
                .is_some_and(|posted| posted.filled > posted.told)
    }

    /// Another process reads from now on.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Tells what is full, and what has come of at least `unit` bytes since it was last told. If nothing
    /// more comes, for the reason given or because the stream has ended, all of them go back.
    pub(crate) fn take(
        &mut self,
        unit: u32,
        over: Option<Option<Errno>>,
        mut tell: impl FnMut(Placed),
    ) {
        let over = if self.is_lost {
            Some(Some(Errno::STALE))
        } else {
            over
        };
        while (self.full > 0 || over.is_some())
            && let Some(posted) = self.buffers.pop_front()
        {
            let is_full = self.full > 0;
            self.full = self.full.saturating_sub(1);
            tell(Placed {
                key: posted.buffer.key,
                filled: posted.filled,
                is_back: true,
                is_full,
                error: over.flatten().filter(|_| !is_full),
            });
        }
        if let Some(posted) = self.buffers.front_mut()
            && posted.filled - posted.told >= unit.max(1)
        {
            posted.told = posted.filled;
            tell(Placed {
                key: posted.buffer.key,
                filled: posted.filled,
                is_back: false,
                is_full: false,
                error: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(lens: &[u32]) -> PostQueue<()> {
        let mut queue = PostQueue::default();
        for (key, len) in lens.iter().enumerate() {
            queue.push(Buffer {
                _memory: (),
                addr: 1000 * key as u64,
                len: *len,
                key: key as u64,
                from: queue.end().unwrap_or(70),
            });
        }
        queue
    }

    fn take(
        queue: &mut PostQueue<()>,
        unit: u32,
        over: Option<Option<Errno>>,
    ) -> Vec<(u64, u32, bool)> {
        let mut told = Vec::new();
        queue.take(unit, over, |placed| {
            told.push((placed.key, placed.filled, placed.is_back));
        });
        told
    }

    #[test]
    fn buffers_fill_from_their_front_in_their_order() {
        let mut queue = queue(&[10, 20]);
        assert_eq!(queue.end(), Some(100));
        assert_eq!(queue.next_place(), Some((0, 10)));
        queue.fill(4);
        assert_eq!(queue.next_place(), Some((4, 6)));
        assert_eq!(take(&mut queue, 5, None), []);
        assert!(queue.has_news());
        assert_eq!(take(&mut queue, 4, None), [(0, 4, false)]);
        assert!(!queue.has_news());
        queue.fill(6);
        queue.fill(1);
        assert_eq!(take(&mut queue, 0, None), [(0, 10, true), (1, 1, false)]);
        queue.fill(19);
        assert_eq!((queue.next_place(), queue.end()), (None, None));
        assert!(!queue.wants());
        assert_eq!(take(&mut queue, 0, None), [(1, 20, true)]);
    }

    #[test]
    fn at_the_end_all_go_back_and_say_why() {
        let mut queue = queue(&[10, 20, 30]);
        queue.fill(10);
        queue.fill(5);
        let mut told = Vec::new();
        queue.take(0, Some(Some(Errno::CONNRESET)), |placed| told.push(placed));
        let of = |key, filled, error| Placed {
            key,
            filled,
            is_back: true,
            is_full: key == 0,
            error,
        };
        let reset = Some(Errno::CONNRESET);
        // What is full was received before.
        let all = [of(0, 10, None), of(1, 5, reset), of(2, 0, reset)];
        assert_eq!(told, all);
        assert!(!queue.has_news() && !queue.wants());
    }

    #[test]
    fn what_another_process_reads_comes_back() {
        let mut queue = queue(&[10]);
        queue.fill(3);
        queue.lose();
        assert!(queue.has_news());
        let mut told = Vec::new();
        queue.take(0, None, |placed| told.push((placed.filled, placed.error)));
        assert_eq!(told, [(3, Some(Errno::STALE))]);
        assert!(!queue.has_news());
    }
}
