//! Sessions in which nothing happens rest, where there are many: see [`Sessions`](crate::fast::session::Sessions).

use std::time::Duration;

use netdev::Device;
use queue_pair::Profile;

use super::Worker;
use crate::fast::connections::SessionId;
use crate::fast::session::EndReason;
use crate::network::Network;

/// So many are looked at in every turn whether anything happens in them or not: to look at one takes some
/// nanoseconds, and one that rests has to ring, which takes a microsecond.
const FEW: usize = 32;

/// How long nothing has happened in a session that rests.
const IDLE: Duration = Duration::from_millis(10);

impl<D: Device, N: Network> Worker<D, N> {
    /// Lets idle sessions rest, but for a few. Called now and then.
    pub(super) fn let_idle_rest(&mut self) {
        let mut at = self.sessions.awake();
        while at > 0 && self.sessions.awake() > FEW {
            at -= 1;
            let Some(id) = self.sessions.awake_at(at) else {
                continue;
            };
            match self.may_rest(id) {
                // Another has its place, which was looked at.
                Ok(true) => self.sessions.rest_at(at),
                Ok(false) => {}
                Err(reason) => self.breaches.push((id, reason)),
            }
        }
    }

    fn may_rest(&mut self, id: SessionId) -> Result<bool, EndReason> {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(id) else {
            return Ok(false);
        };
        // Who wants the least latency is looked at in any case.
        let waits = session.region.core.wanted() != Some(Profile::Latency);
        let idle = now.saturating_duration_since(session.active_at);
        Ok(waits && idle >= IDLE && session.may_rest()?)
    }
}
