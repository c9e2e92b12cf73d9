//! What a process still sends on a connection that has moved to another.
//!
//! After a fork a connection belongs to the process that touched it last. The other one learns of
//! that late, and what it has written by then, or writes before it knows, lies in its own memory: it
//! is sent from there, in the order in which it was submitted, as the kernel would send it. The new
//! owner does not count these bytes among its own, so what it is told of acknowledgements leaves
//! them out. Only one former owner at a time has bytes under way; that is the *lender*.

use std::collections::HashMap;

use netdev::Device;
use queue_pair::Completion;
use rustix::io::Errno;
use tcp::{ConnId, Request};

use super::Worker;
use crate::connections::SessionId;
use crate::memory::Memory;
use crate::network::Network;
use crate::session::{EndReason, conn_ref};
use crate::stats::Drop;

/// A former owner in whose memory bytes of a connection lie that are not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Lender {
    owner: SessionId,
    /// Bytes of the connection that must be acknowledged until none of them is the lender's.
    until: u64,
    /// Bytes that the lender itself has submitted on it.
    sent: u64,
}

/// Bytes in a connection's stream that its owner did not send.
#[derive(Debug, Default)]
struct Foreign {
    /// Where each stretch begins, counted over the whole stream, and how long it is.
    stretches: Vec<(u64, u64)>,
    /// Bytes of the whole stream that are acknowledged.
    acked: u64,
}

impl Foreign {
    fn len(&self) -> u64 {
        self.stretches.iter().map(|(_, len)| len).sum()
    }

    /// How many of the first `total` bytes of the stream are the owner's.
    fn own(&self, total: u64) -> u64 {
        let foreign = |(start, len): &(u64, u64)| total.saturating_sub(*start).min(*len);
        total - self.stretches.iter().map(foreign).sum::<u64>()
    }
}

/// Lenders and their bytes, by connection. Empty unless programs fork and share connections.
#[derive(Debug, Default)]
pub(super) struct Late {
    lenders: HashMap<ConnId, Lender>,
    foreign: HashMap<ConnId, Foreign>,
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.lenders.is_empty() && self.foreign.is_empty()
    }

    pub(super) fn has_lender(&self, conn: ConnId) -> bool {
        self.lenders.contains_key(&conn)
    }

    /// The peer has acknowledged `total` bytes: how many of the owner's are that?
    pub(super) fn acknowledged(&mut self, conn: ConnId, total: u64) -> u64 {
        self.foreign.get_mut(&conn).map_or(total, |foreign| {
            foreign.acked = total;
            foreign.own(total)
        })
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Bytes of the whole stream that were submitted, and that are acknowledged.
    fn whole_stream(&self, conn_id: ConnId) -> Option<(u64, u64)> {
        let conn = self.connections.get(conn_id)?;
        Some(match self.late.foreign.get(&conn_id) {
            Some(foreign) => (conn.sent + foreign.len(), foreign.acked),
            None => (conn.sent, conn.acked),
        })
    }

    /// A former owner's send memory is still being read, until everything sent is acknowledged.
    pub(super) fn lend(&mut self, conn_id: ConnId, owner: SessionId) {
        let Some(conn) = self.connections.get(conn_id) else {
            return;
        };
        let sent = conn.sent;
        let Some((until, acked)) = self.whole_stream(conn_id) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(owner)
            && let Some(late) = session.inherited.get_mut(&conn_id)
        {
            *late = sent;
        }
        if until == acked {
            self.notice_released(owner, conn_id, sent);
            self.let_go(owner);
        } else {
            let lender = Lender { owner, until, sent };
            self.late.lenders.insert(conn_id, lender);
        }
    }

    /// A process sends on a connection that has become another's.
    pub(super) fn send_late(
        &mut self,
        id: SessionId,
        conn_id: ConnId,
        (addr, len): (u64, u32),
        more: bool,
    ) -> Result<(), EndReason> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        session.region.send.slice(addr, len as usize)?;
        let known = self.late.lenders.get(&conn_id).copied();
        let extent = Memory::extent(id, addr, len);
        let sent = known.is_none_or(|lender| lender.owner == id)
            && self
                .stack
                .on_request(self.now, conn_id, Request::Send { extent, more })
                .is_ok();
        if !sent {
            self.refuse_late(id, conn_id);
            return Ok(());
        }
        if let Some(conn) = self.connections.get_mut(conn_id) {
            conn.payer.get_or_insert(id);
        }
        self.charge_or_end(id, conn_id);
        let Some((start, acked)) = self.whole_stream(conn_id) else {
            return Ok(());
        };
        let len = u64::from(len);
        let foreign = self.late.foreign.entry(conn_id).or_default();
        foreign.acked = acked;
        match foreign.stretches.last_mut() {
            Some((from, before)) if *from + *before == start => *before += len,
            _ => foreign.stretches.push((start, len)),
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        let Some(own) = session.inherited.get_mut(&conn_id) else {
            return Ok(());
        };
        *own += len;
        session.held += u32::from(known.is_none());
        let lender = Lender {
            owner: id,
            until: start + len,
            sent: *own,
        };
        self.late.lenders.insert(conn_id, lender);
        self.counters.late_sends += 1;
        Ok(())
    }

    /// What a former owner sent cannot be sent: it is told, as of a connection that has failed.
    fn refuse_late(&mut self, id: SessionId, conn_id: ConnId) {
        self.counters.drop(Drop::MovedConnection);
        if let Some(session) = self.sessions.get_mut(id)
            && session.ended.is_none()
        {
            // Every errno is small and positive.
            let errno = Errno::CONNRESET.raw_os_error() as u16;
            let conn = conn_ref(conn_id);
            session
                .notices
                .push_back(Completion::Failed { conn, errno });
        }
    }

    /// Lets a former owner go if everything that lay in its memory is acknowledged.
    pub(super) fn repay(&mut self, conn_id: ConnId) {
        let Some(lender) = self.late.lenders.get(&conn_id).copied() else {
            return;
        };
        if self
            .whole_stream(conn_id)
            .is_none_or(|(_, acked)| acked >= lender.until)
        {
            self.forget_lender(conn_id);
        }
    }

    /// The connection is over.
    pub(super) fn forget_late(&mut self, conn_id: ConnId) {
        self.forget_lender(conn_id);
        self.late.foreign.remove(&conn_id);
    }

    /// The connection refers to no former owner's memory any more.
    fn forget_lender(&mut self, conn_id: ConnId) {
        if let Some(lender) = self.late.lenders.remove(&conn_id) {
            self.notice_released(lender.owner, conn_id, lender.sent);
            self.let_go(lender.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Foreign;

    #[test]
    fn what_the_owner_did_not_send_does_not_count_as_its_own() {
        let foreign = Foreign {
            stretches: vec![(10, 5), (20, 10)],
            acked: 0,
        };
        let own = [0, 10, 12, 15, 20, 25, 30, 40].map(|total| foreign.own(total));
        assert_eq!(own, [0, 10, 10, 10, 15, 15, 15, 25]);
        assert_eq!(foreign.len(), 15);
    }
}
