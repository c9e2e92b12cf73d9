//! The bytes of one connection that the engine has placed in the receive area and the program has
//! not read yet.
//!
//! The engine places payload wherever it has room and names each stretch once, in the order of the
//! stream. Reading copies the bytes out; how many were read in all goes back to the engine, which
//! then reuses their memory and opens the receive window by as much.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicU8;

use queue_pair::{Area, Violation};

/// A stretch of the receive area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    addr: u64,
    len: u32,
}

/// What of a connection's stream waits to be read.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    stretches: VecDeque<Stretch>,
    /// The sum of their lengths.
    waiting: u64,
    /// Bytes that the program has read since the connection began.
    consumed: u64,
    /// What the engine was last told of `consumed`.
    announced: u64,
    /// What is lent to the program, if anything is.
    lent: Option<Box<Loan>>,
}

/// What is lent of a connection's stream.
#[derive(Debug, Default)]
struct Loan {
    /// In the order of the stream and without a gap: the first piece begins at the first byte that is
    /// not consumed.
    pieces: VecDeque<Lent>,
    /// The sum of their lengths.
    bytes: u64,
}

/// A piece of the stream that the program looks at where it is.
#[derive(Clone, Copy, Debug)]
struct Lent {
    len: u32,
    is_back: bool,
}

impl ReceiveQueue {
    /// Takes note of `len` bytes more at `addr`.
    ///
    /// # Errors
    /// They are not inside the area.
    pub(crate) fn push(&mut self, area: &Area, addr: u64, len: u32) -> Result<(), Violation> {
        area.slice(addr, len as usize)?;
        self.waiting += u64::from(len);
        // Small segments are appended to the connection's last chunk, so this is the common case.
        if let Some(last) = self.stretches.back_mut()
            && last.addr + u64::from(last.len) == addr
            && let Some(joined) = last.len.checked_add(len)
        {
            last.len = joined;
            return Ok(());
        }
        self.stretches.push_back(Stretch { addr, len });
        Ok(())
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes read since the connection began.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes read of which the engine has not been told.
    pub(crate) fn unannounced(&self) -> u64 {
        self.consumed - self.announced
    }

    /// The engine has been told, or is about to be.
    pub(crate) fn announce(&mut self) -> u64 {
        self.announced = self.consumed;
        self.consumed
    }

    /// Copies bytes into `out`, beginning `skip` bytes after the next one. Returns how many there
    /// were; all of them stay in the queue.
    ///
    /// # Errors
    /// None that [`push`](Self::push) has not ruled out.
    pub(crate) fn copy(&self, area: &Area, skip: u64, out: &mut [u8]) -> Result<usize, Violation> {
        self.each(skip, out.len(), |addr, at| {
            area.copy_out(addr, &mut out[at])
        })
    }

    /// As [`copy`](Self::copy), into memory that others may write meanwhile.
    ///
    /// # Errors
    /// As for `copy`.
    pub(crate) fn copy_across(&self, area: &Area, out: &[AtomicU8]) -> Result<usize, Violation> {
        self.each(0, out.len(), |addr, at| {
            queue_pair::copy_across(&out[at.clone()], area.slice(addr, at.len())?);
            Ok(())
        })
    }

    /// Where the bytes lie in the area that are to fill `len` bytes, stretch by stretch, and where each stretch
    /// belongs in those.
    fn each(
        &self,
        mut skip: u64,
        len: usize,
        mut act: impl FnMut(u64, Range<usize>) -> Result<(), Violation>,
    ) -> Result<usize, Violation> {
        let mut filled = 0;
        for stretch in &self.stretches {
            if filled == len {
                break;
            }
            if skip >= u64::from(stretch.len) {
                skip -= u64::from(stretch.len);
                continue;
            }
            let piece = (stretch.len as usize - skip as usize).min(len - filled);
            act(stretch.addr + skip, filled..filled + piece)?;
            filled += piece;
            skip = 0;
        }
        Ok(filled)
    }

    /// Takes up to `limit` of the next bytes out: they were copied, or nobody wants them. Returns
    /// how many there were.
    pub(crate) fn take(&mut self, limit: u64) -> u64 {
        let mut dropped = 0;
        while let Some(stretch) = self.stretches.front_mut()
            && dropped < limit
        {
            let len = u64::from(stretch.len).min(limit - dropped);
            dropped += len;
            if len == u64::from(stretch.len) {
                self.stretches.pop_front();
            } else {
                stretch.addr += len;
                stretch.len -= len as u32;
            }
        }
        self.waiting -= dropped;
        self.consumed += dropped;
        dropped
    }

    /// The next `count` bytes are elsewhere, and were taken there. Nothing waits.
    pub(crate) fn skip(&mut self, count: u64) {
        debug_assert!(self.stretches.is_empty(), "something waits before them");
        self.consumed += count;
    }

    /// Lends the next piece of one stretch that is not lent yet, at most `limit` bytes of it: its
    /// address, its length and where in the stream it begins.
    pub(crate) fn lend(&mut self, limit: u64) -> Option<(u64, u32, u64)> {
        let lent = self.lent();
        let mut skip = lent;
        let stretch = self.stretches.iter().find(|stretch| {
            let whole = skip >= u64::from(stretch.len);
            if whole {
                skip -= u64::from(stretch.len);
            }
            !whole
        })?;
        let len = u64::from(stretch.len).saturating_sub(skip).min(limit) as u32;
        if len == 0 {
            return None;
        }
        let place = (stretch.addr + skip, len, self.consumed + lent);
        let loan = self.lent.get_or_insert_default();
        loan.bytes += u64::from(len);
        loan.pieces.push_back(Lent {
            len,
            is_back: false,
        });
        Some(place)
    }

    /// The piece that begins at `at` is not looked at any more. Returns how many bytes from
    /// [`consumed`](Self::consumed) on are to be [taken](Self::take) for it; `None`: it is not lent.
    pub(crate) fn take_back(&mut self, at: u64, len: u32) -> Option<u64> {
        let mut begin = self.consumed;
        let loan = self.lent.as_deref_mut()?;
        let piece = loan.pieces.iter_mut().find(|piece| {
            let found = begin == at && piece.len == len && !piece.is_back;
            begin += u64::from(piece.len);
            found
        })?;
        piece.is_back = true;
        let mut free = 0;
        while let Some(piece) = loan.pieces.front()
            && piece.is_back
        {
            free += u64::from(piece.len);
            loan.pieces.pop_front();
        }
        loan.bytes -= free;
        Some(free)
    }

    /// Bytes that are lent.
    pub(crate) fn lent(&self) -> u64 {
        self.lent.as_ref().map_or(0, |loan| loan.bytes)
    }

    /// Nobody will read what waits: the connection is closed here.
    pub(crate) fn abandon(&mut self) {
        self.stretches.clear();
        self.waiting = 0;
        self.lent = None;
    }

    /// What waits is another process's to read, and the engine knows how far this one has come.
    pub(crate) fn forget(&mut self) {
        self.abandon();
        self.announced = self.consumed;
    }

    /// The queue of a connection that this process reads after `consumed` bytes were read, by whomever.
    pub(crate) fn resumed_at(consumed: u64) -> Self {
        Self {
            consumed,
            announced: consumed,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> Area {
        let area = Area::private("receive", 8192);
        let bytes: Vec<u8> = (0..8192).map(|i| (i % 251) as u8).collect();
        area.copy_in(0, &bytes).unwrap();
        area
    }

    #[test]
    fn adjacent_stretches_read_as_one_and_apart_ones_in_order() {
        let area = area();
        let mut queue = ReceiveQueue::default();
        queue.push(&area, 100, 10).unwrap();
        queue.push(&area, 110, 5).unwrap();
        queue.push(&area, 4096, 5).unwrap();
        assert_eq!(queue.stretches.len(), 2);
        let mut out = [0; 32];
        assert_eq!(queue.copy(&area, 0, &mut out).unwrap(), 20);
        assert_eq!(out[..15], (100..115).collect::<Vec<u8>>());
        assert_eq!(out[15], (4096 % 251) as u8);
        assert_eq!((queue.waiting(), queue.unannounced()), (20, 0));
        assert_eq!(queue.copy(&area, 14, &mut out[..3]).unwrap(), 3);
        assert_eq!(out[..3], [114, (4096 % 251) as u8, (4097 % 251) as u8]);
        assert_eq!(queue.take(12), 12);
        assert_eq!(queue.copy(&area, 0, &mut out[..12]).unwrap(), 8);
        assert_eq!(out[..3], [112, 113, 114]);
        assert_eq!(queue.take(100), 8);
        assert_eq!((queue.waiting(), queue.unannounced()), (0, 20));
        assert_eq!(queue.announce(), 20);
        assert_eq!(queue.unannounced(), 0);
    }

    #[test]
    fn what_is_taken_counts_as_consumed() {
        let area = area();
        let mut queue = ReceiveQueue::default();
        queue.push(&area, 0, 100).unwrap();
        queue.push(&area, 200, 100).unwrap();
        assert_eq!(queue.take(150), 150);
        let mut out = [0; 1];
        queue.copy(&area, 0, &mut out).unwrap();
        assert_eq!(out[0], 250);
        assert_eq!(queue.take(1000), 50);
        assert_eq!(queue.consumed(), 200);
    }

    #[test]
    fn what_is_lent_comes_back_in_any_order() {
        let area = area();
        let mut queue = ReceiveQueue::default();
        queue.push(&area, 0, 100).unwrap();
        queue.push(&area, 200, 100).unwrap();
        assert_eq!(queue.lend(60), Some((0, 60, 0)));
        // A piece never spans two stretches.
        assert_eq!(queue.lend(1000), Some((60, 40, 60)));
        assert_eq!(queue.lend(0), None);
        assert_eq!(queue.lend(50), Some((200, 50, 100)));
        assert_eq!((queue.lent(), queue.waiting()), (150, 200));
        // What is not lent, or has come back, cannot come back.
        assert_eq!(queue.take_back(60, 39), None);
        assert_eq!(queue.take_back(61, 40), None);
        assert_eq!(queue.take_back(100, 50), Some(0));
        assert_eq!(queue.take_back(100, 50), None);
        assert_eq!(queue.take_back(0, 60), Some(60));
        queue.take(60);
        // Where the rest is did not change.
        assert_eq!(queue.take_back(60, 40), Some(90));
        queue.take(90);
        assert_eq!((queue.lent(), queue.waiting()), (0, 50));
        assert_eq!(queue.lend(1000), Some((250, 50, 150)));
        assert_eq!(queue.lend(1000), None);
        queue.abandon();
        assert_eq!((queue.lent(), queue.take_back(150, 50)), (0, None));
    }

    #[test]
    fn a_stretch_outside_of_the_area_is_refused() {
        let area = area();
        let mut queue = ReceiveQueue::default();
        assert!(queue.push(&area, 8000, 193).is_err());
        assert!(queue.push(&area, u64::MAX, 1).is_err());
        assert_eq!(queue.waiting(), 0);
    }
}
