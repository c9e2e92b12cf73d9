//! Losing what is outstanding, sending it again, and finding out that it was not lost.

use wire::seq::SeqNumber;

use super::holes::{Hole, State};
use super::{Outstanding, Retransmission, Sent, UNTIMED};
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
    fn lose(&mut self, hole: &Hole) {
        if hole.state != State::Lost {
            self.holes
                .change(hole.right, |hole| hole.state = State::Lost);
            self.newly_lost = self.newly_lost.saturating_add(hole.len());
        }
    }

    /// Everything below `to` that has not arrived is lost.
    pub(in crate::recovery) fn lose_below(&mut self, to: SeqNumber) {
        self.uncover(to);
        self.split(to);
        let mut from = self.una;
        while let Some(hole) = self.holes.first_after(from)
            && hole.left.before(to)
        {
            self.lose(&hole);
            from = hole.right;
        }
    }

    /// What was sent long ago is lost, and the first of what has not arrived in any case.
    pub(in crate::recovery) fn lose_old(&mut self, now: Instant, patience: Nanos) {
        self.uncover(self.max);
        let mut from = self.una;
        while let Some(hole) = self.holes.first_after(from) {
            if hole.left == self.una || hole.at + patience <= now {
                self.lose(&hole);
            }
            from = hole.right;
        }
    }

    /// Reneging (RFC 2018 §8): the peer's SACKs are void, and everything below `scoreboard_end` is lost.
    pub(in crate::recovery) fn on_reneging(&mut self) {
        self.holes.clear();
        self.first_flying = self.una;
        self.retransmissions.clear();
        if self.scoreboard_end == self.una {
            return;
        }
        self.holes.insert(Hole {
            left: self.una,
            right: self.scoreboard_end,
            // Nobody knows any more, so it is not to be timed.
            at: UNTIMED,
            state: State::Lost,
            retransmissions: 1,
        });
    }

    /// What is lost was not lost after all.
    pub(in crate::recovery) fn find_again(&mut self) {
        while let Some(lost) = self.holes.first_lost() {
            self.holes.change(lost.right, |hole| {
                hole.state = if hole.retransmissions == 0 {
                    State::Flying
                } else {
                    State::Retransmitted
                };
            });
        }
        self.first_flying = self.una;
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
    fn still_out(&self, then: &Retransmission) -> Option<Hole> {
        let holes = self.holes.after(then.left);
        let mut inside = holes.take_while(|hole| hole.left.before(then.right));
        inside
            .find(|hole| hole.state == State::Retransmitted && hole.at == then.at)
            .copied()
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
        let mut from = self.first_flying;
        while let Some(hole) = self.holes.first_after(from) {
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
                self.lose(&hole);
            }
            from = hole.right;
        }
        self.first_flying = from;
        self.detect_again(latest, patience, now, &mut found);
        found
    }

    /// The same for what was sent again.
    fn detect_again(&mut self, latest: Sent, patience: Nanos, now: Instant, found: &mut Found) {
        while let Some(then) = self.retransmissions.front().copied() {
            let Some(hole) = self.still_out(&then) else {
                self.retransmissions.pop_front();
                continue;
            };
            let sent = Sent {
                at: then.at,
                retransmitted: true,
                end: hole.right,
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
            self.lose(&hole);
            // What of it comes before has been looked at.
            self.retransmissions[0].left = hole.right;
        }
    }

    /// The first range that is lost: where it begins, and its length.
    pub(in crate::recovery) fn next_lost(&self) -> Option<(SeqNumber, u32)> {
        let hole = self.holes.first_lost()?;
        Some((hole.left, hole.len()))
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
        let mut from = left;
        while let Some(hole) = self.holes.first_after(from)
            && hole.left.before(right)
        {
            from = hole.right;
            let mut left = hole.left;
            if let Some(previous) = self.holes.ending_at(left)
                && previous.state == State::Retransmitted
                && (previous.at == now || self.holes.len() > self.max_holes())
            {
                self.holes.remove(left);
                left = previous.left;
            }
            self.holes.change(hole.right, |hole| {
                hole.left = left;
                hole.state = State::Retransmitted;
                hole.at = now;
                hole.retransmissions = hole.retransmissions.saturating_add(1);
            });
        }
    }
}
