//! How long connections wait to be accepted: from the end of their handshake until a process has accepted
//! them.
//!
//! A process accepts what it was offered by one word, and says nothing ([`queue_pair::position`]). So the
//! worker looks, a few words a turn, and when it is told something of a connection for the first time. It may
//! look late, after a sleep; when a process last accepted something it says beside
//! ([`queue_pair::AcceptWord`]).

use netdev::Device;
use tcp::{ConnId, Instant};

use super::Worker;
use crate::network::Network;

/// Offers that are remembered. Of those that are forgotten it is known when they are first used.
pub(super) const UNHEARD: usize = 1024;
/// Offers that are looked at in a turn.
const LOOKS: usize = 8;

impl<D: Device, N: Network> Worker<D, N> {
    /// A connection was offered: whether it is accepted is not told.
    pub(super) fn awaits_accept(&mut self, id: ConnId) {
        if self.unheard.len() == UNHEARD {
            self.unheard.pop_front();
        }
        self.unheard.push_back(id);
    }

    /// Looks which of the connections that were offered have been accepted, of some of them.
    pub(super) fn hear_of_accepts(&mut self) {
        self.hear_of_some_accepts(LOOKS);
    }

    /// The same of all: somebody asks how many there were, and it may be long until the next turn.
    pub(super) fn hear_of_all_accepts(&mut self) {
        self.hear_of_some_accepts(UNHEARD);
    }

    fn hear_of_some_accepts(&mut self, most: usize) {
        for _ in 0..self.unheard.len().min(most) {
            let Some(id) = self.unheard.pop_front() else {
                return;
            };
            let conn = self.connections.get(id);
            // One that has no owner was taken back, and will be offered again.
            if conn.is_none_or(|conn| conn.waits().is_none() || conn.owner.is_none()) {
                continue;
            }
            if self.is_accepted(id) {
                self.accepted(id);
            } else {
                self.unheard.push_back(id);
            }
        }
    }

    /// A connection has been accepted by its owner, now or before.
    pub(super) fn accepted(&mut self, id: ConnId) {
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        let Some(since) = conn.waits() else {
            return;
        };
        conn.set_waits(None);
        let owner = conn.owner.and_then(|owner| self.sessions.get(owner));
        let said = owner.and_then(|owner| owner.region.accepted.last_ns());
        let began = self.common.clock.began_ns();
        let said = said.map(|ns| Instant::from_nanos(ns.saturating_sub(began)));
        // What cannot be is not believed.
        let at = said.filter(|at| *at >= since && *at <= self.now);
        let waited = at.unwrap_or(self.now).saturating_duration_since(since);
        self.counters.accept_waits.record(waited.as_nanos() as u64);
    }
}
