//! What the engine knows about each connection beyond its TCP: whose it is, where its received
//! bytes lie, which way its frames go, and what its owner has not been told yet. An array by the
//! connection's slot in the stack, so that nothing is searched for on the way of a packet; in chunks, so
//! that nobody waits while it grows.

use tables::Chunks;
use tcp::{ConnId, Instant};

use crate::fast::family::Family;
pub use crate::fast::ids::{PoolId, SessionId};
use crate::fast::memory::Stream;
use crate::fast::openings::Openings;
use crate::fast::orphans::LeftBy;
use crate::network::PathId;

/// What is still to be told to a connection's owner, and what has been.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// It stands in its session's list of those with something to tell.
    pub queued: bool,
    /// The owner does not know of it yet: it came from a listener.
    pub tell_accepted: bool,
    /// When it was offered, its process waited for it, having said so.
    pub awaited: bool,
    /// The owner does not know yet that what it asked for is open.
    pub tell_opened: bool,
    /// Its process has known its name since before it was open.
    pub named: bool,
    /// The owner has made its first submission: it took it from its accept queue.
    pub taken: bool,
    /// The handshake is complete.
    pub connected: bool,
    /// The peer has closed, and everything before that has arrived.
    pub peer_closed: bool,
    /// The owner knows that the peer has closed.
    pub told_closed: bool,
    /// The owner knows of the failure.
    pub told_failed: bool,
    /// What O_NONBLOCK is, if one of several processes has said so.
    pub nonblocking: Option<bool>,
    /// A process of several has been told that it is to report the failure: nobody else does.
    pub error_taken: bool,
    /// The owner has closed it, and waits only until nothing of it is read any more.
    pub closed: bool,
    /// It was opened by a process, not accepted.
    pub active: bool,
    /// A process has ended this side's direction.
    pub shut: bool,
    /// A process has ended reading.
    pub read_shut: bool,
    /// The owner's grant said that nobody else has the connection.
    pub told_alone: bool,
    /// Its owner lingers for no time: when it goes, the connection is reset (SO_LINGER).
    pub reset_at_end: bool,
}

/// How much of what a process writes has left, for one that minds (TCP_NOTSENT_LOWAT).
#[derive(Debug, Clone, Copy, Default)]
pub struct Departures {
    /// Bytes of the owner's that have left, those that are acknowledged among them.
    pub departed: u64,
    /// What of that the owner knows.
    pub told: u64,
    /// The owner writes more when fewer bytes than this have not left: never 0.
    pub low: u32,
}

/// No time at which anything waits.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// One connection. There may be a million.
#[derive(Debug)]
pub struct Conn {
    /// Its name in the stack.
    pub id: ConnId,
    /// The session that it belongs to; none while it waits in a listener, or has been orphaned. Of a
    /// connection that several processes have, the reader.
    pub owner: Option<SessionId>,
    /// The number of the owner's grant: see [`queue_pair::position`].
    pub grant: u16,
    /// The processes that have it, if they are several since a fork.
    pub family: Option<Box<Family>>,
    /// The pool that holds its received bytes.
    pub pool: PoolId,
    /// Which chunks hold what was received.
    pub stream: Stream,
    /// Where its frames go, once one was sent.
    pub path: Option<PathId>,
    /// When the engine first had to do with it.
    pub since: Instant,
    /// Since when it [waits](Self::waits); [`NEVER`] if it does not.
    waits: Instant,
    /// Number of the listener that it came from.
    pub listener: u32,
    /// The member of that listener to which it was offered.
    pub member: u32,
    /// From the request, if it was opened.
    pub token: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Bytes that the owner knows of.
    pub announced: u64,
    /// Bytes that the owner has said, under its grant, to have read.
    pub said: u64,
    /// Bytes that the owner had read when it last sent something.
    pub answered: u64,
    /// Bytes submitted for sending.
    pub sent: u64,
    /// Bytes acknowledged by the peer.
    pub acked: u64,
    /// Acknowledged bytes of the stream that were sent by processes that do not have it any more.
    pub acked_for_others: u64,
    /// Acknowledged bytes that the owner knows of.
    pub told_acked: u64,
    /// Bytes that are worth having been submitted and not acknowledged, as its path is now.
    pub send_buffer: u32,
    /// What of that the owner knows.
    pub told_send_buffer: u32,
    /// What has left, if its owner minds.
    pub departures: Option<Box<Departures>>,
    /// Pieces of send memory that it held when that was last charged.
    pub extents: u16,
    /// The session that is charged for them: the owner when the first was sent.
    pub payer: Option<SessionId>,
    /// Why it failed, as an errno; 0 while it has not.
    pub failure: u16,
    /// What its packets carry: the differentiated services codepoint, six bits.
    pub dscp: u8,
    /// It is there, and not what is left in a place that nobody has.
    live: bool,
    /// The rest.
    pub flags: Flags,
}

impl Conn {
    fn new(id: ConnId, since: Instant) -> Self {
        Self {
            id,
            since,
            owner: None,
            grant: 0,
            family: None,
            pool: PoolId::ENGINE,
            stream: Stream::default(),
            path: None,
            waits: NEVER,
            listener: u32::MAX,
            member: u32::MAX,
            token: 0,
            received: 0,
            announced: 0,
            said: 0,
            answered: 0,
            sent: 0,
            acked: 0,
            acked_for_others: 0,
            told_acked: 0,
            send_buffer: queue_pair::Completion::SEND_BUFFER,
            told_send_buffer: queue_pair::Completion::SEND_BUFFER,
            departures: None,
            extents: 0,
            payer: None,
            failure: 0,
            dscp: 0,
            live: false,
            flags: Flags::default(),
        }
    }

    /// Since when it waits to be accepted: when its handshake was complete. `None` once it has been, or if
    /// a process opened it.
    pub fn waits(&self) -> Option<Instant> {
        (self.waits != NEVER).then_some(self.waits)
    }

    /// It waits since then, or no longer.
    pub fn set_waits(&mut self, since: Option<Instant>) {
        self.waits = since.unwrap_or(NEVER);
    }

    /// Whether its owner has not been told everything.
    pub fn has_news(&self) -> bool {
        let flags = &self.flags;
        flags.tell_accepted
            || flags.tell_opened
            || self.announced != self.received
            || self.told_acked != self.acked
            || (flags.peer_closed && !flags.told_closed)
            || (self.failure != 0 && !flags.told_failed)
            || self.departed_news().is_some()
    }

    /// How much has left, if the owner waits, as far as it knows, until more has, and more has.
    pub fn departed_news(&self) -> Option<u64> {
        let departures = self.departures.as_ref()?;
        let known = departures.told.max(self.told_acked);
        let news = departures.departed > known && self.is_held_back(known);
        news.then_some(departures.departed)
    }

    /// Whether the owner, which knows that so much has left, writes no more until more has: it does when half
    /// of its bound or more has not, as the kernel's programs do.
    pub fn is_held_back(&self, departed: u64) -> bool {
        let waits = self.sent.saturating_sub(departed);
        let departures = self.departures.as_ref();
        departures.is_some_and(|departures| waits * 2 >= departures.low.into())
    }
}

/// All connections, by slot.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Chunks<Conn>,
    /// On whose account each is one that its program has left to the TCP.
    left_by: Chunks<LeftBy>,
    /// Those that processes are opening.
    opening: Openings,
    live: usize,
    now: Instant,
}

impl Connections {
    /// It is `now`: connections that begin have begun then.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The connection `id`, if it is still that one.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        let conn = self.slots.get(id.index)?;
        (conn.live && conn.id == id).then_some(conn)
    }

    /// The connection `id`, if it is still that one.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.slots.get_mut(id.index)?;
        (conn.live && conn.id == id).then_some(conn)
    }

    /// The connection `id`, which the stack vouches for: a new one begins when it is first named.
    /// True if it is new.
    #[inline]
    pub fn enter(&mut self, id: ConnId) -> (&mut Conn, bool) {
        let now = self.now;
        // The stack's slots are dense, so this grows by a chunk at a time.
        self.slots.reach(id.index, |index| {
            let generation = 0;
            Conn::new(ConnId { index, generation }, now)
        });
        let conn = &mut self.slots[id.index];
        let new = !conn.live || conn.id != id;
        if new {
            self.left_by.reach(id.index, |_| LeftBy::default());
            debug_assert!(!conn.live, "the stack releases a slot before it reuses it");
            // The list of chunks keeps its memory from one tenant of the slot to the next.
            let mut stream = core::mem::take(&mut conn.stream);
            stream.reset();
            *conn = Conn {
                stream,
                live: true,
                ..Conn::new(id, self.now)
            };
            self.live += 1;
        }
        (conn, new)
    }

    /// On whose account the connection is one that its program has left to the TCP.
    pub fn left_by(&mut self, id: ConnId) -> Option<&mut LeftBy> {
        self.get(id)?;
        self.left_by.get_mut(id.index)
    }

    /// A process opens a connection, which has just been entered, and gave it a token.
    pub fn opens(&mut self, id: ConnId, whose: SessionId, token: u64) {
        if let Some(conn) = self.get_mut(id) {
            conn.flags.active = true;
            conn.token = token;
            self.opening.insert(id, whose, token);
        }
    }

    /// A connection that a process was opening is open.
    pub fn opened(&mut self, id: ConnId) {
        self.opening.remove(id);
    }

    /// The one that a process is opening under this token.
    pub fn opening_as(&self, whose: SessionId, token: u64) -> Option<ConnId> {
        self.opening.find(whose, token)
    }

    /// Of those that processes are opening the one that comes after this one, or the first.
    pub fn opening_after(&self, last: Option<ConnId>) -> Option<ConnId> {
        self.opening.after(last)
    }

    /// The connection is over; its chunks must have been given back.
    pub fn leave(&mut self, id: ConnId) {
        if self.get(id).is_some() {
            let conn = &mut self.slots[id.index];
            conn.live = false;
            (conn.family, conn.departures) = (None, None);
            if conn.flags.active && !conn.flags.connected {
                self.opening.remove(id);
            }
            self.live -= 1;
        }
    }

    /// How many slots there are, taken or not.
    pub fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// The connection in a slot.
    pub fn at(&self, slot: u32) -> Option<&Conn> {
        self.slots.get(slot).filter(|conn| conn.live)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32, generation: u32) -> ConnId {
        ConnId { index, generation }
    }

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Conn>() <= 232, "{}", size_of::<Conn>());
    }

    #[test]
    fn a_name_of_an_earlier_tenant_finds_nothing() {
        let mut connections = Connections::default();
        assert!(connections.enter(id(3, 1)).1);
        assert!(!connections.enter(id(3, 1)).1);
        assert!(connections.get(id(3, 0)).is_none());
        assert!(connections.get(id(2, 0)).is_none());
        connections.leave(id(3, 1));
        assert!(connections.get(id(3, 1)).is_none());
        assert!(connections.enter(id(3, 2)).1);
        assert_eq!(connections.len(), 1);
    }
}
