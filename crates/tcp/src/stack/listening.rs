//! Listeners, and the connections that wait in them.

use super::Stack;
use crate::config::{ConnOptions, ListenSpec};
use crate::listener::admission::Admission;
use crate::listener::{Listener, ListenerCounts, Waiting};
use crate::request::ListenError;
use crate::{ConnId, Instant, ListenerId};
use core::net::IpAddr;

impl Stack {
    /// Begins to listen.
    ///
    /// # Errors
    /// Nothing has changed, for the reason given.
    //= RFC 9293 §3.10.1
    pub fn listen(&mut self, spec: ListenSpec) -> Result<ListenerId, ListenError> {
        self.listeners.insert(spec)
    }

    /// Changes the backlog of a listener, as a second `listen` call does. What waits already stays.
    pub fn set_backlog(&mut self, id: ListenerId, backlog: u32) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.spec.backlog = backlog;
        }
    }

    /// Changes what connections start with whose SYN arrives from now on (TCP_MAXSEG and the like, set on
    /// a socket that listens already).
    pub fn set_listener_options(&mut self, id: ListenerId, options: ConnOptions) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.spec.options = options;
        }
    }

    /// Limits who may connect to a listener from now on, or nobody. What is there already does not count.
    /// Returns the limits before, for whoever frees their memory.
    pub fn set_admission(
        &mut self,
        id: ListenerId,
        admission: Option<Box<Admission>>,
    ) -> Option<Box<Admission>> {
        self.listeners.set_admission(id, admission)
    }

    /// Ends a listener. Half-open connections are forgotten; complete ones that nobody accepted end
    /// by RST, as in the kernel.
    pub fn unlisten(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.listeners.remove(id) else {
            return;
        };
        if listener.half_open > 0 {
            let orphaned: Vec<u32> = self
                .half_opens
                .iter()
                .filter(|(_, half)| half.listener == id)
                .take(listener.half_open as usize)
                .map(|(index, _)| index)
                .collect();
            for index in orphaned {
                self.forget_half_open(index);
            }
        }
        for waiting in listener.queue {
            self.with_connection(now, waiting.conn, |c, cx| c.discard(cx));
        }
    }

    /// The connection that has waited longest, if any. Its state is told again by the next events,
    /// for its new owner.
    pub fn accept(&mut self, id: ListenerId) -> Option<ConnId> {
        let conn = self.listeners.get_mut(id)?.queue.pop_front()?.conn;
        if let Some(c) = self.connections.get_mut(conn.index, conn.generation) {
            c.accepted = true;
            c.changed = true;
        }
        self.settle(conn);
        Some(conn)
    }

    /// Takes an accepted connection back, to be the next one accepted: whoever it was given to has
    /// not touched it. If the listener is gone the connection ends by RST. Returns whether the
    /// listener took it.
    pub fn give_back(&mut self, now: Instant, id: ListenerId, conn: ConnId) -> bool {
        let Some(c) = self.connections.get_mut(conn.index, conn.generation) else {
            return false;
        };
        if c.orphan {
            return false;
        }
        let Some(listener) = self.listeners.get_mut(id) else {
            self.with_connection(now, conn, |c, cx| c.discard(cx));
            return false;
        };
        c.accepted = false;
        listener.queue.push_front(Waiting { conn, since: now });
        self.note_acceptable(id);
        true
    }

    /// Since when the connection that [`accept`](Self::accept) would take waits there; what was given
    /// back waits again.
    #[must_use]
    pub fn waiting_since(&self, id: ListenerId) -> Option<Instant> {
        Some(self.listeners.get(id)?.queue.front()?.since)
    }

    /// A SYN to this address and port was dropped before it came here, since the program around this stack
    /// does not admit its peer: counts it where it would have gone.
    pub fn note_denied(&mut self, addr: IpAddr, port: u16) {
        let listener = self.listeners.find(addr, port);
        if let Some(listener) = listener.and_then(|id| self.listeners.get_mut(id)) {
            listener.deny();
        }
    }

    /// What is counted of a listener.
    #[must_use]
    pub fn listener_counts(&self, id: ListenerId) -> Option<ListenerCounts> {
        self.listeners.get(id).map(Listener::counts)
    }

    /// Connections that wait to be accepted.
    #[must_use]
    pub fn waiting(&self, id: ListenerId) -> usize {
        self.listeners.get(id).map_or(0, |l| l.queue.len())
    }
}
