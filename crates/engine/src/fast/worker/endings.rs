//! Sessions that end: what each of their connections becomes, some of them at a time, so that nobody waits
//! for the end of a process that had a million.

use netdev::Device;
use tcp::{ConnId, ConnInfo, Request, State};

use super::Worker;
use crate::exchange::{SessionKey, Tale};
use crate::fast::connections::SessionId;
use crate::fast::session::EndReason;
use crate::network::{Network, Steered};
use crate::stats::Drop;

/// Connections that are ended in one go.
const AT_ONCE: usize = 128;

/// A session whose connections are being ended.
#[derive(Debug)]
pub(super) struct Ending {
    id: SessionId,
    reason: EndReason,
    /// Listeners that it had through a fork and had not adopted.
    inherited: Vec<(u32, u32)>,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Ends a session: what it was not going to take goes to others, each of its connections ends as the
    /// kernel would end it, what it had submitted is sent, and its listeners leave. The memory is free when
    /// the last connection has let go of it.
    pub(super) fn end_session(&mut self, id: SessionId, reason: EndReason) {
        let mut reason = reason;
        if !reason.is_breach()
            && let Err(breach) = self.drain(id)
        {
            reason = breach;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.ended.is_some() {
            return;
        }
        session.ended = Some(reason);
        session.ready.clear();
        session.forget_notices();
        session.peeked = None;
        self.held_back.forget(id);
        for returned in self.lent.forget(id) {
            self.slow.tell(returned);
        }
        let inherited = core::mem::take(&mut session.inherited_listeners);
        let (number, client) = (session.number, session.client);
        self.counters.violations += u64::from(reason.is_breach());
        let key = SessionKey { id, number };
        self.slow.tell(Tale::Ended(client, key, reason));
        // The session must not vanish before all of this is done.
        self.hold(id);
        let ending = Ending {
            id,
            reason,
            inherited,
        };
        if self.end_connections_of(&ending) {
            self.end_of(ending);
        } else {
            self.keep_clients_away(id);
            self.endings.push_back(ending);
        }
    }

    /// Goes on with sessions that end; true if there are any.
    pub(super) fn go_on_ending(&mut self) -> bool {
        let Some(ending) = self.endings.pop_front() else {
            return false;
        };
        if self.end_connections_of(&ending) {
            self.end_of(ending);
        } else {
            self.endings.push_back(ending);
        }
        true
    }

    /// Ends some of a session's connections; true if none are left.
    fn end_connections_of(&mut self, ending: &Ending) -> bool {
        for _ in 0..AT_ONCE {
            let session = self.sessions.get_mut(ending.id);
            let Some(conn) = session.and_then(|session| session.connections.pop_first()) else {
                return true;
            };
            self.end_connection_of(ending, conn);
        }
        let session = self.sessions.get(ending.id);
        session.is_none_or(|session| session.connections.is_empty())
    }

    fn end_connection_of(&mut self, ending: &Ending, conn_id: ConnId) {
        let Some(conn) = self.connections.get(conn_id) else {
            return;
        };
        let (shared, closed) = (conn.family.is_some(), conn.flags.closed);
        let reset = ending.reason.is_breach()
            || conn.flags.reset_at_end
            || !conn.flags.connected && conn.flags.active;
        if !closed && !self.is_accepted(conn_id) {
            self.take_back(conn_id);
        } else if shared {
            self.close_shared(ending.id, conn_id, false);
        } else if reset {
            self.close_own(conn_id, Request::Abort);
        } else {
            // What it has read without saying so was not left unread.
            self.take_position(conn_id);
            self.close_own(conn_id, Request::Close);
        }
    }

    /// How a connection ends that this user's program, the last that had it, leaves to the TCP by this request: by RST
    /// where the user has left as many as its share, which others' connections would not find otherwise.
    pub(super) fn leave(
        &mut self,
        user: Option<u32>,
        conn_id: ConnId,
        request: Request,
    ) -> Request {
        let left_by = self.connections.left_by(conn_id);
        let (Request::Close, Some(uid), Some(of)) = (request, user, left_by) else {
            return request;
        };
        if self.orphans.begin(of, uid) {
            return request;
        }
        // What is over needs no RST, and what was left unread ends by one in any case.
        let info = self.stack.info(self.now, conn_id);
        let is_lost = |info: &ConnInfo| {
            !matches!(info.state, State::Closed | State::SynSent) && info.receive_queue == 0
        };
        if info.is_some_and(|info| is_lost(&info)) {
            self.counters.drop(Drop::OrphansOfUser);
        }
        Request::Abort
    }

    /// New clients of listeners from which nobody else accepts are the kernel's meanwhile.
    fn keep_clients_away(&mut self, id: SessionId) {
        let numbers: Vec<u32> = self.listeners.of_session(id).collect();
        for name in numbers {
            let Some(number) = self.listeners.of_member(name) else {
                continue;
            };
            if let Some(listener) = self.listeners.get_mut(number)
                && listener.holds == 0
                && listener.members.iter().all(|m| m.session == id)
            {
                listener.how = Steered::Closing;
                self.steer_as_said(number);
            }
        }
    }

    /// A session has no connections any more: its listeners leave.
    fn end_of(&mut self, ending: Ending) {
        let names: Vec<u32> = self.listeners.of_session(ending.id).collect();
        for name in names {
            self.leave_listener(name);
        }
        for (_, number) in ending.inherited {
            self.drop_hold(number);
        }
        self.let_go(ending.id);
    }
}
