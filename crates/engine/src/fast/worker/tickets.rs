//! Connections on their way from one program to another: [`queue_pair::control::ticket`].
//!
//! A ticket has a share in its connection like the child of a fork that has not attached. So the
//! connection outlives the program that passed it, even if nobody has claimed it yet, and ends when the
//! last copy of the ticket is closed without that. Several processes may claim one ticket, as several
//! may have copies of a descriptor; each is a holder like any other.

use std::collections::HashMap;

use netdev::Device;
use queue_pair::ConnRef;
use rustix::io::Errno;
use tcp::ConnId;

use super::Worker;
use super::submissions::Whose;
use crate::config::shares;
use crate::exchange::Claimed;
use crate::fast::connections::SessionId;
use crate::fast::family::Who;
use crate::fast::session::conn_ref;
use crate::network::Network;
use crate::stats::Drop;

/// A ticket of which there are copies.
#[derive(Debug)]
struct Ticket {
    conn: ConnId,
    /// Whose it counts as: who has passed it.
    uid: u32,
}

/// All tickets.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    by_token: HashMap<u64, Ticket>,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A process passes a connection: the ticket has a share in it from now on. Returns the number of
    /// its grant.
    pub(super) fn issue_ticket(
        &mut self,
        id: SessionId,
        name: ConnRef,
        token: u64,
    ) -> Result<u16, Errno> {
        let (Whose::Own(conn_id) | Whose::Shared(conn_id)) =
            self.named(id, name).map_err(|_| Errno::NOTCONN)?;
        if !self.is_accepted(conn_id) {
            return Err(Errno::NOTCONN);
        }
        let process = &self.sessions.get(id).ok_or(Errno::BADF)?.process;
        let uid = process.uid;
        let holders = self.tickets.by_token.values().map(|ticket| ticket.uid);
        if !shares::has_room_while_scarce(self.config.limits.tickets as usize, uid, holders) {
            self.counters.drop(Drop::TicketsFull);
            return Err(Errno::TOOMANYREFS);
        }
        self.share(conn_id, token);
        let ticket = Ticket { conn: conn_id, uid };
        self.tickets.by_token.insert(token, ticket);
        self.counters.tickets += 1;
        let conn = self.connections.get(conn_id);
        Ok(conn.map_or(0, |conn| conn.grant))
    }

    /// A process shows a ticket: it has the connection from now on.
    pub(super) fn claim_ticket(&mut self, id: SessionId, token: u64) -> Result<Claimed, Errno> {
        let ticket = self.tickets.by_token.get(&token).ok_or(Errno::NOTCONN)?;
        let conn_id = ticket.conn;
        let info = self.stack.info(self.now, conn_id);
        let info = info.ok_or(Errno::NOTCONN)?;
        let conn = self.connections.get_mut(conn_id).ok_or(Errno::NOTCONN)?;
        let family = conn.family.as_mut().ok_or(Errno::NOTCONN)?;
        let is_new = match family.holder_mut(Who::Session(id)) {
            // It was passed to one that has it, which has one more descriptor of it now.
            Some(holder) if !holder.closed => false,
            // Its last bytes from before are still on their way, and counted.
            Some(_) => return Err(Errno::BUSY),
            None => {
                family.join(Who::Session(id));
                self.enter_family(id, conn_id);
                true
            }
        };
        self.counters.tickets_claimed += 1;
        // It looks at once whether there is anything to read.
        if let Err(reason) = self.post_completions_of(id) {
            self.breaches.push((id, reason));
        }
        Ok(Claimed {
            conn: conn_id,
            local: info.local,
            peer: info.remote,
            is_new,
        })
    }

    /// A process has not waited for the connection that it has claimed: it has it no more.
    pub(super) fn disclaim(&mut self, id: SessionId, conn: ConnId) {
        self.counters.tickets_late += 1;
        let name = conn_ref(conn);
        // It may have become its own since, and it may have ended.
        if self.named(id, name).is_err() {
            return;
        }
        let of_it = self.connections.get_mut(conn);
        let family = of_it.and_then(|conn| conn.family.as_mut());
        if let Some(holder) = family.and_then(|family| family.holder_mut(Who::Session(id))) {
            holder.is_unknown = true;
        }
        if let Err(reason) = self.close(id, name, false) {
            self.breaches.push((id, reason));
        }
    }

    /// The last copy of a ticket is closed.
    pub(super) fn end_ticket(&mut self, token: u64) {
        if let Some(ticket) = self.tickets.by_token.remove(&token) {
            self.close_awaited((token, ticket.uid), ticket.conn);
        }
    }
}
