//! Telling a host about its connections. What is told is the state of a connection, so it can wait
//! for room in the ring without growing.

use std::net::SocketAddr;

use queue_pair::{Completion, ConnRef, Violation};
use tcp::ConnId;

use super::Session;
use crate::connections::Conn;

/// The name of a connection as hosts write it.
pub fn conn_ref(id: ConnId) -> ConnRef {
    ConnRef {
        index: id.index,
        generation: id.generation,
    }
}

/// Acknowledged bytes that are worth waking a host for: enough room to send into. Less than that
/// waits for company, since a host that is woken for nothing else goes back to sleep.
const WORTH_WAKING: u64 = 16 << 10;

/// The ends of a connection: local, peer.
pub type Ends = (SocketAddr, SocketAddr);

impl Session {
    fn post(&mut self, completion: &Completion) -> Result<bool, Violation> {
        let posted = self.region.completions.post(completion)?;
        self.counters.completions += u64::from(posted);
        Ok(posted)
    }

    /// Posts what belongs to no connection; false if the ring is full.
    pub fn post_notices(&mut self) -> Result<bool, Violation> {
        while let Some(notice) = self.notices.front().copied() {
            if !self.post(&notice)? {
                return Ok(false);
            }
            self.wants_ring(!matches!(notice, Completion::Released { .. }));
            self.notices.pop_front();
        }
        Ok(true)
    }

    /// Posts everything that the host does not know of `conn`; false if the ring is full before
    /// that. `ends` is asked for its addresses.
    #[inline]
    pub fn tell(
        &mut self,
        conn: &mut Conn,
        ends: impl FnOnce(ConnId) -> Option<Ends>,
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
                    listener: conn.listener,
                    peer,
                    local,
                }
            } else {
                Completion::Opened {
                    token: conn.token,
                    conn: name,
                    local,
                }
            };
            if !self.post(&birth)? {
                return Ok(false);
            }
            conn.flags.tell_accepted = false;
            conn.flags.tell_opened = false;
            self.wants_ring(true);
        }
        while conn.announced != conn.received {
            let Some((addr, len)) = conn.stream.piece(conn.announced, conn.received) else {
                debug_assert!(false, "what was received has its place");
                break;
            };
            let announced = conn.announced + u64::from(len);
            let last = announced == conn.received;
            let peer_closed = conn.flags.peer_closed && last;
            let update = Completion::Update {
                conn: name,
                addr,
                len,
                acked: conn.acked,
                peer_closed,
            };
            if !self.post(&update)? {
                return Ok(false);
            }
            self.wants_ring(true);
            conn.announced = announced;
            conn.told_acked = conn.acked;
            conn.flags.told_closed |= peer_closed;
        }
        let close_news = conn.flags.peer_closed && !conn.flags.told_closed;
        if conn.told_acked != conn.acked || close_news {
            let update = Completion::Update {
                conn: name,
                addr: 0,
                len: 0,
                acked: conn.acked,
                peer_closed: conn.flags.peer_closed,
            };
            if !self.post(&update)? {
                return Ok(false);
            }
            self.wants_ring(close_news || conn.acked - conn.told_acked >= WORTH_WAKING);
            conn.told_acked = conn.acked;
            conn.flags.told_closed = conn.flags.peer_closed;
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
            self.wants_ring(true);
        }
        Ok(true)
    }

    fn wants_ring(&mut self, urgent: bool) {
        self.urgent |= urgent;
        self.unhurried = true;
    }

    /// Makes what was posted visible, and says whether anything was.
    pub fn publish(&mut self) -> bool {
        let anything = self.region.completions.has_unpublished();
        self.region.completions.publish();
        anything
    }

    /// Rings the wakers that are armed if something was posted that the host waits for, and
    /// returns how many. To be called after [`publish`](Self::publish).
    pub fn ring(&mut self) -> u64 {
        if self.urgent { self.ring_later() } else { 0 }
    }

    /// As [`ring`](Self::ring), also for what can wait: memory that has become free. To be called
    /// now and then, and before the engine sleeps.
    pub fn ring_later(&mut self) -> u64 {
        if !self.unhurried {
            return 0;
        }
        (self.urgent, self.unhurried) = (false, false);
        let mut rung = 0;
        let mut armed = self.region.sleepers.take();
        while armed != 0 {
            let waker = armed.trailing_zeros() as usize;
            armed &= armed - 1;
            // A bit without a waker is the host's own mistake.
            if let Some(ringer) = self.wakers.get(waker) {
                ringer.ring();
                rung += 1;
            }
        }
        self.counters.doorbells += rung;
        rung
    }
}
