//! SYNs that bring a Fast Open cookie, or ask for one (RFC 7413 §4.2.2).

use wire::segment::Segment;
use wire::tcp::FastOpenCookie;

use super::Stack;
use crate::connection::{Connection, Context, Handshake};
use crate::fast_open::Standing;
use crate::flow_table::FlowHash;
use crate::{ConnId, ConnOptions, Instant, ListenerId, PayloadStore};

/// How a SYN is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// By the ordinary handshake, whose SYN-ACK brings a cookie if there is one here.
    Handshake(Option<FastOpenCookie>),
    /// By a connection at once; `renew`: with a new cookie.
    Connection { renew: bool },
}

impl Stack {
    /// What a SYN gets at a listener with these options.
    pub(super) fn fast_open_answer(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        options: &ConnOptions,
    ) -> Answer {
        let config = &self.common.config;
        let limit = options.fast_open.min(config.max_fast_opens);
        let Some(brought) = &segment.tcp.options.fast_open else {
            return Answer::Handshake(None);
        };
        if !config.fast_open_server || limit == 0 {
            return Answer::Handshake(None);
        }
        let room = self.connections.len() < config.max_connections;
        let (local, remote) = (segment.dst, segment.src);
        let fast_opens = &mut self.common.fast_opens;
        let standing = fast_opens.cookies.standing(now, (local, remote), brought);
        if standing == Standing::Unknown {
            self.common.counters.fast_open_cookies += 1;
            let cookie = fast_opens.cookies.make(now, local, remote);
            return Answer::Handshake(Some(cookie));
        }
        if !room || !fast_opens.has_room(now, limit) {
            self.common.counters.fast_opens_refused += 1;
            return Answer::Handshake(None);
        }
        Answer::Connection {
            renew: standing == Standing::Old,
        }
    }

    /// Bytes that a SYN has room for which [waits for data](ConnOptions::hold_syn); 0 if it does not wait.
    pub fn syn_room(&mut self, now: Instant, id: ConnId) -> u16 {
        let c = self.connections.get(id.index, id.generation);
        c.map_or(0, |c| c.held_syn_room(now, &mut self.common))
    }

    /// Opens a connection by its SYN alone, and takes what that brings.
    pub(super) fn admit_fast_open<S: PayloadStore>(
        &mut self,
        now: Instant,
        hash: FlowHash,
        (listener, options): (ListenerId, &ConnOptions),
        (handshake, renew): (&Handshake, bool),
        segment: &Segment<'_>,
        store: &mut S,
    ) {
        let window = segment.tcp.window;
        let config = &self.common.config;
        let mut c = Connection::passive_fast_open(now, (handshake, renew), window, options, config);
        if let Some(listener) = self.listeners.get_mut(listener) {
            // Its cookie has shown that the address is real.
            c.admission = listener.admit(now, c.key.remote);
        }
        let id = self.add_connection(now, hash, c);
        self.common.fast_opens.pending += 1;
        self.common.counters.passive_opens += 1;
        self.common.counters.fast_opens_in += 1;
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.complete(id, now);
        }
        self.note_acceptable(listener);
        store.expect(id, listener);
        self.take_syn_data(now, id, segment, store);
        self.settle(id);
    }

    fn take_syn_data<S: PayloadStore>(
        &mut self,
        now: Instant,
        id: ConnId,
        segment: &Segment<'_>,
        store: &mut S,
    ) {
        if let Some(c) = self.connections.get_mut(id.index, id.generation) {
            let common = &mut self.common;
            c.take_syn_data(segment, store, &mut Context { now, id, common });
        }
    }
}
