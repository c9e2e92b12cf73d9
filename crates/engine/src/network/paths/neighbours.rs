//! The next hops that paths go through, and what is known about each.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use tables::{Chunks, Hash, Index, Line};

use super::reach::NOBODY;
use super::{Questions, Reach};
use crate::network::{Found, Network, OnLink};
use crate::slow::kernel::asking::AsOf;
use crate::slow::kernel::neighbours::Knowledge;

/// What the kernel is told or asked of neighbours in use at a tick.
const OF_NEIGHBOURS: u32 = 64;
/// Neighbours in use that are looked at in a tick.
const LOOKS: u32 = 4096;

#[derive(Debug)]
pub(super) struct Neighbour {
    at: OnLink<IpAddr>,
    /// Paths that go through it.
    pub(super) paths: u32,
    pub(super) knowledge: Knowledge,
    /// The kernel has been told to resolve it.
    asked: bool,
    /// Frames were sent to it since the last tick.
    pub(super) used: bool,
    /// Acknowledgements came through it since the last tick.
    progress: bool,
    /// As of which loss of notifications its knowledge is.
    epoch: u32,
    /// When it was last told of: answers to older questions are none any more.
    told: AsOf,
}

impl Neighbour {
    fn new(at: OnLink<IpAddr>, knowledge: Knowledge, epoch: u32, told: AsOf) -> Self {
        Self {
            at,
            paths: 0,
            knowledge,
            asked: false,
            used: false,
            progress: false,
            epoch,
            told,
        }
    }
}

/// Those that paths go through, and the last ones that did.
#[derive(Debug)]
pub(super) struct Neighbours {
    hasher: RandomState,
    /// The first `count` of them are neighbours.
    all: Chunks<Neighbour>,
    count: u32,
    by_address: Index<OnLink<IpAddr>>,
    /// Those that no path goes through.
    idle: Line,
    /// Those to which frames were sent since a tick looked at them.
    busy: Line,
    /// With more than so many, one that is idle makes room for another.
    limit: u32,
    /// Changes with each loss of notifications.
    epoch: u32,
    /// Changes with whatever is told of one of them.
    told: AsOf,
}

impl Neighbours {
    pub fn with_limit(limit: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            all: Chunks::new(),
            count: 0,
            by_address: Index::with_capacity(0, NOBODY),
            idle: Line::new(),
            busy: Line::new(),
            limit,
            epoch: 0,
            told: AsOf::default(),
        }
    }

    fn hash(&self, at: OnLink<IpAddr>) -> Hash {
        Hash::new(self.hasher.hash_one(at))
    }

    /// The number of the one with this address, of which the kernel is asked if it is new. It is there as long
    /// as paths go through it, or until the next one is asked for.
    pub fn at(&mut self, network: &mut impl Network, at: OnLink<IpAddr>) -> u32 {
        let hash = self.hash(at);
        if let Some(number) = self.by_address.get(&at, hash) {
            return number;
        }
        // What is told of those that are not here nobody hears: whatever was asked of it before may be old.
        self.told = self.told.next();
        let (knowledge, epoch) = match network.neighbour(at, self.told) {
            Found::Known(knowledge) => (knowledge, self.epoch),
            Found::Later => (Knowledge::Unresolved, self.epoch),
            // As if it had been known before the last loss: it is asked for again.
            Found::Missed => (Knowledge::Unresolved, self.epoch.wrapping_sub(1)),
        };
        let number = match self.idle.first() {
            Some(idle) if self.count > self.limit => {
                let old = self.all[idle].at;
                self.by_address.remove(&old, self.hash(old));
                self.busy.leave(idle);
                idle
            }
            _ => {
                let new = self.count;
                let vacant = |_| Neighbour::new(NOBODY, Knowledge::Unresolved, 0, AsOf::default());
                self.all.reach(new, vacant);
                self.count += 1;
                new
            }
        };
        self.all[number] = Neighbour::new(at, knowledge, epoch, self.told);
        self.by_address.insert(at, hash, number);
        self.idle.leave(number);
        self.idle.join(number);
        number
    }

    /// One path more goes through it.
    pub fn acquire(&mut self, number: u32) {
        self.all[number].paths += 1;
        self.idle.leave(number);
    }

    /// One path less goes through it.
    pub fn release(&mut self, number: u32) {
        let paths = &mut self.all[number].paths;
        debug_assert!(*paths > 0, "released more often than acquired");
        *paths = paths.saturating_sub(1);
        if *paths == 0 {
            self.idle.join(number);
        }
    }

    /// Where frames to it go. Asks the kernel to resolve it where that is needed.
    #[inline]
    pub fn reach(
        &mut self,
        network: &mut impl Network,
        number: u32,
        questions: &mut Questions,
    ) -> Reach {
        let neighbour = &mut self.all[number];
        if neighbour.epoch != self.epoch && questions.take() {
            let found = network.neighbour(neighbour.at, self.told);
            // Until the answer comes, what was known is the best that there is.
            if let Found::Known(knowledge) = found {
                neighbour.knowledge = knowledge;
            }
            if found != Found::Missed {
                neighbour.asked = false;
                neighbour.epoch = self.epoch;
            }
        }
        if !neighbour.used {
            neighbour.used = true;
            self.busy.join(number);
        }
        match neighbour.knowledge {
            Knowledge::Resolved { mac, .. } => Reach::At(OnLink {
                nic: neighbour.at.nic,
                address: mac,
            }),
            Knowledge::Unresolved => {
                if !neighbour.asked {
                    neighbour.asked = network.probe(neighbour.at, self.told);
                }
                Reach::Resolving(neighbour.at)
            }
            Knowledge::Failed => Reach::Unreachable,
        }
    }

    /// Acknowledgements arrive through it: it is there.
    #[inline]
    pub fn progress(&mut self, number: u32) {
        self.all[number].progress = true;
    }

    /// The address of the one with this number.
    pub fn address(&self, number: u32) -> OnLink<IpAddr> {
        self.all[number].at
    }

    /// What is known of one, if it is here.
    pub fn known(&self, at: OnLink<IpAddr>) -> Option<Knowledge> {
        let number = self.by_address.get(&at, self.hash(at))?;
        Some(self.all[number].knowledge)
    }

    /// How much has been told of all of them.
    pub const fn as_of(&self) -> AsOf {
        self.told
    }

    /// One has changed; whether it is here.
    pub fn changed(&mut self, at: OnLink<IpAddr>, knowledge: Knowledge) -> bool {
        self.told = self.told.next();
        let told = self.told;
        self.know(at, knowledge, told)
    }

    /// What is known of one, to a question of that time; whether it is here and that is not old.
    pub fn answered(&mut self, at: OnLink<IpAddr>, knowledge: Knowledge, as_of: AsOf) -> bool {
        let number = self.by_address.get(&at, self.hash(at));
        let told = number.map(|number| self.all[number].told);
        told.is_some_and(|told| told <= as_of && self.know(at, knowledge, told))
    }

    fn know(&mut self, at: OnLink<IpAddr>, knowledge: Knowledge, told: AsOf) -> bool {
        let Some(number) = self.by_address.get(&at, self.hash(at)) else {
            return false;
        };
        let neighbour = &mut self.all[number];
        neighbour.told = told;
        neighbour.knowledge = knowledge;
        neighbour.asked &= knowledge == Knowledge::Unresolved;
        true
    }

    /// Some have changed, and it is not known which: each is asked for again before it is next used.
    pub fn all_changed(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Confirms the stale ones through which acknowledgements came, and has the others in use probed.
    pub fn tick(&mut self, network: &mut impl Network) {
        let mut left = OF_NEIGHBOURS;
        for _ in 0..LOOKS {
            let Some(number) = self.busy.first() else {
                break;
            };
            let neighbour = &mut self.all[number];
            match neighbour.knowledge {
                Knowledge::Resolved { stale: false, .. } => {}
                // It was asked for, and is again when it is next used.
                Knowledge::Unresolved if neighbour.asked => neighbour.asked = false,
                // It is the first at the next tick.
                _ if left == 0 => break,
                // There was no room for the question, and a frame may wait for the answer with no other to follow.
                Knowledge::Unresolved => {
                    left -= 1;
                    neighbour.asked = network.probe(neighbour.at, self.told);
                    if !neighbour.asked {
                        break;
                    }
                }
                Knowledge::Resolved { mac, .. } if neighbour.progress => {
                    left -= 1;
                    network.confirm(neighbour.at, mac);
                }
                Knowledge::Resolved { .. } | Knowledge::Failed => {
                    left -= 1;
                    let _ = network.probe(neighbour.at, self.told);
                }
            }
            neighbour.used = false;
            neighbour.progress = false;
            self.busy.leave(number);
        }
    }

    /// Whether frames were sent to any since a tick looked at it.
    pub fn any_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.all.iter().take(self.count as usize)
    }
}
