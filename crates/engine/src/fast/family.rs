//! The processes that have one connection together, since a fork, or since it was passed.
//!
//! Every holder writes through its own ring and memory. What they write becomes one stream, and each
//! is told how much of *its own* bytes the peer has acknowledged: their memory is free. Reading is
//! the grant's ([`queue_pair::position`]); here stands only what each holder knows.

use std::collections::VecDeque;

use crate::fast::ids::SessionId;

/// Who has a share in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// An attached process.
    Session(SessionId),
    /// Somebody who is still to come, by a token: the child of a fork that has not attached, or whoever
    /// will claim a ticket.
    Awaited(u64),
}

/// What a holder has done, and what it knows.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    /// Who it is.
    pub who: Who,
    /// Bytes that it has submitted.
    pub sent: u64,
    /// How many of them the peer has acknowledged.
    pub acked: u64,
    /// How many of those it knows of.
    pub told_acked: u64,
    /// What it knows of how much is worth submitting; 0 if it may know less than it should.
    pub told_send_buffer: u32,
    /// Bytes received and not read, and bytes received in all, as it was last told; `None` if it has
    /// to be told whatever they are.
    pub told_elsewhere: Option<(u64, u64)>,
    /// It knows that the peer has closed.
    pub told_closed: bool,
    /// It knows of the failure.
    pub told_failed: bool,
    /// It waits to hear that the connection is open.
    pub tell_opened: bool,
    /// It is to hear what O_NONBLOCK is by now.
    pub tell_mode: bool,
    /// It stands in its session's list of those with something to tell.
    pub queued: bool,
    /// It has closed the connection: only its last bytes are still on their way.
    pub closed: bool,
    /// The process was never told that it has it, and hears nothing of its end.
    pub is_unknown: bool,
}

impl Holder {
    fn new(who: Who) -> Self {
        Self {
            who,
            sent: 0,
            acked: 0,
            told_acked: 0,
            told_send_buffer: 0,
            told_elsewhere: None,
            told_closed: false,
            told_failed: false,
            tell_opened: false,
            tell_mode: false,
            queued: false,
            closed: false,
            is_unknown: false,
        }
    }

    /// Whether nothing of its memory is read any more.
    pub fn is_drained(&self) -> bool {
        self.sent == self.acked
    }
}

/// Consecutive bytes of the stream that are one holder's.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// Where in the whole stream they end.
    end: u64,
    whose: SessionId,
}

/// All holders of a connection.
#[derive(Debug)]
pub struct Family {
    holders: Vec<Holder>,
    /// Whose the bytes under way are, in the order of the stream. Neighbours differ, so there are no
    /// more than the TCP has extents.
    flight: VecDeque<Stretch>,
    /// Bytes submitted by whomever since the connection began.
    sent: u64,
    /// How many of them are acknowledged.
    acked: u64,
}

impl Family {
    /// A family of one, which has sent `own_sent` bytes, `own_acked` of which are acknowledged, on a
    /// stream of which `acked` are.
    pub fn of_one(who: SessionId, own_sent: u64, own_acked: u64, acked: u64) -> Self {
        let under_way = own_sent - own_acked;
        let mut family = Self {
            holders: vec![Holder {
                sent: own_sent,
                acked: own_acked,
                ..Holder::new(Who::Session(who))
            }],
            flight: VecDeque::new(),
            sent: acked + under_way,
            acked,
        };
        if under_way > 0 {
            family.flight.push_back(Stretch {
                end: family.sent,
                whose: who,
            });
        }
        family
    }

    /// One holder more, who knows nothing yet.
    pub fn join(&mut self, who: Who) -> &mut Holder {
        self.holders.push(Holder::new(who));
        let last = self.holders.len() - 1;
        &mut self.holders[last]
    }

    /// A child has attached: what was held for it is its session's.
    pub fn rename(&mut self, token: u64, session: SessionId) -> bool {
        let holder = self
            .holders
            .iter_mut()
            .find(|h| h.who == Who::Awaited(token));
        holder.map(|h| h.who = Who::Session(session)).is_some()
    }

    /// The holder, if it is one and has not closed.
    pub fn open_holder(&self, who: Who) -> Option<&Holder> {
        self.holders.iter().find(|h| h.who == who && !h.closed)
    }

    /// The holder, closed or not.
    pub fn holder_mut(&mut self, who: Who) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|h| h.who == who)
    }

    /// All holders.
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// All holders.
    pub fn holders_mut(&mut self) -> &mut [Holder] {
        &mut self.holders
    }

    /// How many have not closed.
    pub fn open(&self) -> usize {
        self.holders.iter().filter(|h| !h.closed).count()
    }

    /// The one holder that is left, if it is a process.
    pub fn last_one(&self) -> Option<SessionId> {
        match self.holders[..] {
            [
                Holder {
                    who: Who::Session(session),
                    closed: false,
                    ..
                },
            ] => Some(session),
            _ => None,
        }
    }

    /// The only one that has not closed, if it is a process.
    pub fn only_open(&self) -> Option<SessionId> {
        let mut open = self.holders.iter().filter(|h| !h.closed);
        match (open.next().map(|h| h.who), open.next()) {
            (Some(Who::Session(session)), None) => Some(session),
            _ => None,
        }
    }

    /// Takes a holder out; nothing of its memory is read any more.
    pub fn leave(&mut self, who: Who) {
        self.holders.retain(|h| h.who != who);
    }

    /// A holder has submitted `len` bytes.
    pub fn sends(&mut self, whose: SessionId, len: u64) {
        self.sent += len;
        if let Some(holder) = self.holder_mut(Who::Session(whose)) {
            holder.sent += len;
        }
        match self.flight.back_mut() {
            Some(last) if last.whose == whose => last.end = self.sent,
            _ => self.flight.push_back(Stretch {
                end: self.sent,
                whose,
            }),
        }
    }

    /// The peer has acknowledged `total` bytes of the stream.
    pub fn acknowledged(&mut self, total: u64) {
        let total = total.min(self.sent);
        while self.acked < total
            && let Some(first) = self.flight.front().copied()
        {
            let upto = first.end.min(total);
            let count = upto - self.acked;
            self.acked = upto;
            if let Some(holder) = self.holder_mut(Who::Session(first.whose)) {
                holder.acked += count;
            }
            if first.end == upto {
                self.flight.pop_front();
            }
        }
    }

    /// Bytes of the whole stream that are acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn acked(family: &mut Family, who: SessionId) -> u64 {
        family.holder_mut(Who::Session(who)).expect("there").acked
    }

    #[test]
    fn everyone_is_told_of_his_own_bytes() {
        // A has sent 100 bytes, 40 of them acknowledged.
        let mut family = Family::of_one(A, 100, 40, 40);
        family.join(Who::Session(B));
        family.sends(B, 10);
        family.sends(B, 5);
        family.sends(A, 7);
        family.acknowledged(90);
        assert_eq!((acked(&mut family, A), acked(&mut family, B)), (90, 0));
        family.acknowledged(112);
        assert_eq!((acked(&mut family, A), acked(&mut family, B)), (100, 12));
        family.acknowledged(122);
        assert_eq!((acked(&mut family, A), acked(&mut family, B)), (107, 15));
        assert!(family.holders().iter().all(Holder::is_drained));
        assert!(family.flight.is_empty());
    }

    #[test]
    fn writers_that_alternate_leave_nothing_behind() {
        let mut family = Family::of_one(A, 0, 0, 0);
        family.join(Who::Session(B));
        for turn in 0..10_000 {
            family.sends(if turn % 2 == 0 { A } else { B }, 1);
            // All but the last ten are acknowledged.
            family.acknowledged(family.sent.saturating_sub(10));
            assert!(family.flight.len() <= 11, "{}", family.flight.len());
        }
        family.acknowledged(u64::MAX);
        assert!(family.flight.is_empty());
        assert_eq!(
            (acked(&mut family, A), acked(&mut family, B)),
            (5_000, 5_000)
        );
    }

    #[test]
    fn a_family_goes_on_where_the_one_before_it_ended() {
        // The stream is at 1,000 where this holder has sent 30 bytes, 20 acknowledged.
        let mut family = Family::of_one(B, 30, 20, 1000);
        family.acknowledged(1005);
        assert_eq!(acked(&mut family, B), 25);
        family.acknowledged(u64::MAX);
        assert_eq!((acked(&mut family, B), family.acked()), (30, 1010));
    }

    #[test]
    fn bytes_of_one_who_has_left_still_count_in_the_stream() {
        let mut family = Family::of_one(A, 0, 0, 0);
        family.join(Who::Session(B));
        family.sends(A, 5);
        family.sends(B, 5);
        family.leave(Who::Session(A));
        family.acknowledged(7);
        assert_eq!(acked(&mut family, B), 2);
    }

    #[test]
    fn who_is_left_is_known() {
        let mut family = Family::of_one(A, 0, 0, 0);
        assert_eq!(family.last_one(), Some(A));
        family.join(Who::Awaited(9));
        assert_eq!((family.last_one(), family.open()), (None, 2));
        family.holder_mut(Who::Session(A)).expect("there").closed = true;
        assert_eq!(family.only_open(), None, "a child that has not attached");
        assert!(family.rename(9, B) && !family.rename(9, B));
        assert_eq!(family.only_open(), Some(B));
        assert_eq!(family.last_one(), None, "A is not drained");
        family.leave(Who::Session(A));
        assert_eq!(family.last_one(), Some(B));
        assert!(family.open_holder(Who::Session(A)).is_none());
    }
}
