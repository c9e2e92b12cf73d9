//! What is known of the destinations that were asked for, or heard of, last.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use tables::{Chunks, Hash, Index, Line};

use super::VACANT;

/// From where to where: what is sent from another address may have another route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub source: IpAddr,
    pub destination: IpAddr,
}

const NO_ENDS: Ends = Ends {
    source: VACANT,
    destination: VACANT,
};

/// Something about each of the last destinations.
#[derive(Debug)]
pub(super) struct Known<T> {
    hasher: RandomState,
    /// The first `count` of them are taken.
    all: Chunks<(Ends, T)>,
    count: u32,
    by_ends: Index<Ends>,
    /// In the order in which they were looked for last.
    order: Line,
    limit: u32,
}

impl<T: Copy> Known<T> {
    /// At most so many, and one at least.
    pub fn with_limit(limit: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            all: Chunks::new(),
            count: 0,
            by_ends: Index::with_capacity(0, NO_ENDS),
            order: Line::new(),
            limit: limit.max(1),
        }
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    fn hash(&self, ends: Ends) -> Hash {
        Hash::new(self.hasher.hash_one(ends))
    }

    /// What is known of these.
    pub fn find(&mut self, ends: Ends) -> Option<T> {
        let place = self.by_ends.get(&ends, self.hash(ends))?;
        self.order.leave(place);
        self.order.join(place);
        Some(self.all[place].1)
    }

    /// This is known of them from now on. Returns what is let go of: what was known of them before, or of
    /// those that make room for them.
    pub fn set(&mut self, ends: Ends, value: T) -> Option<T> {
        let hash = self.hash(ends);
        if let Some(place) = self.by_ends.get(&ends, hash) {
            return Some(core::mem::replace(&mut self.all[place].1, value));
        }
        let (place, let_go) = if self.count < self.limit {
            let new = self.count;
            self.all.reach(new, |_| (NO_ENDS, value));
            self.count += 1;
            (new, None)
        } else {
            let last = self.order.first()?;
            let (old, let_go) = self.all[last];
            self.by_ends.remove(&old, self.hash(old));
            self.order.leave(last);
            (last, Some(let_go))
        };
        self.all[place] = (ends, value);
        self.by_ends.insert(ends, hash, place);
        self.order.join(place);
        let_go
    }
}
