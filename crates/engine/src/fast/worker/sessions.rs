//! The life of sessions: a process attaches, forks, ends.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;

use netdev::Device;
use queue_pair::control::Farewell;
use queue_pair::doorbell::{self, Bell};
use queue_pair::{Layout, Sizes, region};
use rustix::io::Errno;
use tcp::{ConnId, Request};

use super::Worker;
use super::order::CATCH_UP;
use crate::fast::connections::SessionId;
use crate::fast::family::Who;
use crate::fast::session::{EndReason, MAX_WAKERS, Process, Session, SessionCounters};
use crate::network::Network;
use crate::stats::Drop;

/// Of all sessions, the last quarter (one in so many) is for users that have less than their share.
const SCARCE: usize = 4;
/// Most forks of which the child has neither attached nor ended.
const MAX_FORKS: usize = 1024;

/// References that a child which has not attached yet has on what its parent had.
#[derive(Debug)]
struct Fork {
    /// Whose they count as.
    uid: u32,
    connections: HashSet<ConnId>,
    /// The names of listeners in the parent's session, and the listeners.
    listeners: Vec<(u32, u32)>,
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
    #[error(
        "most places are taken, and its user has as many sessions as limits.sessions_per_user allows"
    )]
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
        // A share binds only when others may need what is left.
        let left = (limits.sessions as usize).saturating_sub(self.sessions.len());
        let scarce = left <= limits.sessions as usize / SCARCE;
        if scarce && sessions_of_user >= limits.sessions_per_user as usize {
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
            positions: limits.connections,
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
        let fork = fork_token.and_then(|token| Some((token, self.forks.by_token.remove(&token)?)));
        let inherited_listeners = match &fork {
            Some((_, fork)) => fork.listeners.clone(),
            None => Vec::new(),
        };
        engine_side.opening.set(self.told_opening);
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
                connections: HashSet::new(),
                shared: 0,
                forks: 0,
                peeked: None,
                broken: false,
                inherited_listeners,
                urgent: false,
                unhurried: false,
                ended: None,
                counters: SessionCounters::default(),
            },
        );
        if let Some((token, fork)) = fork {
            let connections: Vec<ConnId> = fork.connections.into_iter().collect();
            self.inherit(token, id, connections);
            // It looks at once whether there is anything to read.
            if let Err(reason) = self.post_completions_of(id) {
                self.breaches.push((id, reason));
            }
        }
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
        let session = self.sessions.get(id).ok_or(Errno::BADF)?;
        let uid = session.process.uid;
        let forks = &self.forks.by_token;
        let of_user = forks.values().filter(|fork| fork.uid == uid).count();
        // Nobody takes all: what is left when one user has half is for the others.
        if forks.len() >= MAX_FORKS || (uid != 0 && of_user >= MAX_FORKS / 2) {
            tracing::warn!(
                pid = session.process.pid,
                uid,
                "too many children that have not attached: one that is forked now has none of its \
                 parent's sockets"
            );
            return Err(Errno::AGAIN);
        }
        let connections: HashSet<ConnId> = session
            .connections
            .iter()
            .copied()
            .filter(|conn| self.is_accepted(*conn))
            .collect();
        let mut listeners = session.inherited_listeners.clone();
        for &conn in &connections {
            self.share(conn, token);
        }
        for listener in self.listeners.iter() {
            let own = listener.members.iter().filter(|m| m.session == id);
            listeners.extend(own.map(|m| (m.number, listener.number)));
        }
        for (_, number) in &listeners {
            if let Some(listener) = self.listeners.get_mut(*number) {
                listener.holds += 1;
            }
        }
        let fork = Fork {
            uid,
            connections,
            listeners,
        };
        self.forks.by_token.insert(token, fork);
        Ok(())
    }

    /// The child of a fork has ended without attaching.
    pub(super) fn forget_fork(&mut self, token: u64) {
        let Some(fork) = self.forks.by_token.remove(&token) else {
            return;
        };
        for conn in fork.connections {
            self.close_holder(conn, Who::Fork(token), false);
        }
        for (_, number) in fork.listeners {
            self.drop_hold(number);
        }
    }

    /// The child of a fork has closed something without having attached.
    pub(super) fn child_closed(&mut self, token: u64, what: Farewell) {
        let Some(fork) = self.forks.by_token.get_mut(&token) else {
            return;
        };
        match what {
            Farewell::Connection(name) => {
                let conn = ConnId {
                    index: name.index,
                    generation: name.generation,
                };
                if fork.connections.remove(&conn) {
                    self.close_holder(conn, Who::Fork(token), false);
                }
            }
            Farewell::Listener(name) => {
                if let Some(at) = fork.listeners.iter().position(|(own, _)| *own == name) {
                    let (_, number) = fork.listeners.swap_remove(at);
                    self.drop_hold(number);
                }
            }
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

    /// A process accepts from a listener that came through a fork, where it was called `name`; its new
    /// name.
    pub(super) fn adopt_listener(&mut self, id: SessionId, name: u32) -> Result<u32, Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        let inherited = &mut session.inherited_listeners;
        let at = inherited.iter().position(|(former, _)| *former == name);
        let (_, number) = inherited.swap_remove(at.ok_or(Errno::BADF)?);
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        listener.holds = listener.holds.saturating_sub(1);
        self.join_listener(number, id).ok_or(Errno::BADF)
    }

    /// A process accepts from a listener no longer, whether it had adopted it or not.
    pub(super) fn unlisten(&mut self, id: SessionId, name: u32) -> Result<(), Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        let inherited = &mut session.inherited_listeners;
        if let Some(at) = inherited.iter().position(|(former, _)| *former == name) {
            let (_, number) = inherited.swap_remove(at);
            self.drop_hold(number);
            return Ok(());
        }
        let number = self.listeners.of_member(name).ok_or(Errno::BADF)?;
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        let own = listener.member_mut(name).is_some_and(|m| m.session == id);
        if !own {
            return Err(Errno::BADF);
        }
        for conn in self.unaccepted(id, Some(name)) {
            self.notice_released(id, conn);
            self.take_back(conn);
        }
        self.leave_listener(name);
        Ok(())
    }

    /// Connections that a session was offered, by one of its listeners or by any, and has not accepted.
    pub(super) fn unaccepted(&self, id: SessionId, member: Option<u32>) -> Vec<ConnId> {
        let Some(session) = self.sessions.get(id) else {
            return Vec::new();
        };
        let of_member = |conn: &&ConnId| {
            let conn = self.connections.get(**conn);
            conn.is_some_and(|c| !c.flags.closed && member.is_none_or(|name| c.member == name))
        };
        session
            .connections
            .iter()
            .filter(of_member)
            .copied()
            .filter(|conn| !self.is_accepted(*conn))
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
        session.peeked = None;
        self.lent.forget(id);
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
        for conn in self.unaccepted(id, None) {
            self.take_back(conn);
        }
        let names: Vec<u32> = self
            .listeners
            .iter()
            .flat_map(|l| &l.members)
            .filter(|member| member.session == id)
            .map(|member| member.number)
            .collect();
        for name in names {
            self.leave_listener(name);
        }
        let owned: Vec<ConnId> = match self.sessions.get_mut(id) {
            Some(session) => session.connections.iter().copied().collect(),
            None => Vec::new(),
        };
        for conn_id in owned {
            let Some(conn) = self.connections.get(conn_id) else {
                continue;
            };
            if conn.family.is_some() {
                self.close_holder(conn_id, Who::Session(id), false);
            } else if reason.is_breach()
                || conn.flags.reset_at_end
                || !conn.flags.connected && conn.flags.active
            {
                self.close_own(conn_id, Request::Abort);
            } else {
                // What it has read without saying so was not left unread.
                self.take_position(conn_id);
                self.close_own(conn_id, Request::Close);
            }
        }
        for (_, number) in inherited_listeners {
            self.drop_hold(number);
        }
        self.let_go(id);
    }

    pub(super) fn hold(&mut self, id: SessionId) {
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
            self.catch_up_left = CATCH_UP;
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
