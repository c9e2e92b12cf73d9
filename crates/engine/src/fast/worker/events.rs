//! From the TCP's events to what hosts are told.

use netdev::Device;
use queue_pair::Completion;
use rustix::io::Errno;
use tcp::{ConnId, ConnUpdate, Event, Failure, Request};

use super::Worker;
use crate::fast::connections::SessionId;
use crate::fast::family::Who;
use crate::fast::session::{EndReason, Session};
use crate::network::{Network, scoped};

/// Failures of a process to open a connection that are remembered for its children: more than one
/// has not read yet when it forks.
const FAILED_OPENS: usize = 64;

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes what the TCP has to say; true if there was anything.
    pub(super) fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Connection(id, update) => self.connection_changed(id, update),
                Event::Acceptable(id) => {
                    let Some(number) = self.listeners.number_of(id) else {
                        continue;
                    };
                    let lacks_memory = |l: &mut crate::fast::listeners::Listener| l.lacks_memory;
                    if self.listeners.get_mut(number).is_some_and(lacks_memory) {
                        // It says so of what was just put back, too, and would for ever.
                        continue;
                    }
                    self.hand_over(number);
                }
                Event::Released(id) => self.released(id),
            }
            any = true;
        }
        any
    }

    #[inline]
    fn connection_changed(&mut self, id: ConnId, update: ConnUpdate) {
        let (conn, new) = self.connections.enter(id);
        if new {
            self.memory.expect_stream(conn.pool);
        }
        let mut opened = false;
        let before = match &conn.family {
            Some(family) => family.acked(),
            None => conn.acked + conn.acked_for_others,
        };
        let progressed = update.acked != before;
        let pays = progressed && conn.payer.is_some();
        if progressed && let Some(path) = conn.path {
            self.paths.progress(path);
        }
        conn.received = update.received;
        conn.send_buffer = update.send_buffer;
        match conn.family.as_mut() {
            Some(family) => family.acknowledged(update.acked),
            None => {
                conn.acked = update.acked - conn.acked_for_others;
                if progressed && self.trace.is_on() {
                    self.trace.acknowledged(id, conn.acked);
                }
            }
        }
        conn.flags.peer_closed = update.peer_closed;
        if update.connected && !conn.flags.connected {
            conn.flags.connected = true;
            conn.flags.tell_opened = conn.flags.active;
            opened = conn.flags.active;
        }
        if let Some(failure) = update.failed {
            conn.failure = errno(failure);
            if conn.flags.active && !conn.flags.connected && !conn.flags.named {
                self.open_failed(id);
                return;
            }
        }
        if conn.family.is_some() {
            Self::queue_family(&mut self.sessions, conn);
            self.settle_family(id);
        } else if conn.flags.closed {
            self.settle_closed(id);
        } else {
            Self::queue(&mut self.sessions, conn);
        }
        if pays {
            self.charge(id);
        }
        if opened {
            self.connections.opened(id);
        }
    }

    /// A connection that a process wanted opened never was. The process does not know its name, so
    /// there is nobody to close it but the engine.
    pub(super) fn open_failed(&mut self, id: ConnId) {
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        let failed = Completion::OpenFailed {
            token: conn.token,
            errno: conn.failure,
        };
        if conn.family.is_some() {
            self.remember_failed(id, failed);
            for who in self.leave_family(id) {
                self.tell_failed(who, id, failed);
                self.let_go(who);
            }
        } else if let Some(owner) = self.detach(id) {
            if let Some(session) = self.sessions.get_mut(owner) {
                session.connections.remove(&id);
            }
            self.tell_failed(owner, id, failed);
            self.let_go(owner);
        }
        self.finish(id, Request::Abort);
    }

    fn tell_failed(&mut self, who: SessionId, conn: ConnId, failed: Completion) {
        self.remember_unshared(who, conn, failed);
        if let Some(session) = self.sessions.get_mut(who)
            && session.ended.is_none()
        {
            session.tell_its_own(failed);
            // The process may fork before it has read this.
            if session.failed_opens.len() == FAILED_OPENS {
                session.failed_opens.pop_front();
            }
            session.failed_opens.push_back(failed);
        }
    }

    /// Dissolves a family; the sessions that were its holders, which the caller lets go.
    fn leave_family(&mut self, id: ConnId) -> Vec<SessionId> {
        let Some(conn) = self.connections.get_mut(id) else {
            return Vec::new();
        };
        let Some(family) = conn.family.take() else {
            return Vec::new();
        };
        conn.owner = None;
        let pool = self.memory.abandon_stream(conn);
        self.let_go_of_pool(pool);
        let sessions: Vec<SessionId> = family
            .holders()
            .iter()
            .filter_map(|holder| match holder.who {
                Who::Session(session) => Some(session),
                Who::Awaited(_) => None,
            })
            .collect();
        for &who in &sessions {
            self.shares_less(who);
            if let Some(session) = self.sessions.get_mut(who) {
                session.connections.remove(&id);
            }
        }
        sessions
    }

    /// The TCP has forgotten a connection.
    fn released(&mut self, id: ConnId) {
        self.charge(id);
        for who in self.leave_family(id) {
            self.notice_released(who, id);
            self.let_go(who);
        }
        if let Some(owner) = self.detach(id) {
            if let Some(session) = self.sessions.get_mut(owner) {
                session.connections.remove(&id);
            }
            self.notice_released(owner, id);
            self.let_go(owner);
        }
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        if let Some(pool) = self.memory.pool(conn.pool) {
            conn.stream.release(pool);
        }
        if let Some(path) = conn.path.take() {
            self.paths.release(path);
        }
        if let Some(of) = self.connections.left_by(id) {
            self.orphans.end(of);
        }
        self.connections.leave(id);
    }

    /// A connection no longer refers to a session's memory.
    pub(super) fn let_go(&mut self, owner: SessionId) {
        if let Some(session) = self.sessions.get_mut(owner) {
            session.held = session.held.saturating_sub(1);
            if session.ended.is_some() && session.held == 0 {
                self.free_session(owner);
            }
        }
    }

    /// Posts what the hosts do not know yet and publishes it; true if anything was posted.
    pub(super) fn post_completions(&mut self) -> bool {
        let mut any = false;
        let mut at = 0;
        while let Some(id) = self.sessions.awake_at(at) {
            at += 1;
            match self.post_completions_of(id) {
                Ok(posted) => any |= posted,
                Err(reason) => self.breaches.push((id, reason)),
            }
        }
        if any && self.trace.is_on() {
            self.trace_told();
        }
        any
    }

    /// What the host of the connection whose sends are followed knows by now.
    #[cold]
    fn trace_told(&mut self) {
        let Some(id) = self.trace.conn() else {
            return;
        };
        match self.connections.get(id) {
            Some(conn) => {
                let left = conn.departures.as_ref().map(|it| it.told);
                self.trace.told(left, conn.told_acked);
            }
            None => self.trace.gone(),
        }
    }

    pub(super) fn post_completions_of(&mut self, id: SessionId) -> Result<bool, EndReason> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(false);
        };
        if session.ended.is_some() || (session.ready.is_empty() && session.notices.is_empty()) {
            return Ok(false);
        }
        let shares = session.shared > 0;
        let (stack, listeners, now) = (&self.stack, &self.listeners, self.now);
        let network = &self.network;
        let ends = |id| {
            let info = stack.info(now, id)?;
            let scope = network.scope_of(info.local.ip());
            Some((scoped(info.local, scope), scoped(info.remote, scope)))
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return Ok(false);
        };
        if session.post_notices()? {
            loop {
                // How far the reader is stands in its own session's memory.
                let read = shares.then(|| self.next_read_so_far(id)).flatten();
                let Some(session) = self.sessions.get_mut(id) else {
                    return Ok(false);
                };
                let Some(next) = session.ready.pop_front() else {
                    break;
                };
                let Some(conn) = self.connections.get_mut(next) else {
                    continue;
                };
                let told = if conn.family.is_some() {
                    let read = read.unwrap_or(conn.stream.consumed());
                    session.tell_holder(id, conn, read, ends)?
                } else if conn.owner == Some(id) {
                    let told = session.tell(conn, ends, |member| listeners.bells_of(member))?;
                    if told {
                        conn.flags.queued = false;
                    }
                    told
                } else {
                    true
                };
                if !told {
                    // It goes on here when the host has made room.
                    session.ready.push_front(next);
                    break;
                }
            }
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return Ok(false);
        };
        self.asked |= core::mem::take(&mut session.asked);
        session.active_at = now;
        Ok(session.publish())
    }

    /// How far the reader of the connection has come that a session is told of next.
    fn next_read_so_far(&self, id: SessionId) -> Option<u64> {
        let next = self.sessions.get(id)?.ready.front()?;
        let conn = self.connections.get(*next)?;
        Some(Self::read_so_far(&self.sessions, conn))
    }

    /// Rings the doorbells of the hosts that sleep and wait for what was told.
    pub(super) fn ring(&mut self) {
        self.ring_each(Session::ring, false);
    }

    /// Rings the doorbells of the hosts that sleep, also for what could wait until now.
    pub(super) fn ring_later(&mut self) {
        self.ring_each(Session::ring_later, true);
    }

    fn ring_each(&mut self, ring: impl Fn(&mut Session) -> u64, is_all: bool) {
        let before = self.counters.doorbells;
        self.sessions.each_awake(|_, session| {
            if session.ended.is_none() {
                self.counters.doorbells += ring(session);
            }
        });
        if self.trace.is_on() {
            let rung = self.counters.doorbells != before;
            self.trace.rings(rung, is_all);
        }
    }
}

/// The errno by which programs know a failure.
pub(super) fn errno(failure: Failure) -> u16 {
    let errno = match failure {
        Failure::Refused => Errno::CONNREFUSED,
        Failure::Reset => Errno::CONNRESET,
        Failure::TimedOut => Errno::TIMEDOUT,
        Failure::HostUnreachable => Errno::HOSTUNREACH,
        Failure::NetworkUnreachable => Errno::NETUNREACH,
        Failure::Aborted => Errno::CONNABORTED,
    };
    // Every errno is small and positive.
    errno.raw_os_error() as u16
}
