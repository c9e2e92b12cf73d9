//! Whose a flow is: a table of words that all workers read and each writes for its own flows.
//!
//! A word is the flow's keyed hash and the number of its worker; it is written when the flow begins and
//! when it ends, and never for a packet. Two flows with the same 57 bits would be taken for one: among a
//! million flows there are two such once in three hundred thousand times, and then frames of one of them that
//! come to a wrong queue may be answered by a reset.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::exchange::WorkerId;

/// Words of a cache line.
const LINE: usize = 8;
/// Lines in which a flow can stand. At a quarter of its words, which is as full as it gets, a flow finds no
/// place in two lines once in some ten billion.
const REACH: usize = 2;
/// Words for each flow that there can be.
const WORDS_A_FLOW: usize = 4;
/// Bits for the number of a worker.
const WORKER: u64 = 63;
/// Set in every word that is taken.
const TAKEN: u64 = 64;

/// Which worker has which flow.
pub struct Directory {
    words: Box<[AtomicU64]>,
    lines: usize,
}

impl Directory {
    /// With room for so many flows: 32 bytes for each.
    pub fn for_flows(flows: usize) -> Self {
        let words = flows.saturating_mul(WORDS_A_FLOW).max(LINE * REACH);
        let lines = words.div_ceil(LINE).next_power_of_two();
        Self {
            words: (0..lines * LINE).map(|_| AtomicU64::new(0)).collect(),
            lines,
        }
    }

    /// The words in which a flow with this hash can stand.
    fn places(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        // The bits that a word does not keep choose the line, with others.
        let first = (hash.rotate_right(7) as usize) & (self.lines - 1);
        (0..REACH).flat_map(move |ahead| {
            let line = (first + ahead) & (self.lines - 1);
            self.words[line * LINE..][..LINE].iter()
        })
    }

    /// A worker has this flow; false if there is no place to say so.
    pub fn insert(&self, hash: u64, worker: WorkerId) -> bool {
        let word = word(hash, worker);
        if self
            .places(hash)
            .any(|place| place.load(Ordering::Relaxed) == word)
        {
            return true;
        }
        self.places(hash).any(|place| {
            place
                .compare_exchange(0, word, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// The worker does not have it any more.
    pub fn remove(&self, hash: u64, worker: WorkerId) {
        self.change(word(hash, worker), hash, 0);
    }

    /// Another worker has it.
    pub fn give(&self, hash: u64, from: WorkerId, to: WorkerId) {
        self.change(word(hash, from), hash, word(hash, to));
    }

    fn change(&self, before: u64, hash: u64, after: u64) {
        self.places(hash).any(|place| {
            place.load(Ordering::Relaxed) == before
                && place
                    .compare_exchange(before, after, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
        });
    }

    /// Who has it.
    pub fn owner(&self, hash: u64) -> Option<WorkerId> {
        let known = hash & !WORKER | TAKEN;
        self.places(hash).find_map(|place| {
            let word = place.load(Ordering::Acquire);
            (word & !WORKER == known).then_some(WorkerId((word & WORKER) as u16))
        })
    }
}

fn word(hash: u64, worker: WorkerId) -> u64 {
    hash & !WORKER | TAKEN | u64::from(worker.0) & WORKER
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(0);
    const B: WorkerId = WorkerId(31);

    /// Well spread, as keyed hashes are.
    fn hash(n: u64) -> u64 {
        let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn as_many_flows_as_it_is_made_for_find_their_places() {
        const FLOWS: u64 = 10_000;
        let directory = Directory::for_flows(FLOWS as usize);
        for n in 0..FLOWS {
            assert!(directory.insert(hash(n), WorkerId((n % 32) as u16)), "{n}");
        }
        for n in 0..FLOWS {
            assert_eq!(directory.owner(hash(n)), Some(WorkerId((n % 32) as u16)));
        }
        assert_eq!(directory.owner(hash(FLOWS)), None);
        for n in 0..FLOWS {
            directory.remove(hash(n), WorkerId((n % 32) as u16));
        }
        assert!(
            directory
                .words
                .iter()
                .all(|word| word.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn a_flow_stands_there_once_and_only_its_worker_takes_it_out() {
        let directory = Directory::for_flows(1);
        assert!(directory.insert(hash(1), A) && directory.insert(hash(1), A));
        directory.remove(hash(1), B);
        assert_eq!(directory.owner(hash(1)), Some(A));
        directory.give(hash(1), B, A);
        directory.give(hash(1), A, B);
        assert_eq!(directory.owner(hash(1)), Some(B));
        directory.remove(hash(1), B);
        assert_eq!(directory.owner(hash(1)), None, "it stood there once");
    }

    #[test]
    fn a_full_place_is_said_and_not_searched_for_elsewhere() {
        let directory = Directory::for_flows(1);
        let places = (LINE * REACH) as u64;
        assert!((0..places).all(|n| directory.insert(hash(n), A)));
        assert!(!directory.insert(hash(places), A));
        assert_eq!(directory.owner(hash(places)), None);
        directory.remove(hash(3), A);
        assert!(directory.insert(hash(places), A));
    }
}
