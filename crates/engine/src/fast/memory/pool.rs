//! A pool of receive chunks: those of a session's receive area, or the engine's own for data that
//! no process has been handed yet.

use queue_pair::Area;

use super::budget::{Allowance, CHUNK};
use crate::fast::accounts::{AccountId, Accounts};

/// Free chunks that a pool keeps the memory of, so that little that comes and goes asks for none: 256 KiB, unless
/// less than that is free of charge.
const KEPT: u32 = 64;
/// Chunks that are given back at a time.
const AT_ONCE: u32 = 2048;

/// Whose the chunks are of a pool that several users share: who listens and never accepts would have all of them.
#[derive(Debug)]
struct Shared {
    /// Chunks that are taken, and streams that wait for their first.
    accounts: Accounts,
    /// On which what is done now is.
    current: AccountId,
    /// How often a chunk was wanted and there was none.
    refused: u64,
}

/// Chunks of one area. What is given back last is taken first, while it is still in the cache.
#[derive(Debug)]
pub struct Pool {
    area: Area,
    /// Given back, to be taken again.
    free: Vec<u32>,
    /// The fewest of them that there were since that was last looked at.
    least_free: u32,
    /// Those whose memory the machine has got back.
    given: Vec<u32>,
    /// Of how many free ones it keeps the memory.
    kept: u32,
    /// Chunks from here on were never taken: their memory has not been touched.
    untouched: u32,
    chunks: u32,
    /// How many of the untouched ones may be taken, if that is limited.
    allowance: Option<Allowance>,
    /// Whose chunks they are, where several users share them.
    shared: Option<Shared>,
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
            least_free: 0,
            given: Vec::new(),
            kept: KEPT,
            untouched: 0,
            chunks,
            allowance: None,
            shared: None,
            reserved: 0,
        }
    }

    /// All of `area`, as far as it may be touched.
    pub fn within(area: Area, allowance: Allowance) -> Self {
        Self {
            // Who does nothing is charged for nothing.
            kept: KEPT.min(allowance.free()),
            allowance: Some(allowance),
            ..Self::new(area)
        }
    }

    /// All of `area`, of which several users have a share each.
    pub fn shared(area: Area) -> Self {
        let mut pool = Self::new(area);
        pool.shared = Some(Shared {
            accounts: Accounts::of_total(pool.chunks),
            current: 0,
            refused: 0,
        });
        pool
    }

    /// The account of one of its users.
    pub fn account_of(&mut self, uid: u32) -> AccountId {
        let shared = self.shared.as_mut();
        shared.map_or(0, |shared| shared.accounts.open(uid))
    }

    /// What is done next is on this account of its users'.
    #[inline]
    pub fn turn_to(&mut self, account: AccountId) {
        if let Some(shared) = &mut self.shared {
            shared.current = account;
        }
    }

    /// Whether others of its users may be asked for room for this one.
    pub fn has_little(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.accounts.has_little(shared.current))
    }

    /// How often one of its users wanted a chunk and there was none for it.
    pub fn refused(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.refused)
    }

    /// The memory itself.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// How many chunks nobody holds that may be taken.
    pub fn available(&self) -> u32 {
        let shared = self.shared.as_ref();
        let share = shared.map(|shared| shared.accounts.left(shared.current));
        self.unused().min(share.unwrap_or(u32::MAX))
    }

    /// How many chunks nobody holds, whosever they may become.
    pub fn unused(&self) -> u32 {
        let allowed = self.allowance.as_ref().map_or(u32::MAX, Allowance::left);
        self.free.len() as u32 + self.without_memory().min(allowed)
    }

    /// How many chunks have no memory.
    fn without_memory(&self) -> u32 {
        self.chunks - self.held()
    }

    /// How many chunks have memory, in use or not.
    pub fn held(&self) -> u32 {
        self.untouched - self.given.len() as u32
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The largest window that a stream should be promised now, in bytes. Windows promise more than
    /// there is, but no single one more than a quarter of what is left, and when that is less than
    /// half of all, an eighth.
    pub fn window_limit(&self) -> u32 {
        let left = self.available().saturating_sub(self.reserved());
        if left >= self.chunks / 2 {
            return left.saturating_mul(CHUNK / 4);
        }
        left.saturating_mul(CHUNK / 8)
    }

    /// One stream more, or less, that holds no chunk: windows promise more than there is memory,
    /// but each stream can always get one chunk while there are no more streams than chunks.
    pub fn reserve(&mut self, stream_waits: bool) {
        let reserved = self.reserved();
        let reserved = match stream_waits {
            true => reserved + 1,
            false => reserved.saturating_sub(1),
        };
        match &mut self.shared {
            Some(shared) => shared.accounts.set_waiting(shared.current, reserved),
            None => self.reserved = reserved,
        }
    }

    /// For how many streams a chunk each is kept.
    fn reserved(&self) -> u32 {
        let shared = self.shared.as_ref();
        shared.map_or(self.reserved, |shared| {
            shared.accounts.waiting(shared.current)
        })
    }

    /// A chunk for a stream; `first` if it holds none.
    pub fn take(&mut self, first: bool) -> Option<u32> {
        let kept = if first { 0 } else { self.reserved() };
        let is_there = self.available() > kept || first && self.shared.is_none();
        let chunk = if is_there { self.take_one() } else { None };
        if let Some(shared) = &mut self.shared {
            match chunk {
                Some(_) => shared.accounts.take(shared.current),
                None => shared.refused += 1,
            }
        }
        chunk
    }

    fn take_one(&mut self) -> Option<u32> {
        if let Some(chunk) = self.free.pop() {
            self.least_free = self.least_free.min(self.free.len() as u32);
            return Some(chunk);
        }
        let none = self.given.is_empty() && self.untouched == self.chunks;
        if none || !self.allowance.as_mut().is_none_or(Allowance::take) {
            return None;
        }
        if let Some(chunk) = self.given.pop() {
            return Some(chunk);
        }
        self.untouched += 1;
        Some(self.untouched - 1)
    }

    /// Gives `chunk` back.
    pub fn give_back(&mut self, chunk: u32) {
        debug_assert!(chunk < self.untouched, "never taken");
        if let Some(shared) = &mut self.shared {
            shared.accounts.give(shared.current);
        }
        self.free.push(chunk);
    }

    /// Whether it has more free chunks than it keeps.
    pub fn has_spare(&self) -> bool {
        self.free.len() > self.kept as usize
    }

    /// Takes out chunks whose memory can go: those beyond what is kept that were free all the time
    /// since this was last asked, or, in a `hurry`, that are free now; the longest unused ones, and not too
    /// many at a time. Nobody gets them until they [come back](Self::reclaimed).
    pub fn take_spare(&mut self, hurry: bool) -> Vec<u32> {
        let now = self.free.len() as u32;
        let least = if hurry { now } else { self.least_free };
        let spare = least.saturating_sub(self.kept).min(AT_ONCE);
        let chunks: Vec<u32> = self.free.drain(..spare as usize).collect();
        self.least_free = now - spare;
        chunks
    }

    /// Chunks that were [taken out](Self::take_spare) are back. `given`: without their memory.
    pub fn reclaimed(&mut self, chunks: &[u32], given: bool) {
        if !given {
            self.free.splice(..0, chunks.iter().copied());
            return;
        }
        // The lowest is taken first, so that neighbours lie side by side again.
        self.given.extend(chunks.iter().rev());
        if let Some(allowance) = &mut self.allowance {
            allowance.give(chunks.len() as u32);
        }
    }

    /// The session of the pool holds so many bytes to send from.
    pub fn sends_from(&mut self, bytes: u64) {
        if let Some(allowance) = &mut self.allowance {
            allowance.sends_from(bytes);
        }
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
        let there = 256 + 87;
        assert_eq!(
            pool.available(),
            there,
            "half of the budget but for root's, and what is free"
        );
        let taken: Vec<u32> = (0..there).filter_map(|_| pool.take(true)).collect();
        assert_eq!(taken.len() as u32, there);
        assert_eq!((pool.take(true), pool.available()), (None, 0));
        pool.give_back(taken[0]);
        assert_eq!(pool.take(true), Some(taken[0]), "it is touched already");
    }

    #[test]
    fn what_was_free_all_the_time_can_go_and_comes_again() {
        let chunks = 400;
        let mut budget = Budget::of_bytes(u64::from(1_000 * CHUNK));
        let area = Area::private("test", chunks * CHUNK as usize);
        let mut pool = Pool::within(area, budget.allow(1000));
        let all = pool.available();
        let mut taken: Vec<u32> = (0..300).filter_map(|_| pool.take(true)).collect();
        assert_eq!((taken.len(), pool.held()), (300, 300));
        assert!(pool.take_spare(true).is_empty(), "nothing is free");
        for chunk in taken.drain(100..) {
            pool.give_back(chunk);
        }
        assert!(pool.has_spare());
        assert!(pool.take_spare(false).is_empty(), "it was in use until now");
        // Of the 200 that are free, 50 are needed now and then.
        let now_and_then: Vec<u32> = (0..50).filter_map(|_| pool.take(true)).collect();
        for chunk in now_and_then {
            pool.give_back(chunk);
        }
        let spare = pool.take_spare(false);
        assert_eq!(spare.len() as u32, 150 - KEPT);
        assert_eq!(pool.available(), all - 100 - spare.len() as u32);
        pool.reclaimed(&spare, false);
        assert_eq!((pool.available(), pool.held()), (all - 100, 300));
        let again = pool.take_spare(true);
        assert_eq!(again.len() as u32, 200 - KEPT);
        assert_eq!(again[..spare.len()], spare, "the longest unused first");
        pool.reclaimed(&again, true);
        assert_eq!((pool.available(), pool.held()), (all - 100, 100 + KEPT));
        assert!(!pool.has_spare());
        // All of them can be had, each once.
        taken.extend((0..300).map_while(|_| pool.take(true)));
        assert_eq!(taken.len(), 400);
        taken.sort_unstable();
        taken.dedup();
        assert_eq!((taken.len(), pool.held()), (400, 400));
    }

    /// As on a small machine with many sessions.
    #[test]
    fn who_uses_nothing_is_charged_for_nothing_however_little_is_free() {
        let free = 4;
        let mut budget = Budget::of_bytes(u64::from(1_000 * CHUNK));
        budget.guarantee(u64::from(free * CHUNK));
        let allow = |budget: &mut Budget| {
            let area = Area::private("test", 400 * CHUNK as usize);
            Pool::within(area, budget.allow(1000))
        };
        let mut pool = allow(&mut budget);
        let there = pool.available();
        let taken: Vec<u32> = (0..KEPT).filter_map(|_| pool.take(true)).collect();
        assert_eq!(taken.len() as u32, KEPT);
        for chunk in taken {
            pool.give_back(chunk);
        }
        assert!(pool.has_spare());
        let spare = pool.take_spare(true);
        pool.reclaimed(&spare, true);
        assert_eq!(pool.held(), free);
        assert!(!pool.has_spare());
        assert_eq!(allow(&mut budget).available(), there, "nothing is charged");
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
