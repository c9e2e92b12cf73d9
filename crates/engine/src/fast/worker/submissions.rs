//! What hosts ask for. Every submission is a copy by the time it is looked at; each field is
//! checked before it is used, and one that no honest host would write ends the session.

use netdev::Device;
use queue_pair::{Completion, ConnRef, OptionKind, Profile, Submission};
use tcp::{ConnId, ConnInfo, ConnOption, Extent, Request, RequestError};

use super::Worker;
use super::order::CATCH_UP;
use super::room::{BUDGET, TAKEN, Until};
use crate::fast::connections::{Conn, PoolId, SessionId};
use crate::fast::family::Who;
use crate::fast::memory::Memory;
use crate::fast::session::{EndReason, conn_ref};
use crate::network::Network;
use crate::stats::Drop;

/// A connection that a session names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// The session's own.
    Own(ConnId),
    /// Other processes have it, too, since a fork.
    Shared(ConnId),
}

impl Whose {
    /// The connection.
    pub fn conn(self) -> ConnId {
        let (Self::Own(conn) | Self::Shared(conn)) = self;
        conn
    }
}

/// Why submissions of a session are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is its turn.
    InTurn,
    /// Something waits that comes after them.
    First,
}

/// Whether it takes system calls.
const fn is_dear(submission: &Submission) -> bool {
    matches!(submission, Submission::Connect { .. })
}

/// [`OptionKind::Linger`]: on, and no second.
const LINGER_FOR_NO_TIME: u64 = 1;

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes the submissions that wait; true if there were any.
    pub(super) fn take_submissions(&mut self) -> bool {
        let mut any = false;
        self.bound_waiting(self.asks_first());
        self.taking = Until::taking(self.turn_clock, self.so_far);
        let mut left_out = None;
        // Never more than `u16::MAX`, as there are no more sessions.
        for at in self.rota.slots(self.sessions.awake() as u16) {
            // Where there was nothing no time has passed.
            let worked = any || self.catch_up_left != CATCH_UP;
            if worked && self.taking.is_over() {
                left_out = Some(at);
                break;
            }
            let Some(id) = self.sessions.awake_at(at.into()) else {
                continue;
            };
            match self.take_submissions_of(id, BUDGET, Asked::InTurn) {
                Ok(count) => any |= count != 0,
                Err(reason) => self.breaches.push((id, reason)),
            }
        }
        self.rota.ends(left_out);
        // What was only taken before its turn was there as well, and there may be more of it.
        any | (self.catch_up_left != CATCH_UP)
    }

    /// Takes at most `budget` submissions of one session, for as long as any are [taken](Until).
    pub(super) fn take_submissions_of(
        &mut self,
        id: SessionId,
        budget: usize,
        asked: Asked,
    ) -> Result<usize, EndReason> {
        let mut count = 0;
        while count < budget {
            let Some(session) = self.sessions.get_mut(id) else {
                return Ok(0);
            };
            let is_asked = match asked {
                Asked::InTurn => session.is_heard(),
                Asked::First => session.is_asked_first()?,
            };
            if session.ended.is_some() || session.broken || !is_asked {
                break;
            }
            let Some(submission) = session.next_submission()? else {
                break;
            };
            if let Some(time) = submission.time()
                && !self.sharers.is_empty()
                && !self.catch_up(time, id)
            {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.peeked = Some(submission);
                }
                break;
            }
            count += 1;
            self.submitted(id, submission)?;
            if (is_dear(&submission) || count % TAKEN == 0) && self.taking.is_over() {
                break;
            }
        }
        if count != 0
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.region.submissions.release();
            session.active_at = self.now;
            session.counters.submissions += count as u64;
            let core = &session.region.core;
            self.serving = self.config.profile.serving(core.wanted());
            // Who must never wait has a worker on another core that looks for what it asks.
            let near = self.near_is_better && self.serving != Profile::Latency;
            let core = core.get().filter(|_| near);
            self.placement.asked_from(core, count as u32);
        }
        Ok(count)
    }

    pub(super) fn submitted(
        &mut self,
        id: SessionId,
        submission: Submission,
    ) -> Result<(), EndReason> {
        match submission {
            Submission::Send {
                conn,
                addr,
                len,
                more,
                consumed,
            } => {
                let conn = match self.taken(id, conn)? {
                    Whose::Own(conn) => conn,
                    // It was posted when the connection was its alone.
                    Whose::Shared(conn) => {
                        if self.is_reader(id, conn) {
                            self.consumed(conn, consumed)?;
                        }
                        let extent = self.in_send_area(id, addr, len)?;
                        self.send_shared(id, conn, extent, more);
                        return Ok(());
                    }
                };
                self.consumed(conn, consumed)?;
                self.count_send(conn, consumed);
                let extent = self.in_send_area(id, addr, len)?;
                self.send(id, conn, extent, more);
                Ok(())
            }
            Submission::SendAt {
                conn,
                addr,
                len,
                more,
                ..
            } => {
                let whose = self.taken(id, conn)?;
                let extent = self.in_send_area(id, addr, len)?;
                self.send_whichever(id, whose, extent, more);
                Ok(())
            }
            Submission::SendFile {
                conn,
                file,
                offset,
                len,
                more,
                ..
            } => {
                let whose = self.taken(id, conn)?;
                let extent = self.in_file(id, file, offset, len)?;
                self.counters.file_sends += 1;
                self.send_whichever(id, whose, extent, more);
                Ok(())
            }
            Submission::ForgetFile { file } => self.forget_file(id, file),
            Submission::Consumed { conn, total } => match self.taken(id, conn)? {
                Whose::Own(conn) => self.consumed(conn, total),
                Whose::Shared(conn) => {
                    // What a former reader says late is known from its position.
                    if self.is_reader(id, conn) {
                        self.consumed(conn, total)?;
                        self.tell_family(conn);
                    }
                    Ok(())
                }
            },
            Submission::Shutdown { conn, .. } => {
                // It ends the direction for everybody who has the connection.
                let whose = self.taken(id, conn)?;
                self.request(id, whose.conn(), Request::ShutdownWrite);
                let conn = self.connections.get_mut(whose.conn());
                if conn.is_some_and(|conn| !core::mem::replace(&mut conn.flags.shut, true)) {
                    let conn = conn_ref(whose.conn());
                    self.tell_others(id, whose.conn(), Completion::Shut { conn });
                }
                Ok(())
            }
            Submission::ShutdownRead { conn } => {
                let whose = self.taken(id, conn)?;
                self.request(id, whose.conn(), Request::ShutdownRead);
                let conn = self.connections.get_mut(whose.conn());
                if conn.is_some_and(|conn| !core::mem::replace(&mut conn.flags.read_shut, true)) {
                    let conn = conn_ref(whose.conn());
                    self.tell_others(id, whose.conn(), Completion::ReadShut { conn });
                }
                Ok(())
            }
            Submission::LetSynGo { conn } => {
                let conn = self.taken(id, conn)?.conn();
                self.let_syn_go(conn);
                Ok(())
            }
            Submission::Close { conn, abort, .. } => self.close(id, conn, abort),
            Submission::Acquire { conn } => {
                let conn = self.taken(id, conn)?.conn();
                self.acquire(id, conn);
                Ok(())
            }
            Submission::NonBlocking { conn, on } => {
                let conn = self.taken(id, conn)?.conn();
                self.set_nonblocking(id, conn, on);
                Ok(())
            }
            Submission::TakeError { conn } => {
                let conn = self.taken(id, conn)?.conn();
                self.take_error(id, conn);
                Ok(())
            }
            Submission::SetOption {
                conn,
                option,
                value,
            } => {
                let conn = self.taken(id, conn)?.conn();
                self.set_option(id, conn, option, value);
                Ok(())
            }
            Submission::Credit {
                listener,
                total,
                waits,
            } => self.credit(id, listener, total, waits),
            Submission::NameListenersBell { listener, bell } => {
                self.name_listeners_bell(id, listener, bell)
            }
            Submission::GiveBack { conn } => self.give_back(id, conn),
            Submission::Connect { token, addr } => self.connect(id, token, addr),
            Submission::Cancel { token } => {
                self.cancel(id, token);
                Ok(())
            }
            Submission::AskLocal { token } => {
                self.ask_local(id, token);
                Ok(())
            }
            Submission::Post {
                conn,
                addr,
                len,
                from,
            } => self.post(id, conn, (addr, len), from),
        }
    }

    /// A process has posted a buffer to receive into. One that cannot be used is not: then what it stands
    /// for comes as everything else.
    fn post(
        &mut self,
        id: SessionId,
        name: ConnRef,
        (addr, len): (u64, u32),
        from: u64,
    ) -> Result<(), EndReason> {
        let conn_id = self.taken(id, name)?.conn();
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        session.region.send.slice(addr, len as usize)?;
        if let Some(conn) = self.connections.get_mut(conn_id)
            && conn.owner == Some(id)
            && conn.pool == PoolId::of(id)
            && conn.stream.post(from, len, addr)
        {
            self.counters.buffers_posted += 1;
        }
        Ok(())
    }

    fn is_reader(&self, id: SessionId, conn: ConnId) -> bool {
        self.connections
            .get(conn)
            .is_some_and(|conn| conn.owner == Some(id))
    }

    #[inline]
    fn count_send(&mut self, conn: ConnId, consumed: u64) {
        self.counters.host_sends += 1;
        if let Some(conn) = self.connections.get_mut(conn)
            && conn.answered != consumed
        {
            conn.answered = consumed;
            self.counters.host_exchanges += 1;
        }
    }

    /// The connection that a session names, if it has a part in it.
    pub(super) fn named(&self, id: SessionId, name: ConnRef) -> Result<Whose, EndReason> {
        let conn_id = ConnId {
            index: name.index,
            generation: name.generation,
        };
        if let Some(conn) = self.connections.get(conn_id) {
            match &conn.family {
                None if conn.owner == Some(id) && !conn.flags.closed => {
                    return Ok(Whose::Own(conn_id));
                }
                Some(family) if family.open_holder(Who::Session(id)).is_some() => {
                    return Ok(Whose::Shared(conn_id));
                }
                _ => {}
            }
        }
        Err(EndReason::ForeignConnection {
            index: name.index,
            generation: name.generation,
        })
    }

    /// As [`named`](Self::named); the first submission for a connection also takes it from the
    /// listener for good.
    #[inline]
    fn taken(&mut self, id: SessionId, name: ConnRef) -> Result<Whose, EndReason> {
        let whose = self.named(id, name)?;
        if let Whose::Own(id) = whose
            && let Some(conn) = self.connections.get_mut(id)
            && !core::mem::replace(&mut conn.flags.taken, true)
        {
            self.accepted(id);
        }
        Ok(whose)
    }

    /// The extent that a session names in its send area.
    #[inline]
    fn in_send_area(&self, id: SessionId, addr: u64, len: u32) -> Result<Extent, EndReason> {
        if let Some(session) = self.sessions.get(id) {
            session.region.send.slice(addr, len as usize)?;
        }
        Ok(Memory::extent(id, addr, len))
    }

    fn send_whichever(&mut self, id: SessionId, whose: Whose, extent: Extent, more: bool) {
        match whose {
            Whose::Own(conn) => self.send(id, conn, extent, more),
            Whose::Shared(conn) => self.send_shared(id, conn, extent, more),
        }
    }

    fn send(&mut self, id: SessionId, conn_id: ConnId, extent: Extent, more: bool) {
        match self
            .stack
            .on_request(self.now, conn_id, Request::Send { extent, more })
        {
            Ok(()) => {
                if let Some(conn) = self.connections.get_mut(conn_id) {
                    conn.sent += u64::from(extent.len);
                    if conn.departures.is_some() {
                        self.leaving.push(conn_id);
                    }
                    if self.trace.is_on() {
                        let (stack, now) = (&self.stack, self.now);
                        let others = conn.acked_for_others;
                        self.trace.taken(conn_id, extent.len, conn.sent, || {
                            let left = stack.info(now, conn_id).map_or(0, |info| {
                                let left = info.bytes_acked + u64::from(info.in_flight);
                                left.saturating_sub(others)
                            });
                            (left, stack.send_next(conn_id).unwrap_or_default())
                        });
                    }
                }
                self.charge_or_end(id, conn_id);
            }
            Err(RequestError::TooManyExtents) => self.too_many_pieces(id, conn_id),
            Err(_) => self.refused(id),
        }
    }

    fn consumed(&mut self, conn_id: ConnId, total: u64) -> Result<(), EndReason> {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return Ok(());
        };
        let before = conn.stream.consumed();
        if total == before && total == conn.said {
            return Ok(());
        }
        if total < conn.said || total > conn.announced {
            return Err(EndReason::Consumed {
                consumed: total,
                announced: conn.announced,
                before,
            });
        }
        conn.said = total;
        // Its position may have told more already: then there is nothing to do.
        self.consume(conn_id, total);
        Ok(())
    }

    /// Bytes up to `total` have been read: their memory is free, and the window opens.
    pub(super) fn consume(&mut self, conn_id: ConnId, total: u64) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        if total <= conn.stream.consumed() {
            return;
        }
        if let Some(pool) = self.memory.pool(conn.pool) {
            conn.stream.consume(pool, total);
        }
        // Refused only where the connection has failed: then there is no window to open.
        let _ = self
            .stack
            .on_request(self.now, conn_id, Request::Consumed(total));
    }

    pub(super) fn close(
        &mut self,
        id: SessionId,
        name: ConnRef,
        abort: bool,
    ) -> Result<(), EndReason> {
        match self.taken(id, name)? {
            Whose::Own(conn_id) => {
                let request = if abort {
                    Request::Abort
                } else {
                    // One that does not know yet that nobody else has it any more has said so there only.
                    self.take_position(conn_id);
                    Request::Close
                };
                self.close_own(conn_id, request);
            }
            Whose::Shared(conn_id) => self.close_shared(id, conn_id, abort),
        }
        Ok(())
    }

    /// Ends a connection for its owner, who is done with it.
    pub(super) fn close_own(&mut self, conn_id: ConnId, mut request: Request) {
        let conn = self.connections.get(conn_id);
        if let Some(owner) = conn.and_then(|conn| conn.owner) {
            let user = self.sessions.get(owner).map(|session| session.process.uid);
            request = self.leave(user, conn_id, request);
        }
        if let Some(conn) = self.connections.get_mut(conn_id) {
            conn.flags.closed = true;
            if let Some(session) = conn.owner.and_then(|owner| self.sessions.get_mut(owner)) {
                session.connections.remove(&conn_id);
            }
        }
        self.finish(conn_id, request);
        self.settle_closed(conn_id);
    }

    /// Lets the owner of a closed connection go as soon as nothing of it is read any more; the TCP
    /// sees to the rest, which can take it a minute.
    pub(super) fn settle_closed(&mut self, conn_id: ConnId) {
        let Some(conn) = self.connections.get_mut(conn_id) else {
            return;
        };
        if !conn.flags.closed || (conn.acked != conn.sent && conn.failure == 0) {
            return;
        }
        let Some(owner) = self.detach(conn_id) else {
            return;
        };
        self.notice_released(owner, conn_id);
        self.let_go(owner);
    }

    /// Takes a connection from its owner, with what it has received but nobody will read; returns
    /// who that was. The caller lets the owner go.
    pub(super) fn detach(&mut self, conn_id: ConnId) -> Option<SessionId> {
        let conn = self.connections.get_mut(conn_id)?;
        let owner = conn.owner.take()?;
        self.memory.abandon_stream(conn);
        conn.flags.queued = false;
        Some(owner)
    }

    /// Ends a connection whose owner is done with it.
    pub(super) fn finish(&mut self, conn: ConnId, request: Request) {
        if self.stack.wants_transmit() || self.nics.any_blocked() {
            // What a program sends and the peer has room for has left when it closes, as on the
            // kernel: a reset drops what has not. To close with something unread is one.
            let info = self.stack.info(self.now, conn);
            let resets = |info: &ConnInfo| request == Request::Abort || info.receive_queue > 0;
            if info.is_some_and(|info| info.send_queue > 0 && resets(&info)) {
                self.note_time();
                if self.nics.is_blocked(conn) {
                    // Whoever waits longer can go on later.
                    self.stack.payload_is_there(conn);
                }
                self.transmit();
            }
        }
        if self.stack.on_request(self.now, conn, request).is_err() {
            // It has failed already: now nobody holds its name any more.
            let _ = self.stack.on_request(self.now, conn, Request::Abort);
        }
    }

    fn request(&mut self, id: SessionId, conn: ConnId, request: Request) {
        if self.stack.on_request(self.now, conn, request).is_err() {
            self.refused(id);
        }
    }

    pub(super) fn refused(&mut self, id: SessionId) {
        self.counters.drop(Drop::RequestRefused);
        if let Some(session) = self.sessions.get_mut(id) {
            session.counters.refused += 1;
        }
    }

    fn set_option(&mut self, id: SessionId, conn: ConnId, option: OptionKind, value: u64) {
        use core::time::Duration;
        let short = u16::try_from(value).unwrap_or(u16::MAX);
        let option = match option {
            OptionKind::NoDelay => ConnOption::NoDelay(value != 0),
            OptionKind::Cork => ConnOption::Cork(value != 0),
            OptionKind::QuickAck => ConnOption::QuickAck(value != 0),
            OptionKind::KeepAlive => ConnOption::KeepAlive(value != 0),
            OptionKind::KeepIdle => ConnOption::KeepAliveIdle(Duration::from_secs(value)),
            OptionKind::KeepInterval => ConnOption::KeepAliveInterval(Duration::from_secs(value)),
            OptionKind::KeepCount => {
                ConnOption::KeepAliveCount(u8::try_from(value).unwrap_or(u8::MAX))
            }
            OptionKind::UserTimeout => ConnOption::UserTimeout(Duration::from_millis(value)),
            OptionKind::FinWait2 => ConnOption::FinWait2Timeout(Duration::from_secs(value)),
            OptionKind::MaxSegment => ConnOption::MaxSegment(short),
            OptionKind::Congestion => ConnOption::Congestion(match value {
                0 => tcp::Algorithm::Reno,
                2 => tcp::Algorithm::Bbr,
                _ => tcp::Algorithm::Cubic,
            }),
            OptionKind::ReceiveBuffer => {
                let limit = u64::from(self.config.tcp.most_receive_buffer());
                // At most the limit, which is a u32.
                let bytes = value.clamp(4096, limit) as u32;
                self.stack.set_receive_buffer(self.now, conn, bytes);
                return;
            }
            OptionKind::Linger => {
                // The time, if there is one, is waited for by the host.
                if let Some(conn) = self.connections.get_mut(conn) {
                    conn.flags.reset_at_end = value == LINGER_FOR_NO_TIME;
                }
                return;
            }
            OptionKind::NotSentLow => {
                if let Some(conn) = self.connections.get_mut(conn) {
                    // Hosts say 32 bits.
                    let low = u32::try_from(value).unwrap_or(u32::MAX);
                    if low == 0 {
                        conn.departures = None;
                    } else {
                        conn.departures.get_or_insert_default().low = low;
                        self.leaving.push(conn.id);
                    }
                }
                return;
            }
            //= RFC 9293 MUST-48
            OptionKind::TrafficClass => {
                if let Some(conn) = self.connections.get_mut(conn) {
                    // The lower two bits are ECN's, and so the transport's.
                    conn.dscp = (value >> 2) as u8 & 0x3f;
                }
                return;
            }
        };
        self.request(id, conn, Request::SetOption(option));
    }

    /// Puts a connection on the list, of each session that has it, of those with something to tell.
    pub(super) fn queue(sessions: &mut crate::fast::session::Sessions, conn: &mut Conn) {
        if conn.family.is_some() {
            Self::queue_family(sessions, conn);
            return;
        }
        let Some(owner) = conn.owner else { return };
        if conn.flags.queued || !conn.has_news() {
            return;
        }
        if let Some(session) = sessions.get_mut(owner)
            && session.ended.is_none()
        {
            conn.flags.queued = true;
            session.ready.push_back(conn.id);
        }
    }

    /// Says that the engine no longer reads what a host sent on a connection: its last word on it.
    pub(super) fn notice_released(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.sessions.get_mut(id)
            && session.ended.is_none()
        {
            session.tell_its_own(queue_pair::Completion::Released {
                conn: conn_ref(conn),
            });
        }
    }
}
