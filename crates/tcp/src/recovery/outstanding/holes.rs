//! The holes of the scoreboard, in the order of their numbers.
//!
//! A tree holds them, found by where they end: an acknowledgement in the middle of a hundred thousand
//! costs a search, and moves none of them. Most of what happens to a hole happens at its left: the
//! cumulative acknowledgement takes it from there, and what cuts a hole in two leaves its end where it
//! was. The ends of those that are lost stand in a second tree, since the first of them is asked for
//! with each segment that is sent again.

use core::cmp::Ordering;
use core::ops::Bound::{Excluded, Unbounded};
use std::collections::{BTreeMap, BTreeSet};

use wire::seq::SeqNumber;

use crate::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sent once, thought to be on its way.
    Flying,
    /// Thought to be lost, to be sent again.
    Lost,
    /// Sent again, thought to be on its way.
    Retransmitted,
}

/// A range that the peer has not SACKed, though it SACKed something beyond it, or something below it is
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) left: SeqNumber,
    pub(super) right: SeqNumber,
    /// When it was last sent.
    pub(super) at: Instant,
    pub(super) state: State,
    /// How often it was sent again.
    pub(super) retransmissions: u8,
}

impl Hole {
    pub(super) fn len(&self) -> u32 {
        self.right.distance_from(self.left) as u32
    }
}

/// Where a hole ends. All that live lie in one window, which is less than 2^31 numbers long, and so
/// have an order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End(SeqNumber);

impl Ord for End {
    #[inline]
    fn cmp(&self, other: &End) -> Ordering {
        self.0.distance_from(other.0).cmp(&0)
    }
}

impl PartialOrd for End {
    #[inline]
    fn partial_cmp(&self, other: &End) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub(super) struct Holes {
    by_end: BTreeMap<End, Hole>,
    lost: BTreeSet<End>,
    /// Bytes in holes of each state.
    bytes: [u32; 3],
}

impl Holes {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.by_end.len()
    }

    /// Bytes in all of them.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        self.bytes.iter().sum()
    }

    /// Bytes in those of a state.
    #[inline]
    pub(super) fn bytes_of(&self, state: State) -> u32 {
        self.bytes[state as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Hole> {
        self.by_end.values()
    }

    /// Those that end after `at`, in their order. `at` may lie inside the first.
    pub(super) fn after(&self, at: SeqNumber) -> impl Iterator<Item = &Hole> {
        let range = self.by_end.range((Excluded(End(at)), Unbounded));
        range.map(|(_, hole)| hole)
    }

    /// The first that ends after `at`.
    pub(super) fn first_after(&self, at: SeqNumber) -> Option<Hole> {
        self.after(at).next().copied()
    }

    pub(super) fn first(&self) -> Option<&Hole> {
        self.by_end.first_key_value().map(|(_, hole)| hole)
    }

    pub(super) fn ending_at(&self, right: SeqNumber) -> Option<Hole> {
        self.by_end.get(&End(right)).copied()
    }

    /// The first that is lost.
    pub(super) fn first_lost(&self) -> Option<Hole> {
        self.ending_at(self.lost.first()?.0)
    }

    pub(super) fn clear(&mut self) {
        *self = Holes::default();
    }

    pub(super) fn insert(&mut self, hole: Hole) {
        self.bytes[hole.state as usize] += hole.len();
        if hole.state == State::Lost {
            self.lost.insert(End(hole.right));
        }
        self.by_end.insert(End(hole.right), hole);
    }

    pub(super) fn remove(&mut self, right: SeqNumber) {
        if let Some(hole) = self.by_end.remove(&End(right)) {
            self.bytes[hole.state as usize] -= hole.len();
            if hole.state == State::Lost {
                self.lost.remove(&End(right));
            }
        }
    }

    /// Changes the hole that ends at `right`, in all but that.
    pub(super) fn change(&mut self, right: SeqNumber, change: impl FnOnce(&mut Hole)) {
        let Some(hole) = self.by_end.get_mut(&End(right)) else {
            return;
        };
        let before = *hole;
        change(hole);
        let after = *hole;
        self.bytes[before.state as usize] -= before.len();
        self.bytes[after.state as usize] += after.len();
        if before.state != after.state {
            if before.state == State::Lost {
                self.lost.remove(&End(right));
            }
            if after.state == State::Lost {
                self.lost.insert(End(right));
            }
        }
    }

    /// Takes `left .. right`, which lies in `hole`, out of it.
    pub(super) fn cut(&mut self, hole: &Hole, left: SeqNumber, right: SeqNumber) {
        if right == hole.right {
            self.remove(right);
        } else {
            self.change(hole.right, |hole| hole.left = right);
        }
        if left != hole.left {
            self.insert(Hole {
                right: left,
                ..*hole
            });
        }
    }

    /// What always holds of holes that begin at `una` or later. Returns where the last ends.
    pub(super) fn audit(&self, una: SeqNumber) -> Result<SeqNumber, &'static str> {
        let mut last = una;
        let mut bytes = [0; 3];
        for (end, hole) in &self.by_end {
            if hole.left.before(last) || hole.right.at_or_before(hole.left) || end.0 != hole.right {
                return Err("holes that overlap");
            }
            last = hole.right;
            bytes[hole.state as usize] += hole.len();
        }
        let lost = self.iter().filter(|hole| hole.state == State::Lost);
        if bytes != self.bytes
            || !lost
                .map(|hole| End(hole.right))
                .eq(self.lost.iter().copied())
        {
            return Err("what is missing or lost is miscounted");
        }
        Ok(last)
    }
}
