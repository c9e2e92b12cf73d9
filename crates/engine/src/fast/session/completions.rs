//! Telling a host about its connections. What is told is the state of a connection, so it can wait
//! for room in the ring without growing.

use std::net::SocketAddr;

use queue_pair::bells;
use queue_pair::parked::News;
use queue_pair::{Completion, ConnRef, Violation};
use tcp::ConnId;

use super::Session;
use super::rings::Room;
use crate::fast::connections::{Conn, SessionId};
use crate::fast::family::{Holder, Who};

/// The first version of the protocol in which a process ends reading for others.
const READS_END_SINCE: u32 = 7;

/// The first version of the protocol in which one process of several reports an error, and O_NONBLOCK is
/// told to the others.
const ERRORS_ARE_TAKEN_SINCE: u32 = 11;

/// The first version of the protocol that has what a process is told of the others.
fn since(told: &Completion) -> u32 {
    match told {
        Completion::ReadShut { .. } => READS_END_SINCE,
        Completion::ErrorTaken { .. } | Completion::NonBlocking { .. } => ERRORS_ARE_TAKEN_SINCE,
        _ => 0,
    }
}

/// The name of a connection as hosts write it.
pub fn conn_ref(id: ConnId) -> ConnRef {
    ConnRef {
        index: id.index,
        generation: id.generation,
    }
}

/// What a process that reads knows of a connection.
struct Told {
    /// Bytes that it has submitted.
    sent: u64,
    /// How much is worth submitting, as it knows.
    send_buffer: u32,
    /// How many of its bytes are acknowledged.
    acked: u64,
    /// How many of those it knows of.
    told_acked: u64,
    /// It knows that the peer has closed.
    told_closed: bool,
}

/// The ends of a connection: local, peer.
pub type Ends = (SocketAddr, SocketAddr);

impl Session {
    /// Whether its version of the protocol has this.
    pub fn speaks(&self, told: &Completion) -> bool {
        self.region.layout.version >= since(told)
    }

    fn post(&mut self, completion: &Completion) -> Result<bool, Violation> {
        let posted = self.region.completions.post(completion)?;
        self.counters.completions += u64::from(posted);
        if !posted {
            // Whoever sleeps through what concerns nobody has to make room for the rest.
            (self.urgent, self.unhurried) = (bells::ALL, bells::ALL);
        }
        Ok(posted)
    }

    /// Posts what belongs to no connection; false if the ring is full.
    pub fn post_notices(&mut self) -> Result<bool, Violation> {
        if self.notices.is_empty() {
            return Ok(true);
        }
        let before = self.notices.len();
        let all = self.post_some_notices();
        self.has_fewer_notices(before - self.notices.len());
        all
    }

    fn post_some_notices(&mut self) -> Result<bool, Violation> {
        while let Some(notice) = self.notices.front().copied() {
            if !self.post(&notice)? {
                return Ok(false);
            }
            let place = match notice {
                Completion::Shut { conn }
                | Completion::ReadShut { conn }
                | Completion::ErrorTaken { conn, yours: false }
                | Completion::NonBlocking { conn, .. }
                | Completion::Released { conn } => Some(conn.index),
                // The thread that asked does not sleep by the connection's word.
                _ => None,
            };
            let news = match notice {
                Completion::Released { .. } => News::Room,
                _ => News::Urgent,
            };
            self.wants_ring(place, news);
            self.notices.pop_front();
        }
        Ok(true)
    }

    /// Posts everything that the host does not know of `conn`; false if the ring is full before
    /// that. `ends` is asked for its addresses, and `bells_of` by which bells the host hears of what a listener's
    /// member is handed.
    #[inline]
    pub fn tell(
        &mut self,
        conn: &mut Conn,
        ends: impl FnOnce(ConnId) -> Option<Ends>,
        bells_of: impl FnOnce(u32) -> u64,
    ) -> Result<bool, Violation> {
        let name = conn_ref(conn.id);
        if conn.flags.tell_accepted || conn.flags.tell_opened {
            let Some((local, peer)) = ends(conn.id) else {
                // The stack has forgotten it; what follows says so.
                return Ok(true);
            };
            let birth = if conn.flags.tell_accepted {
                Completion::Accepted {
                    conn: name,
                    grant: conn.grant,
                    listener: conn.member,
                    peer,
                    local,
                }
            } else {
                Completion::Opened {
                    token: conn.token,
                    conn: name,
                    grant: conn.grant,
                    local,
                }
            };
            if !self.post(&birth)? {
                return Ok(false);
            }
            // What the place's words say is of the connection that had it before.
            match conn.flags.tell_accepted {
                true => {
                    self.asked = true;
                    self.wants_bells(bells_of(conn.member), News::Urgent);
                }
                false => self.wants_ring(None, News::Urgent),
            }
            conn.flags.tell_accepted = false;
            conn.flags.tell_opened = false;
        }
        let mut told = Told {
            sent: conn.sent,
            send_buffer: conn.told_send_buffer,
            acked: conn.acked,
            told_acked: conn.told_acked,
            told_closed: conn.flags.told_closed,
        };
        let all = self.tell_reader(conn, &mut told);
        conn.told_acked = told.told_acked;
        conn.flags.told_closed = told.told_closed;
        if !all? || !self.tell_send_buffer(name, conn.send_buffer, &mut conn.told_send_buffer)? {
            return Ok(false);
        }
        if let Some(total) = conn.departed_news() {
            if !self.post(&Completion::Departed { conn: name, total })? {
                return Ok(false);
            }
            if let Some(departures) = &mut conn.departures {
                departures.told = total;
            }
            let news = match conn.is_held_back(total) {
                true => News::Room,
                false => News::Urgent,
            };
            self.wants_ring(Some(conn.id.index), news);
        }
        if conn.failure != 0 && !conn.flags.told_failed {
            let failed = Completion::Failed {
                conn: name,
                errno: conn.failure,
            };
            if !self.post(&failed)? {
                return Ok(false);
            }
            conn.flags.told_failed = true;
            self.wants_ring(Some(conn.id.index), News::Urgent);
        }
        Ok(true)
    }

    /// As [`tell`](Self::tell), for one of several processes that have the connection: `id` is this
    /// session's. `read` says how far the reader has come.
    pub fn tell_holder(
        &mut self,
        id: SessionId,
        conn: &mut Conn,
        read: u64,
        ends: impl FnOnce(ConnId) -> Option<Ends>,
    ) -> Result<bool, Violation> {
        let Some(mut family) = conn.family.take() else {
            return Ok(true);
        };
        let told = match family.holder_mut(Who::Session(id)) {
            Some(holder) if !holder.closed => self.tell_one(conn, holder, id, read, ends),
            _ => Ok(true),
        };
        if matches!(told, Ok(true))
            && let Some(holder) = family.holder_mut(Who::Session(id))
        {
            holder.queued = false;
        }
        conn.family = Some(family);
        told
    }

    fn tell_one(
        &mut self,
        conn: &mut Conn,
        holder: &mut Holder,
        id: SessionId,
        read: u64,
        ends: impl FnOnce(ConnId) -> Option<Ends>,
    ) -> Result<bool, Violation> {
        let name = conn_ref(conn.id);
        let reads = conn.owner == Some(id);
        if holder.tell_opened {
            if !conn.flags.connected {
                return Ok(true);
            }
            let Some((local, _)) = ends(conn.id) else {
                return Ok(true);
            };
            let opened = Completion::Opened {
                token: conn.token,
                conn: name,
                grant: if reads {
                    conn.grant
                } else {
                    Completion::NO_GRANT
                },
                local,
            };
            if !self.post(&opened)? {
                return Ok(false);
            }
            holder.tell_opened = false;
            // As at any birth.
            self.wants_ring(None, News::Urgent);
        }
        if reads {
            let mut told = Told {
                sent: holder.sent,
                send_buffer: holder.told_send_buffer,
                acked: holder.acked,
                told_acked: holder.told_acked,
                told_closed: holder.told_closed,
            };
            let all = self.tell_reader(conn, &mut told);
            holder.told_acked = told.told_acked;
            holder.told_closed = told.told_closed;
            holder.told_elsewhere = None;
            if !all? {
                return Ok(false);
            }
        } else {
            let now = (conn.received.saturating_sub(read), conn.received);
            let close_news = conn.flags.peer_closed && !holder.told_closed;
            let news = holder.told_elsewhere != Some(now);
            if news || close_news || holder.told_acked != holder.acked {
                let elsewhere = Completion::Elsewhere {
                    conn: name,
                    unread: u32::try_from(now.0).unwrap_or(u32::MAX),
                    received: now.1,
                    acked: holder.acked,
                    peer_closed: conn.flags.peer_closed,
                };
                if !self.post(&elsewhere)? {
                    return Ok(false);
                }
                let room = Room {
                    sent: holder.sent,
                    acked: holder.acked,
                    told_acked: holder.told_acked,
                    buffer: holder.told_send_buffer,
                };
                let news = room.news(news || close_news);
                self.wants_ring_for_room(conn.id.index, news, holder.acked);
                holder.told_elsewhere = Some(now);
                holder.told_acked = holder.acked;
                holder.told_closed = conn.flags.peer_closed;
            }
        }
        let mode = conn.flags.nonblocking.filter(|_| holder.tell_mode);
        let mode = mode.map(|on| Completion::NonBlocking { conn: name, on });
        if let Some(mode) = mode.filter(|mode| self.speaks(mode)) {
            if !self.post(&mode)? {
                return Ok(false);
            }
            holder.tell_mode = false;
            self.wants_ring(Some(conn.id.index), News::Urgent);
        }
        if !self.tell_send_buffer(name, conn.send_buffer, &mut holder.told_send_buffer)? {
            return Ok(false);
        }
        if conn.failure != 0 && !holder.told_failed {
            let failed = Completion::Failed {
                conn: name,
                errno: conn.failure,
            };
            if !self.post(&failed)? {
                return Ok(false);
            }
            holder.told_failed = true;
            self.wants_ring(Some(conn.id.index), News::Urgent);
        }
        Ok(true)
    }

    /// Pushes to the reader of a connection what has come, and tells it what was acknowledged.
    fn tell_reader(&mut self, conn: &mut Conn, told: &mut Told) -> Result<bool, Violation> {
        let name = conn_ref(conn.id);
        while conn.announced != conn.received {
            let (from, to) = (conn.announced, conn.received);
            let posted = conn.stream.posted_piece(from, to);
            let Some((addr, len)) = posted.or_else(|| conn.stream.piece(from, to)) else {
                debug_assert!(false, "what was received has its place");
                break;
            };
            let announced = conn.announced + u64::from(len);
            let last = announced == conn.received;
            let peer_closed = conn.flags.peer_closed && last;
            let acked = told.acked;
            let update = match posted {
                None => Completion::Update {
                    conn: name,
                    addr,
                    len,
                    acked,
                    peer_closed,
                },
                Some(_) => Completion::Placed {
                    conn: name,
                    addr,
                    len,
                    acked,
                    peer_closed,
                },
            };
            if !self.post(&update)? {
                return Ok(false);
            }
            self.wants_ring(Some(conn.id.index), News::Urgent);
            conn.announced = announced;
            told.told_acked = told.acked;
            told.told_closed |= peer_closed;
        }
        let close_news = conn.flags.peer_closed && !told.told_closed;
        if told.told_acked != told.acked || close_news {
            let update = Completion::Update {
                conn: name,
                addr: 0,
                len: 0,
                acked: told.acked,
                peer_closed: conn.flags.peer_closed,
            };
            if !self.post(&update)? {
                return Ok(false);
            }
            let room = Room {
                sent: told.sent,
                acked: told.acked,
                told_acked: told.told_acked,
                buffer: told.send_buffer,
            };
            let news = room.news(close_news);
            self.wants_ring_for_room(conn.id.index, news, told.acked);
            told.told_acked = told.acked;
            told.told_closed = conn.flags.peer_closed;
        }
        Ok(true)
    }

    /// Says how much is worth submitting, if that is not what the host was `told`. What moves with
    /// every acknowledgement is said when it makes a difference: an eighth more, or half as much.
    fn tell_send_buffer(
        &mut self,
        conn: ConnRef,
        bytes: u32,
        told: &mut u32,
    ) -> Result<bool, Violation> {
        let more = bytes > *told && bytes - *told >= *told / 8;
        if !more && bytes >= *told / 2 {
            return Ok(true);
        }
        if !self.post(&Completion::SendBuffer { conn, bytes })? {
            return Ok(false);
        }
        *told = bytes;
        // Who waits to send has less than that in flight, and hears of its acknowledgements.
        self.wants_ring(Some(conn.index), News::Room);
        Ok(true)
    }
}
