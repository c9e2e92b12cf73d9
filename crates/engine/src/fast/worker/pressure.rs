//! When receive memory runs short: first windows shrink, then what is out of order goes, and only
//! then is anything dropped.

use netdev::Device;
use tcp::ConnId;

use super::Worker;
use crate::fast::connections::PoolId;
use crate::network::Network;
use crate::stats::Drop;

/// Connections looked at for one that found no memory.
const LOOKS: u32 = 64;

impl<D: Device, N: Network> Worker<D, N> {
    /// Counts what found no memory because too much is touched already.
    pub(super) fn count_refused_memory(&mut self) {
        let refused = self.memory.refused();
        for _ in core::mem::replace(&mut self.memory_refused, refused)..refused {
            self.counters.drop(Drop::MemoryFull);
        }
        let refused = self.memory.refused_unaccepted();
        for _ in core::mem::replace(&mut self.unaccepted_refused, refused)..refused {
            self.counters.drop(Drop::UnacceptedFull);
        }
    }

    /// Makes room for connections that found none: lets go of what they hold out of order
    /// themselves, or else of what another connection of the same pool does: of the same user's, and of another's if
    /// this one has little. What they are waiting for has a place when it comes again.
    pub(super) fn shed(&mut self) {
        while let Some(id) = self.starved.pop() {
            if !self.shed_connection(id) {
                self.shed_neighbour(id);
            }
        }
    }

    /// Lets go of what a connection holds out of order, if it holds any.
    fn shed_connection(&mut self, id: ConnId) -> bool {
        if self.stack.shed_out_of_order(id) == 0 {
            return false;
        }
        let Some(info) = self.stack.info(self.now, id) else {
            return false;
        };
        if let Some(conn) = self.connections.get_mut(id)
            && let Some(pool) = self.memory.pool(conn.pool)
        {
            conn.stream.shed(pool, info.bytes_received);
        }
        true
    }

    fn shed_neighbour(&mut self, id: ConnId) {
        let Some(own) = self.connections.get(id).map(|conn| conn.pool) else {
            return;
        };
        if self.shed_some(|pool| pool == own) {
            return;
        }
        if self.memory.pool(own).is_some_and(|own| own.has_little()) {
            self.shed_some(|pool| pool.index() == own.index());
        }
    }

    /// Looks a bounded way around for a connection of such a pool that holds something out of order; whether there
    /// was one.
    fn shed_some(&mut self, is_such: impl Fn(PoolId) -> bool) -> bool {
        for _ in 0..LOOKS {
            let slots = self.connections.slots();
            self.shed_hand = (self.shed_hand + 1) % slots.max(1);
            let found = self
                .connections
                .at(self.shed_hand)
                .filter(|conn| is_such(conn.pool) && !conn.stream.is_empty())
                .map(|conn| conn.id);
            if let Some(found) = found
                && self.shed_connection(found)
            {
                return true;
            }
        }
        false
    }
}
