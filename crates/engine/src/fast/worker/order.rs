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
//! written was written.

use netdev::Device;
use queue_pair::Submission;

use super::Worker;
use super::room::TAKEN;
use crate::fast::connections::SessionId;
use crate::fast::session::EndReason;
use crate::network::Network;
use crate::stats::Drop;

/// Submissions of others that are taken in a turn before those that they come before.
pub(super) const CATCH_UP: usize = 4096;

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
        while self.catch_up_left > 0 || self.only_past {
            match self.oldest_before(time, except) {
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
        done
    }

    /// Who has submitted the oldest of what was submitted before `time`. What has no time is taken on
    /// the way, one at a time, since it can end that a process shares anything.
    fn oldest_before(&mut self, time: u64, except: SessionId) -> Oldest {
        let only_past = self.only_past;
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
            let next = match (session.is_asked_first(), only_past) {
                (Ok(true), true) => session.peek_at_past(),
                (Ok(true), false) => session.peek(),
                (Ok(false), _) => session.is_passed_over().map(|is_passed_over| {
                    if is_passed_over {
                        self.counters.drop(Drop::NotRead);
                    }
                    None
                }),
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
                Err(violation) => {
                    session.broken = true;
                    self.breaches.push((id, violation.into()));
                }
            }
        }
        first.map_or(Oldest::None, |(_, id)| Oldest::Of(id))
    }

    /// From now on what others have submitted comes before something only if it was there by now.
    pub(super) fn note_past(&mut self) {
        self.only_past = true;
        for &id in &self.sharers {
            // Of one that has broken the rules nothing is asked.
            if let Some(session) = self.sessions.get_mut(id)
                && let Err(violation) = session.note_past()
                && !core::mem::replace(&mut session.broken, true)
            {
                self.breaches.push((id, violation.into()));
            }
        }
    }

    fn take_peeked(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(submission) = session.peeked.take() else {
            return;
        };
        session.counters.submissions += 1;
        if let Err(reason) = self.submitted_first(id, submission) {
            if let Some(session) = self.sessions.get_mut(id) {
                session.broken = true;
            }
            self.breaches.push((id, reason));
        }
    }

    /// As [`submitted`](Self::submitted), of what is taken because others wait for it.
    pub(super) fn submitted_first(
        &mut self,
        id: SessionId,
        submission: Submission,
    ) -> Result<(), EndReason> {
        let before = self.sessions.get(id).map_or(0, |it| it.notices.len());
        self.submitted(id, submission)?;
        if let Some(session) = self.sessions.get_mut(id) {
            session.patience.adds(before, session.notices.len());
        }
        Ok(())
    }
}
