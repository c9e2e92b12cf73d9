//! Losing what is outstanding, sending it again, and finding out that it was not lost.

use wire::seq::SeqNumber;

use super::{Hole, Outstanding, Retransmission, Sent, State};
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
            self.newly_lost = self.newly_lost.saturating_add(hole.len());
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

    /// Reneging (RFC 2018 §8): the peer's SACKs are void, and everything below `scoreboard_end` is lost.
    pub(in crate::recovery) fn on_reneging(&mut self) {
        self.holes.clear();
        (self.first_lost, self.first_flying) = (0, 0);
        self.retransmissions.clear();
        self.missing = self.scoreboard_end.distance_from(self.una) as u32;
        self.lost = self.missing;
        if self.missing == 0 {
            return;
        }
        self.holes.push_back(Hole {
            left: self.una,
            right: self.scoreboard_end,
            at: Instant::ZERO,
            state: State::Lost,
            // Nobody knows any more, so it is not to be timed.
            retransmissions: 1,
        });
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
            }
        }
        self.lost = 0;
        self.first_flying = 0;
        self.order_retransmissions();
    }

    fn note_retransmission(&mut self, left: SeqNumber, right: SeqNumber, at: Instant) {
        if self.retransmissions.len() > 2 * self.holes.len() + 64 {
            // Most of them have been heard of.
            self.order_retransmissions();
        }
        match self.retransmissions.back_mut() {
            Some(last) if last.at == at && last.right == left => last.right = right,
            _ => self
                .retransmissions
                .push_back(Retransmission { left, right, at }),
        }
    }

    /// Sorts the retransmissions by time again.
    pub(super) fn order_retransmissions(&mut self) {
        let again = |hole: &&Hole| hole.state == State::Retransmitted;
        let found = self.holes.iter().filter(again).map(|hole| Retransmission {
            left: hole.left,
            right: hole.right,
            at: hole.at,
        });
        self.retransmissions = found.collect();
        let in_time = self.retransmissions.make_contiguous();
        in_time.sort_by_key(|retransmission| retransmission.at);
    }

    /// The first hole that is still what was sent again then.
    fn still_out(&self, then: &Retransmission) -> Option<usize> {
        let first = self
            .holes
            .partition_point(|hole| hole.right.at_or_before(then.left));
        let holes = self.holes.iter().enumerate().skip(first);
        let mut inside = holes.take_while(|(_, hole)| hole.left.before(then.right));
        inside
            .find(|(_, hole)| hole.state == State::Retransmitted && hole.at == then.at)
            .map(|(i, _)| i)
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
        let mut i = self.first_flying;
        while let Some(hole) = self.holes.get(i) {
            if hole.state == State::Flying {
                let sent = Sent {
                    at: hole.at,
                    retransmitted: false,
                    end: hole.right,
                };
                if !sent.is_before(&latest) {
                    break;
                }
                let due = hole.at + patience;
                if due > now {
                    found.due = Some(found.due.map_or(due, |other| other.min(due)));
                    break;
                }
                self.lose(i);
            }
            i += 1;
        }
        self.first_flying = i;
        self.detect_again(latest, patience, now, &mut found);
        found
    }

    /// The same for what was sent again.
    fn detect_again(&mut self, latest: Sent, patience: Nanos, now: Instant, found: &mut Found) {
        while let Some(then) = self.retransmissions.front().copied() {
            let Some(i) = self.still_out(&then) else {
                self.retransmissions.pop_front();
                continue;
            };
            let sent = Sent {
                at: then.at,
                retransmitted: true,
                end: self.holes[i].right,
            };
            if !sent.is_before(&latest) {
                break;
            }
            let due = then.at + patience;
            if due > now {
                found.due = Some(found.due.map_or(due, |other| other.min(due)));
                break;
            }
            found.again = found.again.max(Some(then.at));
            self.lose(i);
        }
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
        self.note_retransmission(left, right, now);
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
            if let Some(previous) = i.checked_sub(1).and_then(|i| self.holes.get(i).copied())
                && previous.right == hole.left
                && previous.state == State::Retransmitted
                && (previous.at == now || self.holes.len() > self.max_holes())
            {
                self.holes[i].left = previous.left;
                self.remove(i - 1);
            } else {
                i += 1;
            }
        }
    }
}
