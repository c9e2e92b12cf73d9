//! The life of sessions: a process attaches and ends. How it forks is [`super::forks`]'.

use std::os::fd::AsFd;

use netdev::Device;
use queue_pair::doorbell::Ringer;
use queue_pair::lost;
use rustix::io::Errno;
use tcp::ConnId;

use super::Worker;
use super::forks::Fork;
use super::room::Until;
use super::submissions::Asked;
use crate::exchange::{Refused, SessionKey, Tale};
use crate::fast::connections::{Conn, SessionId};
use crate::fast::session::{EndReason, MAX_WAKERS, Session};
use crate::network::Network;
use crate::poller::Source;
use crate::stats::Drop;

impl<D: Device, N: Network> Worker<D, N> {
    /// A process attaches, with all that a session consists of. `fork_token` names the references that
    /// its parent took for it: those on connections are still to be [inherited](Self::inherit_all).
    pub(super) fn attach(
        &mut self,
        mut session: Box<Session>,
        fork_token: Option<u64>,
    ) -> Result<(SessionKey, Option<(u64, Fork)>), Refused> {
        let limit = self.config.limits.sessions as usize;
        let vacancy = self.sessions.vacancy(limit).filter(|_| !self.stopping);
        let Some(id) = vacancy else {
            if let Some(token) = fork_token {
                // Nobody hears its lifeline any more.
                self.forget_fork(token);
            }
            self.slow.tell(Tale::Spent(session));
            if self.stopping {
                return Err(Refused::Stopping);
            }
            self.counters.drop(Drop::SessionsFull);
            return Err(Refused::Errno(Errno::AGAIN));
        };
        let mut fork = fork_token.and_then(|token| Some((token, self.forks.take(token)?)));
        session
            .region
            .opening
            .set(self.opening_for(session.process.uid));
        let uid = session.process.uid;
        let same = self.sessions.iter().find(|(_, it)| it.process.uid == uid);
        if let Some((_, other)) = same {
            session.patience.is_shared_with(&other.patience);
        }
        self.counters.sessions += 1;
        self.memory.add(id, uid, &session.region);
        let number = session.number;
        if let Err(error) = self.slow.poller.add(session.bell.as_fd(), Source::Bell(id)) {
            tracing::warn!(%error, "a session's doorbell cannot be polled");
        }
        if let Some((_, fork)) = &mut fork {
            session.inherited_listeners = core::mem::take(&mut fork.listeners);
            session.notices.append(&mut fork.failed_opens);
        }
        self.sessions.insert(id, session);
        Ok((SessionKey { id, number }, fork))
    }

    /// One more doorbell for a host; its bit.
    pub(super) fn add_waker(&mut self, id: SessionId, waker: Ringer) -> Result<u32, Errno> {
        let session = self.sessions.get_mut(id).ok_or(Errno::BADF)?;
        if session.wakers.len() >= MAX_WAKERS {
            return Err(Errno::MFILE);
        }
        session.wakers.push(waker);
        Ok(session.wakers.len() as u32 - 1)
    }

    pub(super) fn drop_hold(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        listener.holds = listener.holds.saturating_sub(1);
        if listener.is_abandoned() {
            self.abandon_listener(number);
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
        for conn in self.unaccepted(id, name) {
            self.notice_released(id, conn);
            self.take_back(conn);
        }
        self.leave_listener(name);
        Ok(())
    }

    /// Connections that a session was offered by one of its listeners, and has not accepted.
    pub(super) fn unaccepted(&mut self, id: SessionId, member: u32) -> Vec<ConnId> {
        self.begin_unoffering_anew(id);
        let offered = self.sessions.get(id).map_or(0, |it| it.offered.len());
        let offered: Vec<ConnId> = (0..offered)
            .filter_map(|_| self.look_at_offered(id))
            .collect();
        let of_member = |conn: &Conn| conn.member == member;
        let of_member = |conn: &ConnId| self.connections.get(*conn).is_some_and(of_member);
        offered.into_iter().filter(of_member).collect()
    }

    /// Notes that a session is offered a connection, under this grant. What it has accepted of those before, or
    /// given back, is forgotten, two at a time: so there are never many more than it has not.
    pub(super) fn note_offered(&mut self, id: SessionId, conn: ConnId, grant: u16) {
        self.look_at_offered(id);
        self.look_at_offered(id);
        if let Some(session) = self.sessions.get_mut(id) {
            session.offered.push_back((conn, grant));
        }
    }

    /// Looks at the first of what a session was offered: it is the last then, or is forgotten if it was accepted,
    /// or is the session's no longer.
    fn look_at_offered(&mut self, id: SessionId) -> Option<ConnId> {
        let first = self.sessions.get_mut(id)?.offered.pop_front()?;
        if !self.is_offered_to(id, first) {
            return None;
        }
        self.sessions.get_mut(id)?.offered.push_back(first);
        Some(first.0)
    }

    /// Whether an offer to a session stands: that one, and none that was made later of the same connection, or who
    /// gives back what it is offered again and again would be remembered each time.
    pub(super) fn is_offered_to(&self, id: SessionId, (conn, grant): (ConnId, u16)) -> bool {
        let of_session = self.connections.get(conn).is_some_and(|conn| {
            conn.owner == Some(id) && conn.grant == grant && !conn.flags.closed
        });
        of_session && !self.is_accepted(conn)
    }

    /// Ends the sessions that broke the rules in this turn, or whose memory is not whole any more.
    pub(super) fn end_breached(&mut self) {
        if lost::pages_lost() != self.pages_lost {
            self.find_lost();
        }
        while let Some((id, reason)) = self.breaches.pop() {
            self.end_session(id, reason);
        }
    }

    fn find_lost(&mut self) {
        self.pages_lost = lost::pages_lost();
        for (id, session) in self.sessions.iter() {
            if session.ended.is_none() && session.region.is_lost() {
                self.breaches.push((id, EndReason::MemoryLost));
            }
        }
    }

    pub(super) fn hold(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.held += 1;
        }
    }

    /// Takes everything that a process has submitted which is not asked for anything more: at most a ring, since
    /// what is taken makes room for more. The notices to it are for nobody.
    ///
    /// What others have submitted before comes first, as ever. That is there by now, whatever they submit
    /// meanwhile: so who goes on in the name of a time that has passed keeps back nobody's last words, and puts
    /// none of them before what is older.
    pub(super) fn drain(&mut self, id: SessionId) -> Result<(), EndReason> {
        self.note_past();
        let drained = self.take_last_of(id);
        self.only_past = false;
        drained
    }

    fn take_last_of(&mut self, id: SessionId) -> Result<(), EndReason> {
        let mut left = self.sessions.get(id).map_or(0, Session::most_submitted);
        self.taking = Until::done();
        while left > 0 {
            if let Some(session) = self.sessions.get_mut(id) {
                session.forget_notices();
            }
            match self.take_submissions_of(id, left, Asked::InTurn)? {
                0 => break,
                count => left -= count,
            }
        }
        Ok(())
    }

    /// For how many notices there is memory, of all sessions, as tests look at it.
    pub fn room_for_notices(&self) -> usize {
        let sessions = self.sessions.iter();
        sessions.map(|(_, it)| it.notices.capacity()).sum()
    }

    /// The last connection has let go of an ended session's memory.
    pub(super) fn free_session(&mut self, id: SessionId) {
        if let Some(mut session) = self.sessions.remove(id) {
            session.files = self.memory.remove(id);
            // It may take a while until it is closed.
            self.slow.poller.remove(session.bell.as_fd());
            // To unmap it takes its time, and to close files.
            self.slow.tell(Tale::Spent(session));
        }
    }
}
