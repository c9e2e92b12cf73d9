//! A queue instead of a wire: what is put in at one end of a turn comes out in the next one.
//!
//! Two batches of frames take turns: one is filled while the other is emptied, so that whoever
//! answers what he is handed never goes on without end. Frames lie one behind the other in memory that
//! was taken when the queue was made; a queue that is full says so, and nothing is lost in it.

use wire::ethernet::MacAddr;

/// The hardware address of both ends, as on Linux's `lo`: nobody on a wire has it.
pub const MAC: MacAddr = MacAddr([0; 6]);

/// Frames in a batch.
const FRAMES: usize = 256;
/// Bytes of a batch: several of the largest frames, and no more than a turn gets through soon.
const BYTES: usize = 512 * 1024;

/// The queue.
#[derive(Debug)]
pub struct Loopback {
    filling: Batch,
    emptying: Batch,
}

#[derive(Debug)]
struct Batch {
    bytes: Box<[u8]>,
    /// Where each frame ends and the next begins.
    ends: Vec<usize>,
    /// Frames that were taken out.
    taken: usize,
}

impl Batch {
    fn new() -> Self {
        Self {
            bytes: vec![0; BYTES].into_boxed_slice(),
            ends: Vec::with_capacity(FRAMES),
            taken: 0,
        }
    }

    fn used(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn is_empty(&self) -> bool {
        self.taken == self.ends.len()
    }

    /// The next frame.
    fn take(&mut self) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        let start = match self.taken {
            0 => 0,
            after => self.ends[after - 1],
        };
        self.taken += 1;
        self.bytes.get(start..end)
    }
}

impl Default for Loopback {
    fn default() -> Self {
        Self {
            filling: Batch::new(),
            emptying: Batch::new(),
        }
    }
}

impl Loopback {
    /// Room for a frame of `len` bytes, with unspecified contents, until [`submit`](Self::submit).
    /// `None`: the queue is full, and has room again after the next [`receive`](Self::receive) that
    /// empties a batch.
    pub fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let batch = &mut self.filling;
        if batch.ends.len() == FRAMES {
            return None;
        }
        let start = batch.used();
        batch.bytes.get_mut(start..start.checked_add(len)?)
    }

    /// Puts the first `len` bytes of what [`frame`](Self::frame) last returned into the queue.
    ///
    /// # Panics
    /// If there was no such room: that is the caller's mistake.
    pub fn submit(&mut self, len: usize) {
        let batch = &mut self.filling;
        let end = batch.used() + len;
        assert!(
            end <= batch.bytes.len() && batch.ends.len() < FRAMES,
            "no room was given"
        );
        batch.ends.push(end);
    }

    /// Hands out frames in their order, at most those that were put in before the call; how many.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        if self.emptying.is_empty() {
            core::mem::swap(&mut self.filling, &mut self.emptying);
            self.filling.ends.clear();
            self.filling.taken = 0;
        }
        let mut count = 0;
        while let Some(frame) = self.emptying.take() {
            each(frame);
            count += 1;
        }
        count
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.filling.is_empty() && self.emptying.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(queue: &mut Loopback, byte: u8, len: usize) -> bool {
        let Some(frame) = queue.frame(len) else {
            return false;
        };
        frame.fill(byte);
        queue.submit(len);
        true
    }

    #[test]
    fn frames_come_out_whole_and_in_order() {
        let mut queue = Loopback::default();
        assert_eq!(queue.receive(|_| unreachable!("nothing is in it")), 0);
        for round in 0..3 {
            assert!(queue.is_empty());
            for (byte, len) in [(1, 60), (2, 65_549), (3, 1)] {
                assert!(put(&mut queue, byte + round, len));
            }
            let mut seen = Vec::new();
            let count = queue.receive(|frame| seen.push((frame[0], frame.len())));
            assert_eq!(count, 3);
            assert_eq!(seen, [(1 + round, 60), (2 + round, 65_549), (3 + round, 1)]);
        }
    }

    #[test]
    fn what_is_full_says_so_and_has_room_again() {
        let mut queue = Loopback::default();
        let large = (0..).take_while(|_| put(&mut queue, 7, 65_549)).count();
        assert_eq!(large, BYTES / 65_549);
        // A smaller one may still fit.
        assert!(put(&mut queue, 8, 60));
        assert_eq!(queue.receive(|_| {}), large + 1);
        let small = (0..).take_while(|_| put(&mut queue, 7, 60)).count();
        assert_eq!(small, FRAMES);
        assert!(!queue.is_empty());
        assert_eq!(queue.receive(|_| {}), FRAMES);
        assert!(queue.is_empty());
    }
}
