//! Connections out to another stack, and in from one (see [`crate::snapshot`]).

use super::Stack;
use crate::connection::Connection;
use crate::info::State;
use crate::snapshot::{ExportError, ImportError, Snapshot};
use crate::{ConnId, Instant};

impl Stack {
    /// Takes a connection out: from now on this stack knows nothing of it, and sends nothing for it. Its
    /// name is void, and no event follows; its memory stays with the owner, for whoever
    /// [imports](Self::import) it. What arrives for it meanwhile must not come here, or it is answered
    /// by RST.
    ///
    /// # Errors
    /// The connection is as before, for the reason given.
    pub fn export(&mut self, now: Instant, id: ConnId) -> Result<Snapshot, ExportError> {
        let c = self
            .connections
            .get(id.index, id.generation)
            .ok_or(ExportError::UnknownConnection)?;
        if matches!(c.state, State::Closed | State::TimeWait) {
            return Err(ExportError::Over);
        }
        if !c.accepted {
            return Err(ExportError::NotAccepted);
        }
        let snapshot = c.export(now);
        if let Some(mut c) = self.connections.remove(id.index) {
            self.flows.remove(&c.key);
            self.lists.wheel.cancel(id.index);
            self.listeners.ended(c.admission, c.key.remote);
            self.orphans -= u32::from(c.orphan);
            self.common.fast_opens.pending -= u32::from(c.fast_open.is_pending());
            self.common.out_of_order_ranges -= u32::from(c.counted_ranges);
            c.give_back_flight(&mut self.common.flights);
        }
        Ok(snapshot)
    }

    /// Puts in a connection that another stack has [exported](Self::export). An event tells where it
    /// stands, and the next [`poll_transmit`](Self::poll_transmit) sends what it owes.
    ///
    /// A path that carries less than the snapshot says, because this stack knows it or its own link is
    /// smaller, is kept to.
    ///
    /// # Errors
    /// Nothing has changed, for the reason given. Whatever the snapshot says, nothing panics.
    pub fn import(&mut self, now: Instant, snapshot: &Snapshot) -> Result<ConnId, ImportError> {
        let key = self.vacant(snapshot.version, snapshot.local, snapshot.remote)?;
        let config = &self.common.config;
        let orphan = snapshot.owner.orphan;
        if self.connections.len() >= config.max_connections
            || (orphan && self.orphans >= config.max_orphans)
        {
            return Err(ImportError::TooManyConnections);
        }
        let mtu = config.mtu;
        let mut c = Connection::import(now, key, snapshot, &mut self.common)
            .map_err(ImportError::Inconsistent)?;
        c.learn_path_mtu(mtu, now);
        self.common.fast_opens.pending += u32::from(c.fast_open.is_pending());
        let id = self.add_connection(now, self.flows.hash(&key), c);
        self.orphans += u32::from(orphan);
        self.settle(id);
        Ok(id)
    }
}
