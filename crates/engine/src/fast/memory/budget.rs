//! How much memory hosts may make the engine touch, by user.
//!
//! A region's pages come when they are first touched, and count as the toucher's: receive memory is the
//! engine's in the eyes of the kernel. A pool takes chunks that were used before first; what it touches
//! anew is charged to its session's user, and given back when the session's memory is.
//!
//! Nothing of it can be taken away from who holds it, so something has to be left for who comes next. A user
//! but root may take as long as less is held by it than is left to all of them: the dynamic thresholds of
//! shared switch buffers (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). One alone can
//! have half, two a third each, and `n` an equal share of `1 / (n + 1)`. Who comes late has half of what is
//! left, and more as others give theirs back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use queue_pair::RECEIVE_CHUNK;

use crate::config::shares;

/// Bytes of a chunk.
pub const CHUNK: u32 = RECEIVE_CHUNK;

/// What each pool may touch in any case, in chunks, where there is memory for it: 1 MiB. The same of what a session
/// sends from, which counts once it is held.
const FREE: u32 = (1 << 20) / CHUNK;

/// Of a machine's memory what all sessions may touch in any case is a quarter at most.
const GUARANTEED: u64 = 4;

/// What each of so many pools may touch in any case, in bytes, and as much again of what it sends from, on a machine
/// with so many bytes: 1 MiB, unless that would be too much of it together.
pub fn guaranteed(machine: u64, pools: u64) -> u64 {
    let each = machine / GUARANTEED / 2 / pools.max(1);
    each.clamp(CHUNK.into(), 1 << 20)
}

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

/// How many chunks one user has been charged for; of one worker, as [`Left`] is.
type Held = AtomicU32;

/// What all users may touch.
#[derive(Debug)]
pub struct Budget {
    total: u32,
    all: Arc<Left>,
    /// Of all users but root.
    others: Arc<Left>,
    /// What each of them holds.
    users: HashMap<u32, Arc<Held>>,
    /// What each pool may touch in any case, in chunks.
    free: u32,
}

/// What one pool may touch.
#[derive(Debug)]
pub struct Allowance {
    /// What a chunk is taken from: what is left to all, and, unless it is root's, to the others.
    payers: Vec<Arc<Left>>,
    /// What the user holds, unless it is root.
    user: Option<Arc<Held>>,
    charged: u32,
    free: u32,
    /// Of what the session sends from, in chunks, so much is free.
    sent_free: u32,
    /// Charged for what the session holds beside the pool.
    beside: u32,
}

impl Budget {
    /// Of so many bytes, of which an eighth is root's.
    pub fn of_bytes(bytes: u64) -> Self {
        let total = u32::try_from(bytes / u64::from(CHUNK)).unwrap_or(u32::MAX);
        let roots = total / shares::ROOTS_SHARE as u32;
        Self {
            total,
            all: Left::of(total),
            others: Left::of(total - roots),
            users: HashMap::new(),
            free: FREE,
        }
    }

    /// Each pool from now on may touch so many bytes in any case, and as many of what its session sends from are free.
    pub fn guarantee(&mut self, bytes: u64) {
        let chunks = bytes / u64::from(CHUNK);
        self.free = u32::try_from(chunks).unwrap_or(u32::MAX);
    }

    /// That of a pool of a user's session.
    pub fn allow(&mut self, uid: u32) -> Allowance {
        let mut payers = vec![Arc::clone(&self.all)];
        let user = (uid != shares::ROOT).then(|| {
            payers.push(Arc::clone(&self.others));
            // Those whose pools are gone hold nothing.
            self.users.retain(|_, held| Arc::strong_count(held) > 1);
            Arc::clone(self.users.entry(uid).or_default())
        });
        Allowance {
            payers,
            user,
            charged: 0,
            free: self.free,
            sent_free: self.free,
            beside: 0,
        }
    }

    /// Whether little is left, to all or to some user: a sixteenth.
    pub fn is_short(&self) -> bool {
        let least = self.total / 16;
        let left = self.all.get().min(self.others.get());
        let mut users = self.users.values();
        left < least || users.any(|held| to_take(held, left) < least)
    }

    /// How often a chunk was wanted that nobody could be charged for.
    pub fn refused(&self) -> u64 {
        self.all.refused.load(Ordering::Relaxed)
    }
}

impl Allowance {
    /// How many of those that may be touched yet are free of charge.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// How many chunks may be touched for the first time.
    pub fn left(&self) -> u32 {
        self.free.saturating_add(self.to_charge())
    }

    /// How many of them would be charged.
    fn to_charge(&self) -> u32 {
        let left = self.payers.iter().map(|payer| payer.get()).min();
        let left = left.unwrap_or(u32::MAX);
        self.user.as_ref().map_or(left, |held| to_take(held, left))
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

    /// The session holds so many bytes to send from, of which as many are free as of what it receives into. They are
    /// there, whatever the budget says: what it has not left is not charged, so that one user's are never more than its
    /// share.
    pub fn sends_from(&mut self, bytes: u64) {
        self.refund(self.beside);
        self.beside = 0;
        let chunks = (bytes / u64::from(CHUNK)).saturating_sub(self.sent_free.into());
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.beside = chunks.min(self.to_charge());
        self.charge(self.beside);
    }

    fn charge(&self, chunks: u32) {
        for payer in &self.payers {
            payer.set(payer.get() - chunks);
        }
        if let Some(held) = &self.user {
            held.store(held.load(Ordering::Relaxed) + chunks, Ordering::Relaxed);
        }
    }

    fn refund(&self, chunks: u32) {
        for payer in &self.payers {
            payer.set(payer.get() + chunks);
        }
        if let Some(held) = &self.user {
            held.store(held.load(Ordering::Relaxed) - chunks, Ordering::Relaxed);
        }
    }
}

/// How many more a user may take that holds so many, while so many are left: until both are equal, and
/// each that it takes brings them nearer by two.
fn to_take(held: &Held, left: u32) -> u32 {
    left.saturating_sub(held.load(Ordering::Relaxed)) / 2
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
    /// Of them, those that are not root's.
    const USABLE: u32 = TOTAL * 7 / 8;

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
    fn who_comes_late_has_half_of_what_is_left_and_root_all_of_it() {
        let mut budget = budget();
        let mut first = budget.allow(1000);
        let mut again = budget.allow(1000);
        assert_eq!(exhaust(&mut first), USABLE / 2);
        assert_eq!(exhaust(&mut again), 0, "the user's, however many pools");
        let mut second = budget.allow(1001);
        assert_eq!(exhaust(&mut second), USABLE / 4);
        let mut third = budget.allow(1002);
        assert_eq!(exhaust(&mut third), USABLE / 8);
        assert_eq!(budget.refused(), 4);
        let mut roots = budget.allow(shares::ROOT);
        let left = USABLE - USABLE / 2 - USABLE / 4 - USABLE / 8;
        assert_eq!(exhaust(&mut roots), left + TOTAL / 8);
        assert_eq!(exhaust(&mut third), 0);

        drop(roots);
        drop(first);
        // Until it holds as much as is left.
        let until_even = (USABLE - USABLE / 4 - 2 * (USABLE / 8)) / 2;
        assert_eq!(exhaust(&mut third), until_even, "it came back");
    }

    #[test]
    fn users_who_take_in_turn_have_equally_much() {
        for count in 1..=20 {
            let mut budget = budget();
            let mut users: Vec<_> = (0..count).map(|uid| budget.allow(1000 + uid)).collect();
            while users
                .iter_mut()
                .map(Allowance::take)
                .filter(|taken| *taken)
                .count()
                > 0
            {}
            for user in &users {
                let share = USABLE / (count + 1);
                assert!(user.charged.abs_diff(share) <= 1, "{user:?} of {count}");
            }
        }
    }

    #[test]
    fn what_comes_back_is_for_who_has_less_first() {
        let mut budget = budget();
        let (mut first, mut second) = (budget.allow(1000), budget.allow(1001));
        assert_eq!(exhaust(&mut first), USABLE / 2);
        assert_eq!(exhaust(&mut second), USABLE / 4);
        // The first gives back what it has a little at a time, and both take what they can.
        for _ in 0..USABLE {
            first.give(1);
            second.take();
            first.take();
        }
        let share = USABLE / 3;
        for user in [&first, &second] {
            assert!(user.charged.abs_diff(share) <= 2, "{user:?}");
        }
    }

    #[test]
    fn what_is_given_back_is_there_for_others() {
        let mut budget = budget();
        let mut first = budget.allow(1000);
        let mut again = budget.allow(1000);
        assert!(!budget.is_short());
        assert_eq!(exhaust(&mut first), USABLE / 2);
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
        assert_eq!(first.left(), FREE + USABLE / 2 - again.charged);
        drop(first);
        drop(again);
        assert_eq!(budget.allow(shares::ROOT).left(), FREE + TOTAL, "no more");
    }

    #[test]
    fn what_is_sent_from_counts_and_harms_its_user_alone() {
        let mut budget = budget();
        let (mut hoards, same) = (budget.allow(1000), budget.allow(1000));
        let mut other = budget.allow(1001);
        let free = u64::from(FREE);
        hoards.sends_from(free * u64::from(CHUNK));
        assert_eq!(same.left(), FREE + USABLE / 2, "1 MiB is free");
        hoards.sends_from((free + 10) * u64::from(CHUNK));
        assert_eq!(same.left(), FREE + USABLE / 2 - 10);
        hoards.sends_from(u64::MAX);
        assert_eq!(same.left(), FREE);
        assert_eq!(other.left(), FREE + USABLE / 4);
        assert_eq!(exhaust(&mut other), USABLE / 4);
        hoards.sends_from(0);
        let beside_the_other = (USABLE - USABLE / 4) / 2;
        assert_eq!(same.left(), FREE + beside_the_other);
        hoards.sends_from(u64::MAX);
        drop(hoards);
        assert_eq!(same.left(), FREE + beside_the_other);
    }

    /// With 4,096 of them it was 8 GiB, whatever machine that was.
    #[test]
    fn what_sessions_have_in_any_case_is_a_quarter_of_a_machine_at_most() {
        let sessions = 4096;
        for (gib, kib) in [(1_u64, 32), (8, 256), (32, 1024), (512, 1024)] {
            let (machine, each) = (gib << 30, kib << 10);
            assert_eq!(guaranteed(machine, sessions), each, "{gib} GiB");
            assert!(2 * sessions * each <= machine / 4);
        }
        let least = guaranteed(1 << 20, sessions);
        assert_eq!(least, u64::from(CHUNK), "or nobody goes on");
        let mut budget = budget();
        budget.guarantee(guaranteed(1 << 30, sessions));
        let few = (32 << 10) / CHUNK;
        let (mut one, same) = (budget.allow(1000), budget.allow(1000));
        assert_eq!(one.left(), few + USABLE / 2);
        one.sends_from(u64::from((few + 10) * CHUNK));
        assert_eq!(same.left(), few + USABLE / 2 - 10);
    }

    #[test]
    fn root_can_have_all() {
        let mut budget = budget();
        let mut roots = budget.allow(shares::ROOT);
        assert_eq!(exhaust(&mut roots), TOTAL);
        assert_eq!(exhaust(&mut budget.allow(1000)), 0);
        drop(roots);
        assert_eq!(exhaust(&mut budget.allow(1000)), USABLE / 2);
        assert_eq!(budget.users.len(), 1);
        budget.allow(1001);
        budget.allow(1002);
        assert_eq!(budget.users.len(), 1, "who has nothing is forgotten");
    }
}
