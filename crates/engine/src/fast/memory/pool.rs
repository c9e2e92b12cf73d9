//! A pool of receive chunks: those of a session's receive area, or the engine's own for data that
//! no process has been handed yet.

use queue_pair::{Area, RECEIVE_CHUNK};

use super::budget::Allowance;

/// Bytes of a chunk.
pub const CHUNK: u32 = RECEIVE_CHUNK;

/// Chunks of one area. What is given back last is taken first, while it is still in the cache.
#[derive(Debug)]
pub struct Pool {
    area: Area,
    /// Given back, to be taken again.
    free: Vec<u32>,
    /// Chunks from here on were never taken: their memory has not been touched.
    untouched: u32,
    chunks: u32,
    /// How many of the untouched ones may be taken, if that is limited.
    allowance: Option<Allowance>,
    /// Streams that may still ask for their first chunk, which each is kept one for.
    reserved: u32,
}

impl Pool {
    /// All of `area`.
    pub fn new(area: Area) -> Self {
        let chunks = u32::try_from(area.len() / u64::from(CHUNK)).unwrap_or(u32::MAX);
        Self {
            area,
            free: Vec::new(),
            untouched: 0,
            chunks,
            allowance: None,
            reserved: 0,
        }
    }

    /// All of `area`, as far as it may be touched.
    pub fn within(area: Area, allowance: Allowance) -> Self {
        Self {
            allowance: Some(allowance),
            ..Self::new(area)
        }
    }

    /// The memory itself.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// How many chunks nobody holds.
    pub fn available(&self) -> u32 {
        let allowed = self.allowance.as_ref().map_or(u32::MAX, Allowance::left);
        self.free.len() as u32 + (self.chunks - self.untouched).min(allowed)
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The largest window that a stream should be promised now, in bytes. Windows promise more than
    /// there is, but no single one more than a quarter of what is left, and when that is less than
    /// half of all, an eighth.
    pub fn window_limit(&self) -> u32 {
        let left = self.available().saturating_sub(self.reserved);
        if left >= self.chunks / 2 {
            return left.saturating_mul(CHUNK / 4);
        }
        left.saturating_mul(CHUNK / 8)
    }

    /// One stream more, or less, that holds no chunk: windows promise more than there is memory,
    /// but each stream can always get one chunk while there are no more streams than chunks.
    pub fn reserve(&mut self, stream_waits: bool) {
        if stream_waits {
            self.reserved += 1;
        } else {
            self.reserved = self.reserved.saturating_sub(1);
        }
    }

    /// A chunk for a stream; `first` if it holds none.
    pub fn take(&mut self, first: bool) -> Option<u32> {
        if !first && self.available() <= self.reserved {
            return None;
        }
        if let Some(chunk) = self.free.pop() {
            return Some(chunk);
        }
        let allowance = &mut self.allowance;
        if self.untouched == self.chunks || !allowance.as_mut().is_none_or(Allowance::take) {
            return None;
        }
        self.untouched += 1;
        Some(self.untouched - 1)
    }

    /// Gives `chunk` back.
    pub fn give_back(&mut self, chunk: u32) {
        debug_assert!(chunk < self.untouched, "never taken");
        self.free.push(chunk);
    }

    /// Where `chunk` begins in the area.
    pub fn offset(chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::memory::Budget;

    #[test]
    fn the_chunk_given_back_last_is_taken_first() {
        let mut pool = Pool::new(Area::private("test", 4 * CHUNK as usize));
        let a = pool.take(true).expect("free");
        let b = pool.take(true).expect("free");
        pool.give_back(a);
        assert_eq!(pool.available(), 3);
        assert_eq!(pool.take(true), Some(a));
        assert_ne!(a, b);
    }

    #[test]
    fn a_window_is_bounded_when_half_is_gone() {
        let mut pool = Pool::new(Area::private("test", 16 * CHUNK as usize));
        for _ in 0..8 {
            assert!(pool.take(true).is_some());
            let left = pool.available();
            let share = if left >= 8 { 4 } else { 8 };
            assert_eq!(pool.window_limit(), left * CHUNK / share);
        }
        assert!(pool.take(true).is_some());
        assert_eq!(pool.window_limit(), 7 * CHUNK / 8);
        pool.reserve(true);
        assert_eq!(
            pool.window_limit(),
            6 * CHUNK / 8,
            "what is kept is not to be had"
        );
    }

    #[test]
    fn what_may_not_be_touched_is_not_to_be_had() {
        let chunks = 600;
        let mut budget = Budget::of_bytes(u64::from(200 * CHUNK));
        let area = Area::private("test", chunks * CHUNK as usize);
        let mut pool = Pool::within(area, budget.allow(1000));
        let there = 256 + 100;
        assert_eq!(
            pool.available(),
            there,
            "half of the budget, and what is free"
        );
        let taken: Vec<u32> = (0..there).filter_map(|_| pool.take(true)).collect();
        assert_eq!(taken.len() as u32, there);
        assert_eq!((pool.take(true), pool.available()), (None, 0));
        pool.give_back(taken[0]);
        assert_eq!(pool.take(true), Some(taken[0]), "it is touched already");
    }

    #[test]
    fn a_stream_without_a_chunk_goes_before_one_that_has_some() {
        let mut pool = Pool::new(Area::private("test", 2 * CHUNK as usize));
        pool.reserve(true);
        assert!(pool.take(false).is_some());
        assert_eq!(pool.take(false), None, "the last one is kept");
        assert!(pool.take(true).is_some());
        assert_eq!(pool.take(true), None);
    }
}
