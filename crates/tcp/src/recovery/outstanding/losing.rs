//! Losing what is outstanding, sending it again, and finding out that it was not lost.

use wire::seq::SeqNumber;

use super::{Hole, MAX_HOLES, Outstanding, Sent, State};
use crate::Instant;
use crate::time::Nanos;

/// What a look at the times has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::recovery) struct Found {
    /// The latest sending of anything that had been sent again and is lost again.
    pub(in crate::recovery) again: Option<Instant>,
    /// When something else would be lost, if nothing is heard of it.
    pub(in crate::recovery) due: Option<Instant>,
}

impl Outstanding {
    fn lose(&mut self, i: usize) {
        let hole = &mut self.holes[i];
        if hole.state != State::Lost {
            hole.state = State::Lost;
            self.lost += hole.len();
            self.first_lost = self.first_lost.min(i);
        }
    }

    /// Everything below `to` that has not arrived is lost.
    pub(in crate::recovery) fn lose_below(&mut self, to: SeqNumber) {
        self.uncover(to);
        self.split(to);
        for i in 0..self.holes.len() {
            if self.holes[i].left.before(to) {
                self.lose(i);
            }
        }
    }

    /// What was sent long ago is lost, and the first of what has not arrived in any case.
    pub(in crate::recovery) fn lose_old(&mut self, now: Instant, patience: Nanos) {
        self.uncover(self.max);
        for i in 0..self.holes.len() {
            if self.holes[i].left == self.una || self.holes[i].at + patience <= now {
                self.lose(i);
            }
        }
    }

    /// Reneging (RFC 2018 §8): the peer's SACKs are void, and everything below `edge` is lost.
    pub(in crate::recovery) fn on_reneging(&mut self) {
        self.holes.clear();
        self.holes.push_back(Hole {
            left: self.una,
            right: self.edge,
            at: Instant::ZERO,
            state: State::Lost,
            // Nobody knows any more, so it is not to be timed.
            retransmissions: 1,
        });
        self.first_lost = 0;
        self.missing = self.edge.distance_from(self.una) as u32;
        self.lost = self.missing;
    }

    /// What is lost was not lost after all.
    pub(in crate::recovery) fn find_again(&mut self) {
        for hole in &mut self.holes {
            if hole.state == State::Lost {
                hole.state = if hole.retransmissions == 0 {
                    State::Flying
                } else {
                    State::Retransmitted
                };
                self.oldest = self.oldest.min(hole.at);
            }
        }
        self.lost = 0;
    }

    /// Looks for what was sent before `latest`, which has arrived, and longer than `patience` ago: it
    /// is lost (RFC 8985 §6.2, step 5).
    pub(in crate::recovery) fn detect(
        &mut self,
        latest: Sent,
        patience: Nanos,
        now: Instant,
    ) -> Found {
        let mut found = Found::default();
        let mut old = None;
        for sending in &self.sendings {
            let sent = Sent {
                at: sending.at,
                retransmitted: false,
                end: sending.end,
            };
            if !sent.is_before(&latest) {
                break;
            }
            let due = sending.at + patience;
            if due > now {
                found.due = found.due.max(Some(due));
                break;
            }
            old = Some(sending.end);
        }
        if let Some(old) = old {
            self.uncover(old);
        }
        if self.oldest > latest.at {
            return found;
        }
        let mut oldest = Instant::MAX;
        for i in 0..self.holes.len() {
            let hole = self.holes[i];
            if hole.state == State::Lost {
                continue;
            }
            let sent = Sent {
                at: hole.at,
                retransmitted: hole.state == State::Retransmitted,
                end: hole.right,
            };
            if sent.is_before(&latest) {
                let due = hole.at + patience;
                if due <= now {
                    if hole.state == State::Retransmitted {
                        found.again = found.again.max(Some(hole.at));
                    }
                    self.lose(i);
                    continue;
                }
                found.due = found.due.max(Some(due));
            }
            oldest = oldest.min(hole.at);
        }
        self.oldest = oldest;
        found
    }

    /// The first range that is lost: where it begins, and its length.
    pub(in crate::recovery) fn next_lost(&mut self) -> Option<(SeqNumber, u32)> {
        if self.lost == 0 {
            return None;
        }
        while let Some(hole) = self.holes.get(self.first_lost) {
            if hole.state == State::Lost {
                return Some((hole.left, hole.len()));
            }
            self.first_lost += 1;
        }
        None
    }

    /// `left .. right` has been sent again.
    pub(in crate::recovery) fn retransmit(
        &mut self,
        left: SeqNumber,
        right: SeqNumber,
        now: Instant,
    ) {
        self.uncover(right);
        self.split(left);
        self.split(right);
        let mut i = self.holes.partition_point(|h| h.right.at_or_before(left));
        while let Some(hole) = self.holes.get_mut(i)
            && hole.left.before(right)
        {
            if hole.state == State::Lost {
                self.lost -= hole.len();
            }
            hole.state = State::Retransmitted;
            hole.at = now;
            hole.retransmissions = hole.retransmissions.saturating_add(1);
            let hole = *hole;
            self.oldest = self.oldest.min(now);
            if let Some(previous) = i.checked_sub(1).and_then(|i| self.holes.get(i).copied())
                && previous.right == hole.left
                && previous.state == State::Retransmitted
                && (previous.at == now || self.holes.len() > MAX_HOLES)
            {
                self.holes[i].left = previous.left;
                self.holes.remove(i - 1);
                self.first_lost -= usize::from(i - 1 < self.first_lost);
            } else {
                i += 1;
            }
        }
    }
}
