//! The order in which several processes write to one connection.
//!
//! Each has a ring of its own, and the engine looks at one after the other. So what concerns a shared
//! connection carries the time at which it was posted, and before it is done everything older that
//! waits in the rings of others is: what a process does after another's call has returned comes after
//! that call, as in the kernel.
//!
//! What was posted before this is visible here: the other's call had returned, which the process knew
//! by whatever told it, and so its ring was published before this submission was.

use netdev::Device;

use super::Worker;
use crate::connections::SessionId;
use crate::network::Network;

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes, in the order of time, what other processes have submitted before `time` that concerns
    /// connections which they share: what a process does after another's call has returned comes
    /// after it, in whatever order the engine looks at their rings.
    pub(super) fn catch_up(&mut self, time: u64, except: SessionId) {
        let mut budget = self.catch_up_budget();
        while budget > 0 {
            let mut first: Option<(u64, SessionId)> = None;
            for at in 0..self.sharers.len() {
                let id = self.sharers[at];
                if id == except {
                    continue;
                }
                while budget > 0 {
                    let Some(session) = self.sessions.get_mut(id) else {
                        break;
                    };
                    match session.peek() {
                        Ok(Some(submission)) => match submission.time() {
                            Some(at) if at >= time => break,
                            Some(at) => {
                                if first.is_none_or(|(earliest, _)| at < earliest) {
                                    first = Some((at, id));
                                }
                                break;
                            }
                            None => self.take_peeked(id),
                        },
                        Ok(None) => break,
                        Err(violation) => {
                            self.breaches.push((id, violation.into()));
                            break;
                        }
                    }
                    budget -= 1;
                }
            }
            let Some((_, id)) = first else { break };
            self.take_peeked(id);
            budget = budget.saturating_sub(1);
        }
        for at in 0..self.sharers.len() {
            if let Some(session) = self.sessions.get_mut(self.sharers[at])
                && self.sharers[at] != except
            {
                session.region.submissions.release();
            }
        }
    }

    /// Submissions of others that are taken before one: all that can have been there.
    fn catch_up_budget(&self) -> usize {
        let rings = self.sharers.iter().filter_map(|id| self.sessions.get(*id));
        rings
            .map(|s| s.region.submissions.capacity() as usize)
            .sum()
    }

    fn take_peeked(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(submission) = session.peeked.take() else {
            return;
        };
        if let Err(reason) = self.submitted(id, submission) {
            self.breaches.push((id, reason));
        }
    }
}
