//! Handing connections from listeners to processes, and taking them back; moving them from one
//! process to another after a fork.

use netdev::Device;
use queue_pair::{Completion, ConnRef};
use rustix::io::Errno;
use tcp::{ConnId, Request};

use super::Worker;
use super::submissions::{EVERYTHING, Whose};
use crate::connections::{PoolId, SessionId};
use crate::network::Network;
use crate::session::EndReason;

/// What a process needs to know of a connection that has become its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adopted {
    /// Bytes consumed so far.
    pub consumed: u64,
    /// Bytes submitted so far.
    pub sent: u64,
    /// Bytes acknowledged so far.
    pub acked: u64,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Hands the connections that wait in a listener to the processes that are willing.
    pub(super) fn hand_over(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        let stack_id = listener.id;
        while self.stack.waiting(stack_id) > 0 {
            let Some(listener) = self.listeners.get_mut(number) else {
                return;
            };
            if !listener.has_willing_member() {
                self.tell_waiting(number);
                return;
            }
            let Some(conn) = self.stack.accept(stack_id) else {
                return;
            };
            if !self.hand_to_some(conn, number) {
                // Nobody has memory for what it has received: it waits until some is given back.
                self.stack.give_back(self.now, stack_id, conn);
                if let Some(listener) = self.listeners.get_mut(number)
                    && !core::mem::replace(&mut listener.lacks_memory, true)
                {
                    if self.lacking_memory.is_empty() {
                        self.lacked_at = self.memory.available();
                    }
                    self.lacking_memory.push(number);
                }
                return;
            }
        }
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.told_waiting = false;
        }
    }

    /// Tries once more where connections wait for memory of the processes, if some was given back
    /// since the last time.
    pub(super) fn hand_over_again(&mut self) {
        if self.lacking_memory.is_empty() {
            return;
        }
        let available = self.memory.available();
        if core::mem::replace(&mut self.lacked_at, available) == available {
            return;
        }
        for number in core::mem::take(&mut self.lacking_memory) {
            if let Some(listener) = self.listeners.get_mut(number) {
                listener.lacks_memory = false;
                self.hand_over(number);
            }
        }
    }

    /// Gives a connection to the first willing process, in turn, that has memory for it; false if
    /// none has.
    fn hand_to_some(&mut self, conn: ConnId, number: u32) -> bool {
        let members = self.listeners.get_mut(number);
        for _ in 0..members.map_or(0, |listener| listener.members.len()) {
            let willing = self.listeners.get_mut(number);
            let Some(member) = willing.and_then(|listener| listener.willing_member()) else {
                return false;
            };
            let session = member.session;
            if self.hand_to(session, conn, number) {
                let listener = self.listeners.get_mut(number);
                if let Some(member) = listener.and_then(|listener| listener.member(session)) {
                    member.handed = member.handed.wrapping_add(1);
                }
                return true;
            }
        }
        false
    }

    /// Gives a connection to a session; false if the session has no memory for it.
    fn hand_to(&mut self, session: SessionId, id: ConnId, listener: u32) -> bool {
        let (conn, new) = self.connections.enter(id);
        if new {
            self.memory.expect_stream(conn.pool);
        }
        let pool = PoolId::of(session);
        let Some((from, to)) = self.memory.two_pools(conn.pool, pool) else {
            return false;
        };
        if !conn.stream.move_to(from, to) {
            return false;
        }
        conn.pool = pool;
        conn.owner = Some(session);
        conn.listener = listener;
        conn.announced = conn.stream.consumed();
        conn.told_acked = conn.acked;
        conn.flags.tell_accepted = true;
        conn.flags.taken = false;
        conn.flags.told_closed = false;
        conn.flags.told_failed = false;
        Self::queue(&mut self.sessions, conn);
        if let Some(session) = self.sessions.get_mut(session) {
            session.held += 1;
        }
        self.counters.handed += 1;
        true
    }

    /// Tells the processes of a listener, none of which is willing, that connections wait.
    fn tell_waiting(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        if listener.told_waiting {
            return;
        }
        listener.told_waiting = true;
        let waiting = u32::try_from(self.stack.waiting(listener.id)).unwrap_or(u32::MAX);
        let notice = Completion::Backlog {
            listener: number,
            waiting,
        };
        for member in &listener.members {
            if let Some(session) = self.sessions.get_mut(member.session)
                && session.ended.is_none()
            {
                session.notices.push_back(notice);
            }
        }
    }

    /// A process is willing to be handed connections.
    pub(super) fn credit(
        &mut self,
        id: SessionId,
        number: u32,
        total: u32,
    ) -> Result<(), EndReason> {
        let Some(member) = self.listeners.get_mut(number).and_then(|l| l.member(id)) else {
            return Err(EndReason::ForeignListener(number));
        };
        // A total that falls is an old one.
        if total.wrapping_sub(member.credit) <= u32::MAX / 2 {
            member.credit = total;
        }
        self.hand_over(number);
        Ok(())
    }

    /// A process gives a connection back that its program never accepted.
    pub(super) fn give_back(&mut self, id: SessionId, name: ConnRef) -> Result<(), EndReason> {
        let Whose::Own(conn_id) = self.named(id, name)? else {
            return Ok(());
        };
        if self.connections.get(conn_id).is_some_and(|c| c.flags.taken) {
            // Not an untouched one: there is no way back.
            self.close_own(conn_id, Request::Close);
            return Ok(());
        }
        self.notice_released(id, conn_id, EVERYTHING);
        self.take_back(conn_id);
        Ok(())
    }

    /// Takes an untouched connection back into its listener's queue; if the listener is gone, or
    /// there is no memory for what it has received, it ends by RST, as in the kernel.
    pub(super) fn take_back(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let Some(owner) = conn.owner.take() else {
            return;
        };
        let number = conn.listener;
        let moved = match self.memory.two_pools(conn.pool, PoolId::ENGINE) {
            Some((from, to)) => conn.stream.move_to(from, to),
            None => false,
        };
        if moved {
            conn.pool = PoolId::ENGINE;
            conn.flags = crate::connections::Flags {
                connected: conn.flags.connected,
                peer_closed: conn.flags.peer_closed,
                ..Default::default()
            };
            conn.announced = conn.stream.consumed();
            self.let_go(owner);
            let stack_id = self.listeners.get_mut(number).map(|l| l.id);
            let queued = stack_id.is_some_and(|id| self.stack.give_back(self.now, id, conn_id));
            if queued {
                self.counters.given_back += 1;
                return;
            }
        } else {
            // Its bytes stay where they are until it has ended.
            conn.owner = Some(owner);
            self.close_own(conn_id, Request::Abort);
            return;
        }
        self.finish(conn_id, Request::Abort);
    }

    /// Its owner has closed a connection that other processes still have: it waits for one of them.
    pub(super) fn park(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let Some(owner) = conn.owner.take() else {
            return;
        };
        conn.flags.queued = false;
        let moved = match self.memory.two_pools(conn.pool, PoolId::ENGINE) {
            Some((from, to)) => conn.stream.move_to(from, to),
            None => false,
        };
        if moved {
            conn.pool = PoolId::ENGINE;
            conn.announced = conn.stream.consumed();
            self.lend(conn_id, owner);
        } else {
            // No memory to keep it in: it ends here, for everybody.
            conn.owner = Some(owner);
            conn.shares = 0;
            self.close_own(conn_id, Request::Abort);
        }
    }

    /// One reference less to a connection that came through a fork.
    pub(super) fn drop_share(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        conn.shares = conn.shares.saturating_sub(1);
        if conn.shares == 0 && conn.owner.is_none() {
            self.finish(conn_id, Request::Close);
        }
    }

    /// Makes a connection that a session inherited its own.
    pub(super) fn adopt(&mut self, id: SessionId, name: ConnRef) -> Result<Adopted, Errno> {
        let conn_id = ConnId {
            index: name.index,
            generation: name.generation,
        };
        let inherited = self
            .sessions
            .get(id)
            .is_some_and(|session| session.inherited.contains_key(&conn_id));
        if !inherited {
            return Err(Errno::BADF);
        }
        if self.late.has_lender(conn_id) {
            // Two former owners at once are not kept track of; the first is done in a moment.
            return Err(Errno::AGAIN);
        }
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return Err(Errno::BADF);
        };
        let pool = PoolId::of(id);
        let moved = match self.memory.two_pools(conn.pool, pool) {
            Some((from, to)) => conn.stream.move_to(from, to),
            None => false,
        };
        if !moved {
            return Err(Errno::NOMEM);
        }
        conn.pool = pool;
        let former = conn.owner.replace(id);
        if former.is_none() {
            conn.shares = conn.shares.saturating_sub(1);
        }
        conn.announced = conn.stream.consumed();
        conn.told_acked = conn.acked;
        conn.flags.taken = true;
        conn.flags.told_closed = false;
        conn.flags.told_failed = false;
        conn.flags.queued = false;
        conn.flags.closed = false;
        let adopted = Adopted {
            consumed: conn.stream.consumed(),
            sent: conn.sent,
            acked: conn.acked,
        };
        Self::queue(&mut self.sessions, conn);
        if let Some(session) = self.sessions.get_mut(id) {
            session.inherited.remove(&conn_id);
            session.held += 1;
        }
        if let Some(former) = former {
            if let Some(session) = self.sessions.get_mut(former) {
                // It keeps its reference, as one that it inherited.
                session.inherited.insert(conn_id, 0);
            }
            self.lend(conn_id, former);
        }
        self.counters.adopted += 1;
        Ok(adopted)
    }
}
