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

#[derive(Default)]
pub(crate) struct SendQueue {
    extents: VecDeque<Extent>,
    /// Offset of the first byte that is not acknowledged.
    start: u64,
    /// Offset after the last byte.
    end: u64,
    /// An extent in the middle and how far behind `start` it begins, so that new data is found
    /// without walking over what is in flight.
    hint_index: u32,
    hint_at: u32,
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
        self.extents.len()
    }

    /// Appends. An extent that begins where the last one ends only lengthens that.
    pub(crate) fn push(&mut self, extent: Extent) {
        self.end += u64::from(extent.len);
        if let Some(last) = self.extents.back_mut()
            && last.addr + u64::from(last.len) == extent.addr
            && let Some(len) = last.len.checked_add(extent.len)
        {
            last.len = len;
            return;
        }
        if self.extents.is_empty() {
            (self.hint_index, self.hint_at) = (0, 0);
        }
        self.extents.push_back(extent);
    }

    /// Forgets everything before `offset`, which the peer has.
    pub(crate) fn acknowledge(&mut self, offset: u64) {
        let mut left = offset.min(self.end).saturating_sub(self.start);
        self.start += left;
        self.hint_at = u64::from(self.hint_at).saturating_sub(left) as u32;
        while let Some(first) = self.extents.front_mut() {
            if u64::from(first.len) > left {
                // What is left is smaller than a u32.
                first.addr += left;
                first.len -= left as u32;
                break;
            }
            left -= u64::from(first.len);
            self.extents.pop_front();
            self.hint_index = self.hint_index.saturating_sub(1);
        }
        // The head may have been cut, and the hint may have named it.
        if self.hint_index == 0 {
            self.hint_at = 0;
        }
        if self.extents.is_empty() && self.extents.capacity() > KEPT_CAPACITY {
            self.extents = VecDeque::new();
        }
    }

    /// Lets go of everything; what was acknowledged stays so. Nothing may follow.
    pub(crate) fn abandon(&mut self) {
        self.extents = VecDeque::new();
        self.end = self.start;
        (self.hint_index, self.hint_at) = (0, 0);
    }

    /// Writes the pieces of `offset .. offset + len` to `parts`, as many as it may hold. Returns
    /// how many bytes they have.
    pub(crate) fn slice(
        &mut self,
        offset: u64,
        len: usize,
        max_parts: usize,
        parts: &mut Vec<Extent>,
    ) -> usize {
        parts.clear();
        debug_assert!(offset >= self.start && offset + len as u64 <= self.end);
        let hint = self.start + u64::from(self.hint_at);
        let (mut index, mut at) = if offset >= hint {
            (self.hint_index as usize, hint)
        } else {
            (0, self.start)
        };
        let mut left = len;
        while left > 0 && parts.len() < max_parts {
            let Some(extent) = self.extents.get(index) else {
                break;
            };
            let end = at + u64::from(extent.len);
            let from = offset + (len - left) as u64;
            if from < end {
                let skip = from - at;
                let take = ((end - from) as usize).min(left);
                parts.push(Extent {
                    addr: extent.addr + skip,
                    len: take as u32,
                });
                left -= take;
                // Nothing that far behind is ever in flight.
                if let Ok(hint_at) = u32::try_from(at - self.start) {
                    (self.hint_index, self.hint_at) = (index as u32, hint_at);
                }
            }
            at = end;
            index += 1;
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

    fn slice(q: &mut SendQueue, offset: u64, len: usize) -> Vec<Extent> {
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
        assert_eq!(slice(&mut q, 8, 8), [e(108, 7), e(200, 1)]);
    }

    #[test]
    fn acknowledging_cuts_the_head() {
        let mut q = SendQueue::default();
        q.push(e(100, 10));
        q.push(e(200, 10));
        q.push(e(300, 10));
        assert_eq!(slice(&mut q, 20, 10), [e(300, 10)]);
        q.acknowledge(15);
        assert_eq!(slice(&mut q, 15, 10), [e(205, 5), e(300, 5)]);
        assert_eq!(slice(&mut q, 25, 5), [e(305, 5)]);
        q.acknowledge(30);
        assert_eq!((q.len(), q.extents()), (0, 0));
        q.push(e(7, 3));
        assert_eq!(slice(&mut q, 30, 3), [e(7, 3)]);
    }

    #[test]
    fn the_hint_never_lies() {
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
                        let bytes: Vec<u64> = slice(&mut q, offset, len as usize)
                            .iter()
                            .flat_map(|x| x.addr..x.addr + u64::from(x.len))
                            .collect();
                        assert_eq!(bytes, map[offset as usize..(offset + len) as usize]);
                    }
                }
            }
        }
    }
}
