//! The life of sessions: a process attaches, forks, ends.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use netdev::Device;
use queue_pair::doorbell::{self, Bell};
use queue_pair::{Layout, Sizes, region};
use rustix::io::Errno;
use tcp::{ConnId, Request};

use super::Worker;
use super::submissions::EVERYTHING;
use crate::connections::SessionId;
use crate::network::Network;
use crate::session::{EndReason, MAX_WAKERS, Process, Session, SessionCounters};
use crate::stats::Drop;

/// Most forks of which the child has neither attached nor ended.
const MAX_FORKS: usize = 1024;

/// References that a child which has not attached yet has on its parent's connections.
#[derive(Debug)]
struct Fork {
    connections: Vec<ConnId>,
    listeners: Vec<u32>,
}

/// All such children.
#[derive(Debug, Default)]
pub(super) struct Forks {
    by_token: HashMap<u64, Fork>,
}

/// Why a process cannot attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSession {
    /// The engine is about to end.
    #[error("the engine is stopping")]
    Stopping,
    /// Its user has as many as one may have.
    #[error("its user has as many sessions as limits.sessions_per_user allows")]
    OfUser,
    /// All places are taken.
    #[error("there are as many sessions as limits.sessions allows")]
    Full,
    /// The kernel gives no memory, or no descriptors.
    #[error("the kernel gives no memory for a session: {0}")]
    Kernel(Errno),
}

impl NoSession {
    /// The errno to answer with.
    pub(super) fn errno(self) -> Errno {
        match self {
            Self::Stopping | Self::OfUser | Self::Full => Errno::AGAIN,
            Self::Kernel(errno) => errno,
        }
    }
}

/// What a process that attaches is given.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Its slot.
    pub id: SessionId,
    /// For people.
    pub number: u32,
    /// The region.
    pub region: OwnedFd,
    /// The engine's doorbell, to ring.
    pub doorbell: OwnedFd,
    /// Its own first doorbell, to hear.
    pub waker: OwnedFd,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A process attaches. `fork_token` names the references that its parent took for it.
    pub(super) fn attach(
        &mut self,
        process: Process,
        pidfd: Option<OwnedFd>,
        fork_token: Option<u64>,
    ) -> Result<Attachment, NoSession> {
        let limits = &self.config.limits;
        // Those that have ended count while they hold memory: else a user could have any number.
        let of_user = |s: &Session| s.process.uid == process.uid;
        let sessions_of_user = self.sessions.iter().filter(|(_, s)| of_user(s)).count();
        if self.stopping {
            return Err(NoSession::Stopping);
        }
        if sessions_of_user >= limits.sessions_per_user as usize {
            self.counters.drop(Drop::SessionsOfUser);
            return Err(NoSession::OfUser);
        }
        let Some(id) = self.sessions.vacancy(limits.sessions as usize) else {
            self.counters.drop(Drop::SessionsFull);
            return Err(NoSession::Full);
        };
        let page = u64::from(queue_pair::RECEIVE_CHUNK);
        let layout = Layout::new(Sizes {
            submission_entries: limits.ring_entries,
            completion_entries: limits.ring_entries,
            send_len: u64::from(limits.send_area).next_multiple_of(page),
            receive_len: u64::from(limits.receive_area).next_multiple_of(page),
        })
        .map_err(|_| NoSession::Kernel(Errno::INVAL))?;
        let io = |error: std::io::Error| {
            NoSession::Kernel(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))
        };
        let (region, engine_side) = region::create(&layout).map_err(io)?;
        let (doorbell, bell) = doorbell::pair().map_err(io)?;
        let (waker, hears) = doorbell::pair().map_err(io)?;
        let (mut inherited, mut inherited_listeners) = (HashMap::new(), Vec::new());
        if let Some(fork) = fork_token.and_then(|token| self.forks.by_token.remove(&token)) {
            inherited.extend(fork.connections.into_iter().map(|conn| (conn, 0)));
            inherited_listeners = fork.listeners;
        }
        self.counters.sessions += 1;
        // Never reused within an engine's life, short of four billion attachments.
        let number = self.counters.sessions as u32;
        self.memory.add(id, &engine_side);
        tracing::info!(
            session = number,
            pid = process.pid,
            program = process.program,
            "attached"
        );
        self.sessions.insert(
            id,
            Session {
                number,
                process,
                region: engine_side,
                bell,
                wakers: vec![waker],
                pidfd,
                ready: VecDeque::new(),
                notices: VecDeque::new(),
                held: 0,
                extents: 0,
                inherited,
                inherited_listeners,
                urgent: false,
                unhurried: false,
                ended: None,
                counters: SessionCounters::default(),
            },
        );
        Ok(Attachment {
            id,
            number,
            region,
            doorbell: doorbell.into(),
            waker: hears.into(),
        })
    }

    /// One more doorbell for a host; its bit and what the host hears it by.
    pub(super) fn add_waker(&mut self, id: SessionId) -> Result<(u32, OwnedFd), Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        if session.wakers.len() >= MAX_WAKERS {
            return Err(Errno::MFILE);
        }
        let (ringer, hears) = doorbell::pair()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
        session.wakers.push(ringer);
        Ok((session.wakers.len() as u32 - 1, hears.into()))
    }

    /// A process is about to fork: its child gets a reference on everything it has.
    pub(super) fn fork(&mut self, id: SessionId, token: u64) -> Result<(), Errno> {
        if self.forks.by_token.len() >= MAX_FORKS {
            return Err(Errno::AGAIN);
        }
        let session = self.sessions.get(id).ok_or(Errno::BADF)?;
        let mut connections: Vec<ConnId> = session.inherited.keys().copied().collect();
        let mut listeners = session.inherited_listeners.clone();
        connections.extend(
            self.connections
                .iter()
                .filter(|c| c.owner == Some(id) && c.flags.taken && !c.flags.closed)
                .map(|c| c.id),
        );
        for conn in &connections {
            if let Some(conn) = self.connections.get_mut(*conn) {
                conn.shares += 1;
            }
        }
        for listener in self.listeners.iter_mut() {
            if listener.member(id).is_some() {
                listeners.push(listener.number);
            }
        }
        for number in &listeners {
            if let Some(listener) = self.listeners.get_mut(*number) {
                listener.holds += 1;
            }
        }
        let fork = Fork {
            connections,
            listeners,
        };
        self.forks.by_token.insert(token, fork);
        Ok(())
    }

    /// The child of a fork has ended without attaching.
    pub(super) fn forget_fork(&mut self, token: u64) {
        if let Some(fork) = self.forks.by_token.remove(&token) {
            self.drop_references(fork.connections, fork.listeners);
        }
    }

    fn drop_references(
        &mut self,
        connections: impl IntoIterator<Item = ConnId>,
        listeners: impl IntoIterator<Item = u32>,
    ) {
        for conn in connections {
            self.drop_share(conn);
        }
        for number in listeners {
            self.drop_hold(number);
        }
    }

    fn drop_hold(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        listener.holds = listener.holds.saturating_sub(1);
        if listener.is_abandoned() {
            self.remove_listener(number);
        }
    }

    /// A process accepts from a listener that came through a fork.
    pub(super) fn adopt_listener(&mut self, id: SessionId, number: u32) -> Result<(), Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        let at = session
            .inherited_listeners
            .iter()
            .position(|n| *n == number);
        let at = at.ok_or(Errno::BADF)?;
        session.inherited_listeners.swap_remove(at);
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        listener.join(id);
        listener.holds = listener.holds.saturating_sub(1);
        Ok(())
    }

    /// A process accepts from a listener no longer, whether it had adopted it or not.
    pub(super) fn unlisten(&mut self, id: SessionId, number: u32) -> Result<(), Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        if let Some(at) = session
            .inherited_listeners
            .iter()
            .position(|n| *n == number)
        {
            session.inherited_listeners.swap_remove(at);
            self.drop_hold(number);
            return Ok(());
        }
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        if listener.member(id).is_none() {
            return Err(Errno::BADF);
        }
        let untaken = self.untaken(id, Some(number));
        for conn in untaken {
            self.notice_released(id, conn, EVERYTHING);
            self.take_back(conn);
        }
        self.leave_listener(id, number);
        Ok(())
    }

    /// Connections that a session was handed and has not touched.
    fn untaken(&self, id: SessionId, listener: Option<u32>) -> Vec<ConnId> {
        self.connections
            .iter()
            .filter(|c| c.owner == Some(id) && !c.flags.taken && !c.flags.closed)
            .filter(|c| listener.is_none_or(|number| c.listener == number))
            .map(|c| c.id)
            .collect()
    }

    /// Ends the sessions that broke the rules in this turn.
    pub(super) fn end_breached(&mut self) {
        while let Some((id, reason)) = self.breaches.pop() {
            self.end_session(id, reason);
        }
    }

    /// Ends a session: its listeners leave, what it was not going to take goes to others, what it
    /// had submitted is sent, and each connection ends as the kernel would end it. The memory is
    /// free when the last connection has let go of it.
    pub(super) fn end_session(&mut self, id: SessionId, reason: EndReason) {
        let mut reason = reason;
        if !reason.is_breach()
            && let Err(breach) = self.drain(id, false)
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
        session.notices.clear();
        session.pidfd = None;
        let inherited = core::mem::take(&mut session.inherited);
        let inherited_listeners = core::mem::take(&mut session.inherited_listeners);
        let (number, pid) = (session.number, session.process.pid);
        if reason.is_breach() {
            self.counters.violations += 1;
            tracing::warn!(session = number, pid, %reason, "session ended");
        } else {
            tracing::info!(session = number, pid, %reason, "session ended");
        }
        self.control.session_ended(id);
        // The session must not vanish before all of this is done.
        self.hold(id);
        for conn in self.untaken(id, None) {
            self.take_back(conn);
        }
        let joined = |l: &mut crate::listeners::Listener| l.member(id).is_some();
        let listeners: Vec<u32> = self
            .listeners
            .iter_mut()
            .filter_map(|l| joined(l).then_some(l.number))
            .collect();
        for number in listeners {
            self.leave_listener(id, number);
        }
        let owned: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|c| c.owner == Some(id) && !c.flags.closed)
            .map(|c| c.id)
            .collect();
        for conn_id in owned {
            let Some(conn) = self.connections.get(conn_id) else {
                continue;
            };
            if conn.shares > 0 {
                self.park(conn_id);
            } else if reason.is_breach()
                || conn.flags.reset_at_end
                || !conn.flags.connected && conn.flags.active
            {
                self.close_own(conn_id, Request::Abort);
            } else {
                self.close_own(conn_id, Request::Close);
            }
        }
        self.drop_references(inherited.into_keys(), inherited_listeners);
        self.let_go(id);
    }

    fn hold(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.held += 1;
        }
    }

    /// Takes everything that a process has submitted so far: at most a ring, since what is taken
    /// makes room for more. A process that still listens is not told more than it reads; the
    /// notices to one that does not are for nobody.
    pub(super) fn drain(&mut self, id: SessionId, listens: bool) -> Result<(), EndReason> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        let mut left = session.region.submissions.capacity() as usize;
        while left > 0 {
            if !listens && let Some(session) = self.sessions.get_mut(id) {
                session.notices.clear();
            }
            match self.take_submissions_of(id, left)? {
                0 => break,
                count => left -= count,
            }
        }
        Ok(())
    }

    /// The last connection has let go of an ended session's memory.
    pub(super) fn free_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(id) {
            self.memory.remove(id);
            tracing::debug!(session = session.number, "memory freed");
        }
    }

    /// The doorbell of a session, to be polled.
    pub(super) fn bell(&self, id: SessionId) -> Option<&Bell> {
        self.sessions.get(id).map(|session| &session.bell)
    }
}
