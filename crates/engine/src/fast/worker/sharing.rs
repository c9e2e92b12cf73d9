//! Connections that several processes have since a fork: who reads, and what follows when one of them
//! closes, or dies, or never attaches. In which order they write is [`super::order`]'s.
//!
//! Nothing here waits for a process. What arrives is pushed to one of them, the reader, until
//! another one asks to read ([`acquire`](Worker::acquire)): then the reader's grant is revoked, which
//! tells how far it had come, and what nobody has read is moved to the memory of the one that asked.
//! The others are told how much waits. The rules by which no byte is read twice or by nobody stand in
//! [`queue_pair::position`].

use netdev::Device;
use queue_pair::{Completion, position};
use rustix::io::Errno;
use tcp::{ConnId, Extent, Request};

use super::Worker;
use crate::fast::connections::{Conn, PoolId, SessionId};
use crate::fast::family::{Family, Who};
use crate::fast::session::{EndReason, Session, conn_ref};
use crate::network::Network;

fn taken_by_another(conn: ConnId) -> Completion {
    Completion::ErrorTaken {
        conn: conn_ref(conn),
        yours: false,
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Somebody who is still to come, known by a token, has a connection from now on, too.
    pub(super) fn share(&mut self, conn_id: ConnId, token: u64) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        if conn.family.is_none() {
            let Some(owner) = conn.owner else { return };
            let whole = conn.acked + conn.acked_for_others;
            let mut family = Family::of_one(owner, conn.sent, conn.acked, whole);
            if let Some(holder) = family.holder_mut(Who::Session(owner)) {
                holder.told_acked = conn.told_acked;
                holder.told_closed = conn.flags.told_closed;
                holder.told_failed = conn.flags.told_failed;
                let opening = conn.flags.active && !conn.flags.connected;
                holder.tell_opened = conn.flags.tell_opened || opening;
                holder.queued = conn.flags.queued;
            }
            conn.flags.queued = false;
            conn.flags.tell_opened = false;
            conn.flags.told_alone = false;
            conn.flags.taken = true;
            conn.family = Some(Box::new(family));
            // From now on a session is held by being a holder, and by the pool being its.
            self.hold(owner);
            self.shares_more(owner);
        }
        let conn = self.connections.get_mut(conn_id);
        if let Some(conn) = conn
            && let Some(family) = conn.family.as_mut()
        {
            let opening = conn.flags.active;
            family.join(Who::Awaited(token)).tell_opened = opening;
        }
    }

    /// The child of a fork has attached: it is told of every connection that it has.
    pub(super) fn inherit(&mut self, token: u64, session: SessionId, connections: Vec<ConnId>) {
        for conn_id in connections {
            let Some(conn) = self.connections.get_mut(conn_id) else {
                continue;
            };
            let Some(family) = conn.family.as_mut() else {
                continue;
            };
            if !family.rename(token, session) {
                continue;
            }
            self.enter_family(session, conn_id);
        }
    }

    /// A process has become a holder: it is told of the connection.
    pub(super) fn enter_family(&mut self, id: SessionId, conn_id: ConnId) {
        self.hold(id);
        self.shares_more(id);
        if let Some(session) = self.sessions.get_mut(id) {
            session.connections.insert(conn_id);
        }
        let name = conn_ref(conn_id);
        let told = self.connections.get_mut(conn_id).map(|conn| {
            let family = conn.family.as_mut();
            if let Some(holder) = family.and_then(|family| family.holder_mut(Who::Session(id))) {
                holder.tell_mode = conn.flags.nonblocking.is_some();
            }
            let flags = &conn.flags;
            [
                flags.shut.then_some(Completion::Shut { conn: name }),
                flags
                    .read_shut
                    .then_some(Completion::ReadShut { conn: name }),
                flags.error_taken.then(|| taken_by_another(conn_id)),
            ]
        });
        for completion in told.into_iter().flatten().flatten() {
            self.notice(id, completion);
        }
        // Whoever had it before may have closed it meanwhile: then it reads alone.
        self.settle_reader(conn_id);
        self.tell_family(conn_id);
    }

    /// A process has ended a direction of a connection, or reports its error: the others that have it learn that,
    /// once: who reads nothing of what it is told has no more than this of a connection for others to add to.
    pub(super) fn tell_others(&mut self, by: SessionId, conn_id: ConnId, told: Completion) {
        let conn = self.connections.get(conn_id);
        let Some(family) = conn.and_then(|conn| conn.family.as_ref()) else {
            return;
        };
        let others: Vec<SessionId> = family
            .holders()
            .iter()
            .filter(|holder| !holder.closed)
            .filter_map(|holder| match holder.who {
                Who::Session(session) => (session != by).then_some(session),
                // It is told when it attaches.
                Who::Awaited(_) => None,
            })
            .collect();
        for session in others {
            self.notice(session, told);
        }
    }

    /// Others have a process be told something.
    fn notice(&mut self, id: SessionId, told: Completion) {
        if let Some(session) = self.who_hears(id, &told) {
            session.notices.push_back(told);
        }
    }

    /// The session, if it goes on and speaks a version of the protocol that has this.
    fn who_hears(&mut self, id: SessionId, told: &Completion) -> Option<&mut Session> {
        let session = self.sessions.get_mut(id)?;
        let hears = session.ended.is_none() && session.speaks(told);
        hears.then_some(session)
    }

    /// A process has set or cleared O_NONBLOCK, which is one flag for all that have the connection. Of one
    /// that nobody else has this is forgotten: children inherit it, and whom it is passed to is told.
    pub(super) fn set_nonblocking(&mut self, id: SessionId, conn_id: ConnId, on: bool) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        conn.flags.nonblocking = conn.family.is_some().then_some(on);
        // Whoever has not heard of the last change hears of this one alone; who is still to come, when he does.
        let family = conn.family.iter_mut();
        for holder in family.flat_map(|family| family.holders_mut()) {
            holder.tell_mode = matches!(holder.who, Who::Session(other) if other != id);
        }
        self.tell_family(conn_id);
    }

    /// A process is to report the error with which a connection has ended: it does if no other has asked
    /// before, as the first of the kernel's callers takes `sk_err`. The others learn it before the answer can
    /// be there, so that they find nothing to report once the call has returned that does.
    pub(super) fn take_error(&mut self, id: SessionId, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let yours = conn.failure == 0 || !conn.flags.error_taken;
        if conn.failure != 0 && yours {
            conn.flags.error_taken = true;
            self.tell_others(id, conn_id, taken_by_another(conn_id));
        }
        let conn = conn_ref(conn_id);
        let told = Completion::ErrorTaken { conn, yours };
        if let Some(session) = self.who_hears(id, &told) {
            session.tell_its_own(told);
        }
    }

    /// Puts a connection on the list of every holder that is to be told something; or of its owner, who
    /// may have asked for it when others had it, too.
    pub(super) fn tell_family(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        Self::queue(&mut self.sessions, conn);
    }

    /// As [`tell_family`](Self::tell_family), for whoever has the connection at hand.
    pub(super) fn queue_family(sessions: &mut crate::fast::session::Sessions, conn: &mut Conn) {
        let id = conn.id;
        let Some(family) = conn.family.as_mut() else {
            return;
        };
        for holder in family.holders_mut() {
            let Who::Session(who) = holder.who else {
                continue;
            };
            if holder.queued || holder.closed {
                continue;
            }
            if let Some(session) = sessions.get_mut(who)
                && session.ended.is_none()
            {
                holder.queued = true;
                session.ready.push_back(id);
            }
        }
    }

    /// A process wants to read.
    pub(super) fn acquire(&mut self, id: SessionId, conn_id: ConnId) {
        self.counters.grants_moved += 1;
        if let Err(reason) = self.revoke(conn_id) {
            self.breaches.push(reason);
        }
        let is_granted = self.grant(conn_id, id);
        if let Some(session) = self.sessions.get_mut(id) {
            if is_granted {
                session.counts_as_its_own();
            } else {
                // Its own memory is full of what it has not read elsewhere.
                session.tell_its_own(Completion::NotGranted {
                    conn: conn_ref(conn_id),
                    errno: Errno::AGAIN.raw_os_error() as u16,
                });
            }
        }
        self.settle_family(conn_id);
        self.tell_family(conn_id);
    }

    /// Ends the grant of the reader, whoever it is, and takes what it has read for consumed. The
    /// connection has no reader then. `Err`: it claims to have read what it was never given.
    pub(super) fn revoke(&mut self, conn_id: ConnId) -> Result<(), (SessionId, EndReason)> {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return Ok(());
        };
        let Some(reader) = conn.owner.take() else {
            return Ok(());
        };
        // They are the former reader's. What finds no other memory stays there; nothing further goes there.
        self.memory.withdraw_posted(conn);
        let before = conn.stream.consumed();
        let (grant, announced) = (conn.grant, conn.announced);
        if let Some(family) = conn.family.as_mut()
            && let Some(holder) = family.holder_mut(Who::Session(reader))
        {
            holder.told_elsewhere = None;
        }
        let Some(word) = self
            .sessions
            .get(reader)
            .and_then(|session| session.region.positions.word(conn_id.index))
        else {
            return Ok(());
        };
        let said = position::revoke(word);
        let read = said.offset(before);
        if said.grant() != grant || read > announced {
            return Err((
                reader,
                EndReason::Consumed {
                    consumed: read,
                    announced,
                    before,
                },
            ));
        }
        self.consume(conn_id, read);
        Ok(())
    }

    /// Takes what the reader of a connection has read for consumed, whether or not it has said so.
    pub(super) fn take_position(&mut self, conn_id: ConnId) {
        if let Some(conn) = self.connections.get(conn_id) {
            let read = Self::read_so_far(&self.sessions, conn);
            self.consume(conn_id, read);
        }
    }

    /// How far the reader of a connection has come, whether or not it has said so; what it has said,
    /// if it tells tales.
    pub(super) fn read_so_far(sessions: &crate::fast::session::Sessions, conn: &Conn) -> u64 {
        let before = conn.stream.consumed();
        let word = conn
            .owner
            .and_then(|reader| sessions.get(reader))
            .and_then(|session| session.region.positions.word(conn.id.index));
        let Some(word) = word else { return before };
        let said = position::look(word);
        if said.grant() != conn.grant {
            return before;
        }
        let read = said.offset(before);
        if read > conn.announced { before } else { read }
    }

    /// Makes a process the reader of a connection that has none; false if its memory has no room for
    /// what nobody has read.
    fn grant(&mut self, conn_id: ConnId, id: SessionId) -> bool {
        let pool = PoolId::of(id);
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return true;
        };
        let former = conn.pool;
        if former != pool && !self.memory.move_stream(conn, pool) {
            return false;
        }
        conn.owner = Some(id);
        conn.grant = (conn.grant + 1) % position::GRANTS;
        let consumed = conn.stream.consumed();
        conn.announced = consumed;
        conn.said = 0;
        let alone = conn
            .family
            .as_ref()
            .is_none_or(|family| family.last_one() == Some(id));
        conn.flags.told_alone = alone;
        let grant = conn.grant;
        if former != pool {
            self.hold(id);
            self.let_go_of_pool(former);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            if let Some(word) = session.region.positions.word(conn_id.index) {
                position::grant(word, grant, consumed);
            }
            if session.ended.is_none() {
                session.notices.push_back(Completion::Granted {
                    conn: conn_ref(conn_id),
                    grant,
                    consumed,
                    alone_since: alone.then_some(session.forks),
                });
            }
        }
        true
    }

    pub(super) fn let_go_of_pool(&mut self, pool: PoolId) {
        if let Some(session) = pool.session() {
            self.let_go(session);
        }
    }

    /// A holder sends.
    pub(super) fn send_shared(
        &mut self,
        id: SessionId,
        conn_id: ConnId,
        extent: Extent,
        more: bool,
    ) {
        let request = Request::Send { extent, more };
        match self.stack.on_request(self.now, conn_id, request) {
            Ok(()) => {
                if let Some(conn) = self.connections.get_mut(conn_id) {
                    conn.payer.get_or_insert(id);
                    if let Some(family) = conn.family.as_mut() {
                        family.sends(id, extent.len.into());
                    }
                }
                self.charge_or_end(id, conn_id);
            }
            Err(tcp::RequestError::TooManyExtents) => self.too_many_pieces(id, conn_id),
            Err(_) => self.refused(id),
        }
        self.counters.shared_sends += 1;
    }

    /// A process that has a connection together with others has closed it, or is gone. `abort` asks for a reset if it
    /// was the last.
    pub(super) fn close_shared(&mut self, id: SessionId, conn_id: ConnId, abort: bool) {
        let uid = self.sessions.get(id).map(|session| session.process.uid);
        self.close_holder(conn_id, (Who::Session(id), uid), abort);
    }

    /// As [`close_shared`](Self::close_shared), of a user's process that has not come yet, and does not.
    pub(super) fn close_awaited(&mut self, (token, uid): (u64, u32), conn_id: ConnId) {
        self.close_holder(conn_id, (Who::Awaited(token), Some(uid)), false);
    }

    fn close_holder(&mut self, conn_id: ConnId, (who, uid): (Who, Option<u32>), abort: bool) {
        if let Who::Session(id) = who
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.connections.remove(&conn_id);
        }
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let reads = matches!(who, Who::Session(id) if conn.owner == Some(id));
        if reads && let Err(breach) = self.revoke(conn_id) {
            self.breaches.push(breach);
        }
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let unread = conn.received > conn.stream.consumed();
        let reset = abort || unread || conn.flags.reset_at_end;
        let Some(family) = conn.family.as_mut() else {
            return;
        };
        let Some(holder) = family.holder_mut(who) else {
            return;
        };
        holder.closed = true;
        holder.queued = false;
        let left = family.open();
        let pool = conn.pool;
        if left == 0 {
            // The last has gone: the connection ends as the kernel would end it.
            self.memory.abandon_stream(conn);
            conn.flags.closed = true;
            self.let_go_of_pool(pool);
            let request = if reset {
                Request::Abort
            } else {
                Request::Close
            };
            let request = self.leave(uid, conn_id, request);
            self.finish(conn_id, request);
        } else if let Who::Session(id) = who
            && pool == PoolId::of(id)
        {
            // What nobody has read does not stay in the memory of one who is gone, if it can be
            // kept elsewhere.
            let to = uid.map_or(PoolId::ENGINE, |uid| self.memory.pool_for(uid));
            if self.memory.move_stream(conn, to) {
                self.let_go_of_pool(pool);
            }
        }
        self.settle_family(conn_id);
        self.settle_reader(conn_id);
        self.tell_family(conn_id);
    }

    /// A connection whose only holder is not the reader yet: it is made that, without being asked.
    fn settle_reader(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get(conn_id) else {
            return;
        };
        if conn.owner.is_some() {
            return;
        }
        let Some(only) = conn.family.as_ref().and_then(|family| family.only_open()) else {
            return;
        };
        let lives = self.sessions.get(only).is_some_and(|s| s.ended.is_none());
        if lives && self.grant(conn_id, only) {
            self.settle_family(conn_id);
        }
    }

    /// Lets go of holders that have closed and of whose memory nothing is read any more, and ends the
    /// family when one process is left that reads: the connection is its own again.
    pub(super) fn settle_family(&mut self, conn_id: ConnId) {
        loop {
            let Some(conn) = self.connections.get_mut(conn_id) else {
                return;
            };
            let failed = conn.failure != 0;
            let Some(family) = conn.family.as_mut() else {
                return;
            };
            let done = family
                .holders()
                .iter()
                .find(|h| h.closed && (h.is_drained() || failed))
                .map(|h| (h.who, h.is_unknown));
            let Some((who, is_unknown)) = done else { break };
            family.leave(who);
            if let Who::Session(id) = who {
                // It may claim the connection again, and would take the notice to be of that.
                if !is_unknown {
                    self.notice_released(id, conn_id);
                }
                self.shares_less(id);
                self.let_go(id);
            }
        }
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        let Some(family) = conn.family.as_mut() else {
            return;
        };
        let Some(last) = family.last_one().filter(|last| conn.owner == Some(*last)) else {
            return;
        };
        let acked = family.acked();
        let Some(holder) = family.holder_mut(Who::Session(last)).copied() else {
            return;
        };
        if holder.tell_opened {
            return;
        }
        conn.family = None;
        conn.sent = holder.sent;
        conn.acked = holder.acked;
        conn.acked_for_others = acked - holder.acked;
        if let Some(departures) = &mut conn.departures {
            (departures.departed, departures.told) = (0, 0);
        }
        conn.told_acked = holder.told_acked;
        conn.told_send_buffer = holder.told_send_buffer;
        conn.flags.told_closed = holder.told_closed;
        conn.flags.told_failed = holder.told_failed;
        conn.flags.queued = holder.queued;
        conn.flags.closed = false;
        conn.flags.taken = true;
        conn.flags.tell_opened = false;
        let mode = conn.flags.nonblocking.take();
        let told_alone = conn.flags.told_alone;
        if let Some(on) = mode.filter(|_| holder.tell_mode) {
            let conn = conn_ref(conn_id);
            self.notice(last, Completion::NonBlocking { conn, on });
        }
        // The pool is its; being the owner is the same now.
        self.shares_less(last);
        self.let_go(last);
        let reads_along = self
            .sessions
            .get(last)
            .is_some_and(|session| session.is_heard());
        if !told_alone && reads_along {
            // It reads and writes as one that shares with nobody from here on.
            if let Err(breach) = self.revoke(conn_id) {
                self.breaches.push(breach);
            }
            let granted = self.grant(conn_id, last);
            debug_assert!(granted, "nothing moves");
        }
        if let Some(conn) = self.connections.get_mut(conn_id) {
            Self::queue(&mut self.sessions, conn);
        }
    }

    /// A session has one more connection together with others.
    fn shares_more(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.shared += 1;
            if session.shared == 1 {
                self.sharers.push(id);
            }
        }
    }

    /// The inverse of [`shares_more`](Self::shares_more).
    pub(super) fn shares_less(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.shared = session.shared.saturating_sub(1);
            if session.shared == 0 {
                self.sharers.retain(|sharer| *sharer != id);
            }
        }
    }
}
