//! What the owner wants sent and the peer has not acknowledged: extents of the owner's memory, in
//! the order of the stream. The bytes themselves are never seen here.
//!
//! Positions are offsets in the stream since the connection opened, so they never wrap.
//!
//! ```text
//!        acknowledged          queued
//!  ------------------------|===============|
//!                          start           end
//! ```

use std::collections::VecDeque;

use crate::Extent;

/// Capacity that an empty queue may keep, so that small exchanges do not allocate each time and
/// idle connections hold little.
const KEPT_CAPACITY: usize = 4;

/// The most that is ever queued, in bytes: two places in the queue are told apart by the low bits of
/// their offsets. Windows are half of it at most.
pub(crate) const MOST_QUEUED: u64 = 1 << 31;

/// An extent, and where it ends.
#[derive(Clone, Copy)]
struct Piece {
    addr: u64,
    len: u32,
    /// The low bits of the offset after it.
    end: u32,
}

#[derive(Default)]
pub(crate) struct SendQueue {
    pieces: VecDeque<Piece>,
    /// Offset of the first byte that is not acknowledged.
    start: u64,
    /// Offset after the last byte.
    end: u64,
}

impl SendQueue {
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn extents(&self) -> usize {
        self.pieces.len()
    }

    /// Appends, up to [`MOST_QUEUED`]. An extent that begins where the last one ends only lengthens
    /// that.
    pub(crate) fn push(&mut self, extent: Extent) {
        self.end += u64::from(extent.len);
        let Extent { addr, len } = extent;
        let end = self.end as u32;
        if let Some(last) = self.pieces.back_mut()
            && last.addr + u64::from(last.len) == addr
            && let Some(len) = last.len.checked_add(len)
        {
            last.len = len;
            last.end = end;
            return;
        }
        self.pieces.push_back(Piece { addr, len, end });
    }

    /// Forgets everything before `offset`, which the peer has.
    pub(crate) fn acknowledge(&mut self, offset: u64) {
        if offset >= self.end {
            self.start = self.end;
            self.pieces.clear();
            if self.pieces.capacity() > KEPT_CAPACITY {
                self.pieces = VecDeque::new();
            }
            return;
        }
        let mut left = offset.saturating_sub(self.start);
        self.start += left;
        while let Some(first) = self.pieces.front_mut() {
            if u64::from(first.len) > left {
                // What is left is smaller than a u32.
                first.addr += left;
                first.len -= left as u32;
                break;
            }
            left -= u64::from(first.len);
            self.pieces.pop_front();
        }
    }

    /// Lets go of everything; what was acknowledged stays so. Nothing may follow.
    pub(crate) fn abandon(&mut self) {
        self.pieces = VecDeque::new();
        self.end = self.start;
    }

    /// What is queued, in the order of the stream.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> {
        let extent = |&Piece { addr, len, .. }: &Piece| Extent { addr, len };
        self.pieces.iter().map(extent)
    }

    /// A queue of which everything before `start` has been acknowledged.
    pub(crate) fn resume(start: u64, extents: &[Extent]) -> SendQueue {
        let mut queue = SendQueue {
            pieces: VecDeque::new(),
            start,
            end: start,
        };
        for &extent in extents {
            queue.push(extent);
        }
        queue
    }

    /// The piece with the byte at `offset`: the first, or else the one that a search among all finds, so
    /// that it costs the same whether new data leaves or what was lost, and in whatever turn.
    #[inline]
    fn find(&self, offset: u64) -> usize {
        let behind = (offset - self.start) as u32;
        match self.pieces.front() {
            Some(first) if behind < first.len => 0,
            _ => {
                let start = self.start as u32;
                let before = |piece: &Piece| piece.end.wrapping_sub(start) <= behind;
                self.pieces.partition_point(before)
            }
        }
    }

    /// Writes all pieces to `parts`.
    #[inline]
    pub(crate) fn all(&self, parts: &mut Vec<Extent>) {
        parts.clear();
        let (some, others) = self.pieces.as_slices();
        for &Piece { addr, len, .. } in some.iter().chain(others) {
            parts.push(Extent { addr, len });
        }
    }

    /// Writes the pieces of `offset .. offset + len` to `parts`, as many as it may hold. Returns
    /// how many bytes they have.
    pub(crate) fn slice(
        &self,
        offset: u64,
        len: usize,
        max_parts: usize,
        parts: &mut Vec<Extent>,
    ) -> usize {
        parts.clear();
        debug_assert!(offset >= self.start && offset + len as u64 <= self.end);
        let first = self.find(offset);
        let mut left = len;
        for piece in self.pieces.range(first..).take(max_parts) {
            if left == 0 {
                break;
            }
            // Only of the first one something may lie before.
            let from = (offset + (len - left) as u64) as u32;
            let rest = piece.end.wrapping_sub(from).min(piece.len);
            let take = (rest as usize).min(left);
            parts.push(Extent {
                addr: piece.addr + u64::from(piece.len - rest),
                len: take as u32,
            });
            left -= take;
        }
        len - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(addr: u64, len: u32) -> Extent {
        Extent { addr, len }
    }

    fn slice(q: &SendQueue, offset: u64, len: usize) -> Vec<Extent> {
        let mut parts = Vec::new();
        let n = q.slice(offset, len, 64, &mut parts);
        assert_eq!(n, len);
        parts
    }

    #[test]
    fn adjacent_extents_merge() {
        let mut q = SendQueue::default();
        q.push(e(100, 10));
        q.push(e(110, 5));
        q.push(e(200, 1));
        assert_eq!(q.extents(), 2);
        assert_eq!(slice(&q, 8, 8), [e(108, 7), e(200, 1)]);
    }

    #[test]
    fn acknowledging_cuts_the_head() {
        let mut q = SendQueue::default();
        q.push(e(100, 10));
        q.push(e(200, 10));
        q.push(e(300, 10));
        assert_eq!(slice(&q, 20, 10), [e(300, 10)]);
        q.acknowledge(15);
        assert_eq!(slice(&q, 15, 10), [e(205, 5), e(300, 5)]);
        assert_eq!(slice(&q, 25, 5), [e(305, 5)]);
        q.acknowledge(30);
        assert_eq!((q.len(), q.extents()), (0, 0));
        q.push(e(7, 3));
        assert_eq!(slice(&q, 30, 3), [e(7, 3)]);
    }

    #[test]
    fn every_piece_is_found() {
        // Every order of slicing and acknowledging gives what a plain byte map gives.
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let mut q = SendQueue::default();
            let mut map: Vec<u64> = Vec::new();
            let mut addr = 0;
            for _ in 0..60 {
                match next(4) {
                    0 | 1 => {
                        addr += next(2) * 100;
                        let len = 1 + next(20);
                        q.push(e(addr, len as u32));
                        map.extend(addr..addr + len);
                        addr += len;
                    }
                    2 => q.acknowledge(q.start() + next(q.len() + 1)),
                    _ => {
                        let offset = q.start() + next(q.len() + 1);
                        let len = next(q.end() - offset + 1);
                        let bytes: Vec<u64> = slice(&q, offset, len as usize)
                            .iter()
                            .flat_map(|x| x.addr..x.addr + u64::from(x.len))
                            .collect();
                        assert_eq!(bytes, map[offset as usize..(offset + len) as usize]);
                    }
                }
            }
        }
    }

    #[test]
    fn many_small_pieces_are_found_from_either_end_in_turn() {
        let mut q = SendQueue::default();
        // Beyond 2^32, where the low bits start over.
        let base = (1 << 32) - 40_000;
        (q.start, q.end) = (base, base);
        let pieces = 16_384;
        for i in 0..pieces {
            q.push(e(i * 10, 5));
        }
        for i in 0..pieces / 2 {
            let (near, far) = (i, pieces - 1 - i);
            assert_eq!(slice(&q, base + near * 5 + 1, 4), [e(near * 10 + 1, 4)]);
            assert_eq!(slice(&q, base + far * 5, 5), [e(far * 10, 5)]);
        }
        q.acknowledge(base + 8_001 * 5 + 2);
        assert_eq!(slice(&q, q.start(), 3), [e(80_012, 3)]);
        assert_eq!(slice(&q, q.end() - 2, 2), [e((pieces - 1) * 10 + 3, 2)]);
    }
}
