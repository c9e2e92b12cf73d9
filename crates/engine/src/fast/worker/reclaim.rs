//! Memory that sessions do not use any more goes back to the machine, a little at a time.

use netdev::Device;

use super::Worker;
use crate::exchange::{SessionKey, Tale};
use crate::fast::connections::SessionId;
use crate::fast::memory::Reclaim;
use crate::fast::session::Session;
use crate::network::Network;

/// Sessions that are looked at in one go.
const LOOKS: u16 = 512;
/// Sessions whose memory is seen to in one go.
const AT_ONCE: usize = 32;

/// Grows with whatever a session does.
fn activity(session: &Session) -> u64 {
    session.counters.submissions + session.counters.completions
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Looks at some sessions, and has what they do not use given back. Called now and then.
    pub(super) fn reclaim(&mut self) {
        // Others are about to find none: what is free now goes without delay.
        let hurry = self.memory.is_short();
        let slots = self.sessions.slots();
        let mut sent = 0;
        for _ in 0..slots.min(LOOKS) {
            if sent == AT_ONCE {
                break;
            }
            let id = SessionId(self.reclaim_hand % slots);
            self.reclaim_hand = (id.0 + 1) % slots;
            let Some(session) = self.sessions.get(id).filter(|s| s.ended.is_none()) else {
                continue;
            };
            let number = session.number;
            let of = (SessionKey { id, number }, session.process.uid);
            let activity = activity(session);
            if let Some(reclaim) = self.memory.reclaim(of, activity, self.now, hurry) {
                sent += 1;
                self.slow.tell(Tale::Reclaim(Box::new(reclaim)));
            }
        }
    }

    /// What was to be given back is, or cannot be.
    pub(super) fn reclaimed(&mut self, done: &Reclaim) {
        let SessionKey { id, number } = done.session;
        if self.sessions.get(id).is_some_and(|s| s.number == number) {
            self.counters.memory_given_back += self.memory.reclaimed(done);
        }
    }

    /// Whether some session has memory that is to be seen to.
    pub(super) fn is_to_reclaim(&self) -> bool {
        let mut live = self.sessions.iter().filter(|(_, s)| s.ended.is_none());
        live.any(|(id, session)| self.memory.is_restless(id, activity(session)))
    }
}
