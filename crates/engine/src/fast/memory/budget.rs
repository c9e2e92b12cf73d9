//! How much memory hosts may make the engine touch, by user.
//!
//! A region's pages come when they are first touched, and count as the toucher's: receive memory is the
//! engine's in the eyes of the kernel. A pool takes chunks that were used before first; what it touches
//! anew is charged to its session's user, and given back when the session's memory is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::pool::CHUNK;
use crate::config::shares;

/// What each pool may touch in any case, in chunks: 1 MiB.
const FREE: u32 = (1 << 20) / CHUNK;

/// The same of what a session sends from, which counts once it is held.
const SENT_FREE: u64 = (1 << 20) / CHUNK as u64;

/// Chunks that are left, and how often one was wanted and none was.
///
/// The counts belong to one worker. They are atomics because its pools share them and move with it
/// between threads, not because anybody races for them.
#[derive(Debug, Default)]
struct Left {
    chunks: AtomicU32,
    refused: AtomicU64,
}

impl Left {
    fn of(chunks: u32) -> Arc<Self> {
        Arc::new(Self {
            chunks: AtomicU32::new(chunks),
            refused: AtomicU64::new(0),
        })
    }

    fn get(&self) -> u32 {
        self.chunks.load(Ordering::Relaxed)
    }

    fn set(&self, chunks: u32) {
        self.chunks.store(chunks, Ordering::Relaxed);
    }
}

/// What all users may touch.
#[derive(Debug)]
pub struct Budget {
    total: u32,
    all: Arc<Left>,
    /// Of all users but root.
    others: Arc<Left>,
    users: HashMap<u32, Arc<Left>>,
}

/// What one pool may touch.
#[derive(Debug)]
pub struct Allowance {
    /// Whom a chunk is charged to: all, and, unless it is root's, the others and the user.
    payers: Vec<Arc<Left>>,
    charged: u32,
    free: u32,
    /// Charged for what the session holds beside the pool.
    beside: u32,
}

impl Budget {
    /// Of so many bytes; of half of them one user has at most, and an eighth is root's.
    pub fn of_bytes(bytes: u64) -> Self {
        let total = u32::try_from(bytes / u64::from(CHUNK)).unwrap_or(u32::MAX);
        let roots = total / shares::ROOTS_SHARE as u32;
        Self {
            total,
            all: Left::of(total),
            others: Left::of(total - roots),
            users: HashMap::new(),
        }
    }

    /// That of a pool of a user's session.
    pub fn allow(&mut self, uid: u32) -> Allowance {
        let mut payers = vec![Arc::clone(&self.all)];
        if uid != shares::ROOT {
            // Those whose pools are gone have all that they may have.
            self.users.retain(|_, left| Arc::strong_count(left) > 1);
            let half = self.total / 2;
            let of_user = self.users.entry(uid).or_insert_with(|| Left::of(half));
            payers.extend([Arc::clone(&self.others), Arc::clone(of_user)]);
        }
        Allowance {
            payers,
            charged: 0,
            free: FREE,
            beside: 0,
        }
    }

    /// Whether little is left, to all or to some user: a sixteenth.
    pub fn is_short(&self) -> bool {
        let least = self.total / 16;
        let users = self.users.values();
        let mut left = users.chain([&self.all, &self.others]);
        left.any(|left| left.get() < least)
    }

    /// How often a chunk was wanted that nobody could be charged for.
    pub fn refused(&self) -> u64 {
        self.all.refused.load(Ordering::Relaxed)
    }
}

impl Allowance {
    /// How many chunks may be touched for the first time.
    pub fn left(&self) -> u32 {
        let left = self.payers.iter().map(|payer| payer.get()).min();
        self.free.saturating_add(left.unwrap_or(u32::MAX))
    }

    /// One is; false if that is too many.
    pub fn take(&mut self) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        if self.left() == 0 {
            if let Some(all) = self.payers.first() {
                all.refused.fetch_add(1, Ordering::Relaxed);
            }
            return false;
        }
        self.charge(1);
        self.charged += 1;
        true
    }

    /// So many of those that were [taken](Self::take) are given back to the machine.
    pub fn give(&mut self, chunks: u32) {
        let charged = chunks.min(self.charged);
        self.refund(charged);
        self.charged -= charged;
        self.free += chunks - charged;
    }

    /// The session holds so many bytes to send from, of which 1 MiB is free. They are there, whatever the
    /// budget says: what it has not left is not charged, so that one user's are never more than its half.
    pub fn sends_from(&mut self, bytes: u64) {
        self.refund(self.beside);
        self.beside = 0;
        let left = self.payers.iter().map(|payer| payer.get()).min();
        let chunks = (bytes / u64::from(CHUNK)).saturating_sub(SENT_FREE);
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.beside = chunks.min(left.unwrap_or(0));
        self.charge(self.beside);
    }

    fn charge(&self, chunks: u32) {
        for payer in &self.payers {
            payer.set(payer.get() - chunks);
        }
    }

    fn refund(&self, chunks: u32) {
        for payer in &self.payers {
            payer.set(payer.get() + chunks);
        }
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.refund(self.charged + self.beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks in the budget of the tests, beside those that are free.
    const TOTAL: u32 = 800;

    fn budget() -> Budget {
        Budget::of_bytes(u64::from(TOTAL * CHUNK))
    }

    /// Takes all that there is beside what is free.
    fn exhaust(allowance: &mut Allowance) -> u32 {
        let (left, free) = (allowance.left(), allowance.free);
        let mut taken = 0;
        while allowance.take() {
            taken += 1;
        }
        assert_eq!(taken, left);
        taken - free
    }

    #[test]
    fn one_user_has_half_and_root_what_others_leave() {
        let mut budget = budget();
        let mut first = budget.allow(1000);
        let mut again = budget.allow(1000);
        assert_eq!(exhaust(&mut first), TOTAL / 2);
        assert_eq!(exhaust(&mut again), 0, "the user's, however many pools");
        let mut second = budget.allow(1001);
        assert_eq!(exhaust(&mut second), TOTAL * 3 / 8);
        let mut third = budget.allow(1002);
        assert_eq!(exhaust(&mut third), 0);
        assert_eq!(budget.refused(), 4);
        let mut roots = budget.allow(shares::ROOT);
        assert_eq!(exhaust(&mut roots), TOTAL / 8);

        drop(first);
        assert_eq!(exhaust(&mut third), TOTAL / 2, "it came back");
    }

    #[test]
    fn what_is_given_back_is_there_for_others() {
        let mut budget = budget();
        let mut first = budget.allow(1000);
        let mut again = budget.allow(1000);
        assert!(!budget.is_short());
        assert_eq!(exhaust(&mut first), TOTAL / 2);
        assert!(budget.is_short(), "for one user");
        first.give(TOTAL / 16);
        assert!(!budget.is_short());
        assert_eq!(exhaust(&mut again), TOTAL / 16);
        drop(again);
        let mut again = budget.allow(1000);
        assert_eq!(exhaust(&mut again), TOTAL / 16);
        first.give(30);
        assert_eq!(exhaust(&mut again), 30, "what was charged is first");
        first.give(first.charged + FREE);
        assert_eq!(first.left(), FREE + TOTAL / 2 - again.charged);
        drop(first);
        drop(again);
        assert_eq!(budget.allow(shares::ROOT).left(), FREE + TOTAL, "no more");
    }

    #[test]
    fn what_is_sent_from_counts_and_harms_its_user_alone() {
        let mut budget = budget();
        let (mut hoards, same) = (budget.allow(1000), budget.allow(1000));
        let mut other = budget.allow(1001);
        hoards.sends_from(SENT_FREE * u64::from(CHUNK));
        assert_eq!(same.left(), FREE + TOTAL / 2, "1 MiB is free");
        hoards.sends_from((SENT_FREE + 10) * u64::from(CHUNK));
        assert_eq!(same.left(), FREE + TOTAL / 2 - 10);
        hoards.sends_from(u64::MAX);
        assert_eq!(same.left(), FREE);
        assert_eq!(other.left(), FREE + TOTAL * 3 / 8);
        assert_eq!(exhaust(&mut other), TOTAL * 3 / 8);
        hoards.sends_from(0);
        assert_eq!(same.left(), FREE + TOTAL / 2);
        hoards.sends_from(u64::MAX);
        drop(hoards);
        assert_eq!(same.left(), FREE + TOTAL / 2);
    }

    #[test]
    fn root_can_have_all() {
        let mut budget = budget();
        let mut roots = budget.allow(shares::ROOT);
        assert_eq!(exhaust(&mut roots), TOTAL);
        assert_eq!(exhaust(&mut budget.allow(1000)), 0);
        drop(roots);
        assert_eq!(exhaust(&mut budget.allow(1000)), TOTAL / 2);
        assert_eq!(budget.users.len(), 1);
        budget.allow(1001);
        budget.allow(1002);
        assert_eq!(budget.users.len(), 1, "who has nothing is forgotten");
    }
}
