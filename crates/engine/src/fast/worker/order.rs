//! The order in which several processes write to one connection.
//!
//! Each has a ring of its own, and the engine looks at one after the other. So what concerns a shared
//! connection carries the time at which it was posted, and before it is done everything older that
//! waits in the rings of others is: what a process does after another's call has returned comes after
//! that call, as in the kernel.
//!
//! What was posted before this is visible here: the other's call had returned, which the process knew
//! by whatever told it, and so its ring was published before this submission was.
//!
//! Nobody is passed over because it reads nothing of what it is told: it may be stopped, or busy, and what it has
//! written was written. And nobody waits for ever for others who go on in the name of a time that has passed: who has
//! to wait for the next turn waits, with all that is in its ring, for what is [there by then](Held), and for nothing
//! that comes later.

use netdev::Device;
use queue_pair::Violation;

use super::Worker;
use super::room::{BUDGET, TAKEN};
use crate::fast::connections::SessionId;
use crate::fast::session::{EndReason, Past, Session};
use crate::network::Network;
use crate::stats::Drop;

/// Submissions of others that are taken in a turn before those that they come before.
pub(super) const CATCH_UP: usize = 4096;

/// Submissions of a session that wait together for what others have by then: those of a turn.
const ROUND: u32 = BUDGET as u32;

/// Sessions whose submissions are held because others have too much that comes before.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What was next in their rings when the past was last noted, as much as is taken in a turn, waits for what was in
    /// those of others then. Not all: whoever has to wait since waits for that, too, and somebody can keep his ring full.
    in_past: Vec<SessionId>,
    /// They have begun to wait since, and for that the past is noted anew when the others have gone on.
    since: Vec<SessionId>,
}

impl Held {
    fn waits(&mut self, id: SessionId) {
        if !self.in_past.contains(&id) && !self.since.contains(&id) {
            self.since.push(id);
        }
    }

    fn is_empty(&self) -> bool {
        self.in_past.is_empty() && self.since.is_empty()
    }

    /// It waits for nothing.
    pub fn forget(&mut self, id: SessionId) {
        self.in_past.retain(|held| *held != id);
        self.since.retain(|held| *held != id);
    }
}

/// Whose turn it is.
enum Oldest {
    /// This session's.
    Of(SessionId),
    /// Something was taken that has no time.
    LookAgain,
    /// Nobody's: there is nothing older.
    None,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes, in the order of time, what other processes have submitted before `time` that concerns
    /// connections which they share: what a process does after another's call has returned comes
    /// after it, in whatever order the engine looks at their rings. False: it was too much for one
    /// turn, and goes on in the next.
    ///
    /// Where only the [past](Worker::drain) counts it is never too much: that is finite.
    pub(super) fn catch_up(&mut self, time: u64, except: SessionId) -> bool {
        let mut done = false;
        let past = self.past_before(except);
        while self.catch_up_left > 0 || self.only_past {
            match self.oldest_before(time, except, past) {
                Oldest::Of(id) => self.take_peeked(id),
                Oldest::LookAgain => {}
                Oldest::None => {
                    done = true;
                    break;
                }
            }
            self.catch_up_left = self.catch_up_left.saturating_sub(1);
            let looks = !self.only_past && self.catch_up_left.is_multiple_of(TAKEN);
            if looks && self.taking.is_over() {
                break;
            }
        }
        for &id in &self.sharers {
            if let Some(session) = self.sessions.get_mut(id)
                && id != except
            {
                session.region.submissions.release();
            }
        }
        match done {
            true => self.goes_on(except),
            false => self.held_back.waits(except),
        }
        done
    }

    /// Which past counts for what a session has submitted that was just taken out of its ring, if only that does.
    fn past_before(&mut self, id: SessionId) -> Option<Past> {
        if self.only_past {
            return Some(Past::OfLastWords);
        }
        if !self.held_back.in_past.contains(&id) {
            return None;
        }
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.was_in(Past::Waiting)) {
            return Some(Past::Awaited);
        }
        // It has come later.
        self.held_back.forget(id);
        None
    }

    /// A session waits no longer for what comes before the one that was last taken out of its ring.
    fn goes_on(&mut self, id: SessionId) {
        if self.held_back.is_empty() {
            return;
        }
        self.held_back.since.retain(|held| *held != id);
        // What was there with it has nothing else to wait for.
        let session = self.sessions.get(id);
        if !session.is_some_and(|session| session.has_more_in(Past::Waiting)) {
            self.held_back.in_past.retain(|held| *held != id);
        }
    }

    /// Before submissions are taken anew: whose wait since an earlier time wait for what is there by now. `asks` is
    /// whose are taken for an order.
    pub(super) fn bound_waiting(&mut self, asks: Option<SessionId>) {
        if self.held_back.is_empty() {
            return;
        }
        let sessions = &self.sessions;
        let is_asked = |id: SessionId| {
            let session = sessions.get(id).filter(|it| !it.broken);
            session.filter(|it| it.is_heard() || asks == Some(id))
        };
        self.held_back.in_past.retain(|id| {
            let waits = |it: &Session| it.peeked.is_some() || it.has_more_in(Past::Waiting);
            is_asked(*id).is_some_and(waits)
        });
        if !self.held_back.in_past.is_empty() {
            return;
        }
        let waits = |id: &SessionId| is_asked(*id).is_some_and(|it| it.peeked.is_some());
        self.held_back.since.retain(waits);
        if self.held_back.since.is_empty() {
            return;
        }
        let waiting = core::mem::take(&mut self.held_back.since);
        // First what waits: what others had submitted before that is there to be seen then.
        for &id in &waiting {
            self.note(id, |session| session.note_past_within(Past::Waiting, ROUND));
        }
        self.held_back.in_past = waiting;
        self.note_ends(Past::Awaited);
    }

    /// Who has submitted the oldest of what was submitted before `time`. What has no time is taken on
    /// the way, one at a time, since it can end that a process shares anything.
    fn oldest_before(&mut self, time: u64, except: SessionId, past: Option<Past>) -> Oldest {
        let mut first: Option<(u64, SessionId)> = None;
        for at in 0..self.sharers.len() {
            let id = self.sharers[at];
            if id == except {
                continue;
            }
            let Some(session) = self.sessions.get_mut(id) else {
                continue;
            };
            // One that has broken the rules is not asked at all.
            if session.ended.is_some() || session.broken {
                continue;
            }
            let next = match (session.is_asked_first(), past) {
                (Ok(true), Some(past)) => session.peek_at_past(past),
                (Ok(true), None) => session.peek(),
                (Ok(false), _) => self.pass_over(id).map(|()| None),
                (Err(violation), _) => Err(violation),
            };
            match next {
                Ok(Some(submission)) => match submission.time() {
                    Some(at) if at >= time => {}
                    Some(at) => {
                        if first.is_none_or(|(earliest, _)| at < earliest) {
                            first = Some((at, id));
                        }
                    }
                    None => {
                        self.take_peeked(id);
                        return Oldest::LookAgain;
                    }
                },
                Ok(None) => {}
                Err(violation) => self.breaks_rules(id, violation.into()),
            }
        }
        first.map_or(Oldest::None, |(_, id)| Oldest::Of(id))
    }

    /// From now on what others have submitted comes before something only if it was there by now.
    pub(super) fn note_past(&mut self) {
        self.only_past = true;
        self.note_ends(Past::OfLastWords);
    }

    fn note_ends(&mut self, past: Past) {
        for at in 0..self.sharers.len() {
            self.note(self.sharers[at], |session| session.note_past(past));
        }
    }

    fn note(&mut self, id: SessionId, past: impl FnOnce(&mut Session) -> Result<(), Violation>) {
        if let Some(session) = self.sessions.get_mut(id)
            && let Err(violation) = past(session)
        {
            self.breaks_rules(id, violation.into());
        }
    }

    /// A session has broken the rules: nothing is asked of it any more, and it ends with this turn. It may do so
    /// again until then, and ends for the first reason.
    pub(super) fn breaks_rules(&mut self, id: SessionId, reason: EndReason) {
        if let Some(session) = self.sessions.get_mut(id)
            && !core::mem::replace(&mut session.broken, true)
        {
            self.breaches.push((id, reason));
        }
    }

    /// What a session has submitted does not come first, because it reads nothing: that is counted if others may
    /// overtake something by it.
    pub(super) fn pass_over(&mut self, id: SessionId) -> Result<(), Violation> {
        if let Some(session) = self.sessions.get_mut(id)
            && session.is_passed_over()?
        {
            self.counters.drop(Drop::NotRead);
        }
        Ok(())
    }

    fn take_peeked(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(submission) = session.peeked.take() else {
            return;
        };
        session.counters.submissions += 1;
        self.goes_on(id);
        let submitted = self.submitted(id, submission);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.shared == 0 {
            // It shares nothing any more, and nobody else makes room in its ring: full, it stays so for ever.
            session.region.submissions.release();
        }
        if let Err(reason) = submitted {
            self.breaks_rules(id, reason);
        }
    }
}
