//! The scoreboard (RFC 6675 §3): what has been sent and not been acknowledged, when each of it was sent,
//! and what of it is SACKed, lost or retransmitted.
//!
//! ```text
//!   una                          scoreboard_end                  max
//!    |---hole---|====|--hole--|========|-------------------------|
//!                sacked         sacked   in flight, nothing known
//! ```
//!
//! Below `scoreboard_end` the holes tell everything: what lies in none of them has been SACKed (RFC
//! 2018). Above it lies what was sent once and of which nothing has been heard; of that only the times
//! of sending are kept, one for all that left together. So a connection that loses nothing pays for
//! a queue of times, and one that does for its holes too, of which there are few.
//!
//! A peer decides how many holes there are, and its owner how often it sends: both are bounded. A
//! SACK block that would take too many is forgotten, which costs a retransmission at most; times that
//! would be too many become one, the later.
//!
//! An acknowledgement costs what it tells of, and for each range a search among the holes, however
//! many there are: what is late is found at the head of one of two orders by time.

mod holes;
mod losing;
mod pieces;

use std::collections::VecDeque;

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use self::holes::{Hole, Holes, State};
use crate::Instant;
use crate::time::Nanos;

/// Holes remembered in any case. A window of 3,000 segments that loses one in a hundred has about
/// thirty, but one that overruns a queue may lose every other segment of its last part.
const MAX_HOLES: usize = 1024;
/// In larger windows, one hole is remembered for so many bytes in flight: every other segment may be
/// lost, and what a peer can make us remember stays a small part of what is in flight for it.
const BYTES_PER_HOLE: u32 = 1024;
/// Times of sending remembered. They are no closer than a 512th of a round trip, so a window has
/// rarely more.
const MAX_SENDINGS: usize = 1024;
/// Room that an empty record may keep when it is put aside for the next connection.
const KEPT: usize = 64;

/// When that was sent of which it is not known. Only what counts as sent again has this time.
const UNTIMED: Instant = Instant::ZERO;

/// What left at one time, as far as `end`.
#[derive(Clone, Copy)]
struct Sending {
    end: SeqNumber,
    at: Instant,
}

/// When something was sent, and what tells it from what else was sent at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) at: Instant,
    /// It was sent again.
    pub(super) retransmitted: bool,
    pub(super) end: SeqNumber,
}

impl Sent {
    /// RACK_sent_after of RFC 8985 §6.2, the other way round. Of what was sent again and what was new at
    /// the same moment neither is before the other. As a rule the new data follows what is sent again, so
    /// the arrival of that says nothing of it; and where the clock has not moved since an original was
    /// acknowledged, what is sent again then follows the original.
    #[inline]
    pub(super) fn is_before(&self, other: &Sent) -> bool {
        self.at < other.at
            || (self.at == other.at
                && self.retransmitted == other.retransmitted
                && self.end.before(other.end))
    }
}

/// A range that has turned out to have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) right: SeqNumber,
    pub(super) len: u32,
    /// When it was last sent.
    pub(super) at: Instant,
    pub(super) retransmitted: bool,
    /// It was thought to be lost.
    pub(super) lost: bool,
}

impl Piece {
    /// Whether it is known when it was last sent: not of what was lost when the SACKs turned out to be
    /// void.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        !(self.retransmitted && self.at == UNTIMED)
    }
}

#[derive(Default)]
pub(super) struct Outstanding {
    /// SND.UNA.
    una: SeqNumber,
    /// HighSack, the end of the highest block that was SACKed; or beyond it, the end of what was found
    /// lost or has been sent again.
    scoreboard_end: SeqNumber,
    /// SND.NXT.
    max: SeqNumber,
    holes: Holes,
    /// What lies above the scoreboard's end.
    sendings: VecDeque<Sending>,
    /// Bytes that were found lost, until somebody asks.
    newly_lost: u32,
    /// No hole below this is flying, while there are holes. Those that are lie in the order in which
    /// they were sent, since what was sent once was sent in the order of its numbers.
    first_flying: SeqNumber,
    /// What was sent again, in the order of time. Some of it may have been heard of since.
    retransmissions: VecDeque<Retransmission>,
}

/// What was sent again at one time.
#[derive(Clone, Copy, Debug)]
struct Retransmission {
    left: SeqNumber,
    right: SeqNumber,
    at: Instant,
}

impl Outstanding {
    /// Starts over: nothing is outstanding, and `start` is the next number to be sent.
    #[inline]
    pub(super) fn restart(&mut self, start: SeqNumber) {
        if !self.holes.is_empty() {
            self.holes.clear();
        }
        self.sendings.clear();
        self.retransmissions.clear();
        if self.sendings.capacity() | self.retransmissions.capacity() > KEPT {
            self.sendings.shrink_to(KEPT);
            self.retransmissions.shrink_to(KEPT);
        }
        (self.una, self.scoreboard_end, self.max) = (start, start, start);
        self.newly_lost = 0;
    }

    /// How many holes may be remembered now.
    fn max_holes(&self) -> usize {
        let flight = self.max.distance_from(self.una) as u32;
        MAX_HOLES.max((flight / BYTES_PER_HOLE) as usize)
    }

    pub(super) fn una(&self) -> SeqNumber {
        self.una
    }

    pub(super) fn max(&self) -> SeqNumber {
        self.max
    }

    /// When the last of what is in flight was sent, if all of it was sent only once and nothing was
    /// SACKed.
    #[inline]
    pub(super) fn sent_plainly(&self) -> Option<Instant> {
        let last = self.sendings.back()?;
        (self.holes.is_empty() && self.scoreboard_end == self.una).then_some(last.at)
    }

    /// Bytes that were SACKed, beyond the cumulative acknowledgement.
    pub(super) fn sacked(&self) -> u32 {
        self.scoreboard_end.distance_from(self.una) as u32 - self.holes.bytes()
    }

    /// Bytes that are lost and have not been sent again.
    pub(super) fn lost(&self) -> u32 {
        self.holes.bytes_of(State::Lost)
    }

    pub(super) fn take_newly_lost(&mut self) -> u32 {
        core::mem::take(&mut self.newly_lost)
    }

    /// Bytes that the network is thought to hold (the pipe of RFC 6675 §4).
    //= RFC 6675 §4
    pub(super) fn pipe(&self) -> u32 {
        self.max.distance_from(self.scoreboard_end) as u32 + self.holes.bytes() - self.lost()
    }

    /// What always holds while `una .. nxt` is in flight.
    pub(super) fn audit(&self, una: SeqNumber, nxt: SeqNumber) -> Result<(), &'static str> {
        let last = self.holes.audit(una)?;
        if (self.una, self.max) != (una, nxt)
            || last.after(self.scoreboard_end)
            || self.scoreboard_end.after(nxt)
        {
            return Err("recovery has other data in flight than the connection");
        }
        if self.sendings.len() > MAX_SENDINGS {
            return Err("recovery remembers more sendings than it may");
        }
        Ok(())
    }

    /// Bytes that were sent again and have not been heard of.
    pub(super) fn retransmitted(&self) -> u32 {
        self.holes.bytes_of(State::Retransmitted)
    }

    /// Everything up to `end` has been sent for the first time. Two sendings that are no further
    /// apart than `grain` count as one, at the time of the first (RFC 8985 §6.1), unless something was
    /// sent again between them: the second would seem to have left before that.
    //= RFC 8985 §6.1
    #[inline]
    pub(super) fn push(&mut self, end: SeqNumber, now: Instant, grain: Nanos) {
        self.max = end;
        let full = self.sendings.len() >= MAX_SENDINGS;
        let again = self.retransmissions.back().map(|again| again.at);
        if let Some(last) = self.sendings.back_mut() {
            if now.since(last.at) <= grain && again <= Some(last.at) {
                last.end = end;
                return;
            }
            if full {
                *last = Sending { end, at: now };
                return;
            }
        }
        self.sendings.push_back(Sending { end, at: now });
    }

    /// The cumulative acknowledgement has come to `to`. Returns whether the peer is reneging: it
    /// stops short inside a range that it had SACKed (RFC 2018 §8).
    #[inline]
    pub(super) fn acknowledge(&mut self, to: SeqNumber, mut arrived: impl FnMut(Piece)) -> bool {
        if !self.holes.is_empty() {
            self.cut(self.una, to, &mut arrived);
            self.first_flying = self.first_flying.max(to);
        }
        if to.after(self.scoreboard_end) {
            self.take_sendings(to, &mut arrived);
        }
        self.una = to;
        to.before(self.scoreboard_end) && self.holes.first().is_none_or(|hole| hole.left != to)
    }

    /// The peer SACKs a block, which is known to lie above `una` and not beyond `max`. What it says
    /// stays until the cumulative acknowledgement has passed it (RFC 6675 §3).
    //= RFC 6675 §3
    pub(super) fn sack(&mut self, block: SackBlock, mut arrived: impl FnMut(Piece)) {
        if block.left.before(self.scoreboard_end) {
            self.cut(
                block.left,
                block.right.min(self.scoreboard_end),
                &mut arrived,
            );
        }
        if block.right.after(self.scoreboard_end) {
            if block.left.after(self.scoreboard_end) {
                if self.holes.len() >= self.max_holes() {
                    return;
                }
                self.uncover(block.left);
            }
            self.take_sendings(block.right, &mut arrived);
        }
    }

    /// What of the holes lies in `left .. right` has arrived.
    fn cut(&mut self, left: SeqNumber, right: SeqNumber, arrived: &mut impl FnMut(Piece)) {
        let mut from = left;
        while let Some(hole) = self.holes.first_after(from)
            && hole.left.before(right)
        {
            from = hole.right;
            let part = (hole.left.max(left), hole.right.min(right));
            let makes_two = part.0 != hole.left && part.1 != hole.right;
            if makes_two && self.holes.len() >= self.max_holes() {
                return;
            }
            self.holes.cut(&hole, part.0, part.1);
            arrived(Piece {
                right: part.1,
                len: part.1.distance_from(part.0) as u32,
                at: hole.at,
                retransmitted: hole.retransmissions > 0,
                lost: hole.state == State::Lost,
            });
        }
    }

    /// Everything above `scoreboard_end` and up to `to` has arrived.
    fn take_sendings(&mut self, to: SeqNumber, arrived: &mut impl FnMut(Piece)) {
        while let Some(sending) = self.sendings.front() {
            let right = sending.end.min(to);
            arrived(Piece {
                right,
                len: right.distance_from(self.scoreboard_end) as u32,
                at: sending.at,
                retransmitted: false,
                lost: false,
            });
            self.scoreboard_end = right;
            if sending.end.after(to) {
                break;
            }
            self.sendings.pop_front();
            if right == to {
                break;
            }
        }
        self.scoreboard_end = to;
    }

    /// What lies above `scoreboard_end` and below `to` becomes a hole, or several if it was sent at
    /// several times.
    fn uncover(&mut self, to: SeqNumber) {
        if self.holes.is_empty() {
            self.first_flying = self.scoreboard_end;
        }
        while self.scoreboard_end.before(to) {
            let Some(sending) = self.sendings.front().copied() else {
                break;
            };
            let mut hole = Hole {
                left: self.scoreboard_end,
                right: sending.end.min(to),
                at: sending.at,
                state: State::Flying,
                retransmissions: 0,
            };
            self.scoreboard_end = hole.right;
            if sending.end == hole.right {
                self.sendings.pop_front();
            }
            let full = self.holes.len() >= self.max_holes();
            if let Some(last) = self.holes.ending_at(hole.left)
                && last.state == State::Flying
                && (last.at == hole.at || full)
            {
                self.holes.remove(last.right);
                hole.left = last.left;
            }
            self.holes.insert(hole);
        }
    }

    /// Makes `at` the beginning of a hole, if it lies inside one.
    fn split(&mut self, at: SeqNumber) {
        if let Some(hole) = self.holes.first_after(at)
            && hole.left.before(at)
        {
            self.holes.cut(&hole, at, at);
        }
    }
}

#[cfg(test)]
mod tests;
