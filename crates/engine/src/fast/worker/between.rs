//! What goes between workers: frames that came to the wrong one, and connections that wait to be accepted
//! where nobody accepts, while somebody does elsewhere.
//!
//! A listener of several workers has a queue at each. So that it is as fair as the kernel's, which is one,
//! a connection that nobody takes here goes [as a value](tcp::snapshot) to a worker where somebody waits;
//! and all do when the last process that accepts here goes.

use std::net::SocketAddr;

use netdev::Device;
use tcp::snapshot::TimeWait;
use tcp::{ConnId, Request};
use wire::flow::FlowKey;

use super::Worker;
use super::handover::reads_along;
use super::room::Until;
use crate::exchange::WorkerId;
use crate::fast::connections::{Conn, PoolId};
use crate::fast::handoff::{Begun, Handed, Handoff, NoRoom, Waiting};
use crate::network::Network;
use crate::stats::Drop;

/// What is taken from other workers in a turn.
const BUDGET: usize = 256;
/// And between two looks at the clock.
const STEP: usize = 32;
/// How often a connection is passed on because nobody accepts where it came.
const HOPS: u8 = 4;

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes what other workers have handed over; true if there was anything.
    pub(super) fn take_handed(&mut self) -> bool {
        let mut any = false;
        let until = Until::taking(self.turn_clock, self.so_far);
        for count in 0..BUDGET {
            let Some(handoff) = &mut self.handoff else {
                return false;
            };
            if count % STEP == STEP - 1 && until.is_over() {
                break;
            }
            let Some((from, what)) = handoff.receive() else {
                break;
            };
            any = true;
            match what {
                Handed::Frame(frame) => {
                    self.intake().1.take_handed(&frame);
                    if let Some(handoff) = &mut self.handoff {
                        handoff.done_with(from, frame);
                    }
                }
                Handed::Waiting(waiting) => self.take_waiting(waiting),
                Handed::Begun(begun) => self.take_begun(begun),
                Handed::Ended(pair) => self.take_ended(&pair),
                Handed::Wanted(local) => {
                    if let Some(number) = self.listeners.on(local).map(|l| l.number) {
                        self.hand_over(number);
                    }
                }
            }
        }
        any | self.take_kept()
    }

    /// Takes frames that were here before their connection, if that has come; true if one has.
    fn take_kept(&mut self) -> bool {
        let mut any = false;
        let kept = self.handoff.as_ref().map_or(0, Handoff::kept);
        for _ in 0..kept {
            let Some(kept) = self.handoff.as_mut().and_then(Handoff::take_kept) else {
                break;
            };
            if self.intake().1.take_kept(&kept.1) {
                any = true;
            } else if let Some(handoff) = &mut self.handoff
                && !handoff.keep_again(self.now, kept)
            {
                self.counters.drop(Drop::HandoffFull);
            }
        }
        any
    }

    /// Tells the others which flows have begun and ended here, and of cookies: before anything is sent for them.
    pub(super) fn note_flows(&mut self) {
        let Some(handoff) = &self.handoff else {
            return;
        };
        for (flow, began) in self.stack.take_flow_changes() {
            handoff.note_flow(&flow, began);
        }
        handoff.tell_of_cookies(&mut self.stack);
    }

    /// What waits in a listener has been offered as far as anybody here is willing: says to the other
    /// workers whether there is too much or too little, and gives of what is too much to those who have
    /// too little.
    pub(super) fn balance(&mut self, number: u32) {
        if self.handoff.is_none() {
            return;
        }
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        let (id, local) = (listener.id, listener.local);
        let sessions = &self.sessions;
        let wants = listener.members.iter().any(|member| {
            member.willing() > 0 && sessions.get(member.session).is_some_and(reads_along)
        });
        while self.stack.waiting(id) > 0 {
            let Some(to) = self.who_wants(local) else {
                break;
            };
            if !self.move_waiting(number, to) {
                break;
            }
        }
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        let over = self.stack.waiting(id) > 0;
        handoff.set_over(local, over);
        let mut others = handoff.set_wanting(local, wants && !over);
        if !wants || over {
            return;
        }
        while let Some(other) = handoff.one_of(others) {
            // If there is no room it has much to do before it, and looks again later.
            let _ = handoff.hand(other, Handed::Wanted(local));
            others &= !other.bit();
        }
    }

    /// Another worker where somebody waits for connections of a listener that has too many here.
    pub(super) fn who_wants(&mut self, local: SocketAddr) -> Option<WorkerId> {
        let handoff = self.handoff.as_mut()?;
        let wanting = handoff.set_over(local, true);
        handoff.one_of(wanting)
    }

    /// Gives everybody who waits in a listener, or is about to, to the workers that accept on its address
    /// as well, because nobody will here.
    pub(super) fn give_away(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        let (id, local) = (listener.id, listener.local);
        let Some(handoff) = self.handoff.as_mut().filter(|_| !self.stopping) else {
            return;
        };
        let others = handoff.others_on(local);
        while self.stack.waiting(id) > 0 {
            let to = self.handoff.as_mut().and_then(|it| it.one_of(others));
            if !to.is_some_and(|to| self.move_waiting(number, to)) {
                break;
            }
        }
        self.note_flows();
        while let Some(handoff) = &mut self.handoff
            && let Some(to) = handoff.one_of(others)
            && let Some(half_open) = self.stack.export_half_open_of(self.now, id)
        {
            self.give_flow(half_open.local, half_open.remote, to);
            let begun = Begun {
                listener: local,
                half_open,
                hops: 0,
            };
            self.pass_on_begun(to, Box::new(begun));
        }
    }

    /// Moves the connection that waits longest in a listener to another worker; false if it stays.
    pub(super) fn move_waiting(&mut self, number: u32, to: WorkerId) -> bool {
        let Some(listener) = self.listeners.get_mut(number) else {
            return false;
        };
        let (id, local) = (listener.id, listener.local);
        let since = self.stack.waiting_since(id).unwrap_or(self.now);
        let Some(conn) = self.stack.accept(id) else {
            return false;
        };
        // What is out of order would need its memory; the peer sends it again.
        self.stack.shed_out_of_order(conn);
        // The directory is to know it before it is another's.
        self.note_flows();
        let Ok(connection) = self.stack.export(self.now, conn) else {
            // It is over: whoever accepts it here finds out.
            self.stack.give_back(self.now, id, conn);
            return false;
        };
        let since = self
            .connections
            .get(conn)
            .and_then(Conn::waits)
            .unwrap_or(since);
        let received = self.take_out(conn, connection.receive.received);
        self.give_flow(connection.local, connection.remote, to);
        let waiting = Box::new(Waiting {
            listener: local,
            connection: Box::new(connection),
            received,
            since,
            hops: 0,
        });
        self.pass_on(to, waiting)
    }

    /// Hands a connection over that is in no stack; true if it is another worker's now. If there is no room
    /// it is this one's again.
    fn pass_on(&mut self, to: WorkerId, waiting: Box<Waiting>) -> bool {
        let Some(handoff) = &mut self.handoff else {
            return false;
        };
        match handoff.serve(to, waiting) {
            Ok(()) => {
                self.counters.connections_moved += 1;
                true
            }
            Err(NoRoom(Handed::Waiting(waiting))) => {
                let connection = &waiting.connection;
                handoff.keep_flow(&flow(connection.local, connection.remote), to);
                self.counters.drop(Drop::HandoffFull);
                self.put_in(&waiting);
                false
            }
            Err(_) => false,
        }
    }

    /// What a connection has received that is in no stack any more; the engine forgets it.
    fn take_out(&mut self, id: ConnId, received: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(conn) = self.connections.get_mut(id) else {
            return bytes;
        };
        if let Some(pool) = self.memory.pool(conn.pool) {
            let mut at = conn.stream.consumed();
            while let Some((place, length)) = conn.stream.piece(at, received) {
                let begin = bytes.len();
                bytes.resize(begin + length as usize, 0);
                let copied = pool.area().copy_out(place, &mut bytes[begin..]);
                debug_assert!(copied.is_ok(), "chunks lie inside their areas");
                at += u64::from(length);
            }
            conn.stream.release(pool);
        }
        if let Some(path) = conn.path.take() {
            self.paths.release(path);
        }
        self.connections.leave(id);
        bytes
    }

    /// A connection comes that waits to be accepted.
    fn take_waiting(&mut self, mut waiting: Box<Waiting>) {
        let local = waiting.listener;
        let here = self.listeners.on(local).is_some_and(|l| !l.is_abandoned());
        if !here
            && waiting.hops < HOPS
            && let Some(handoff) = &mut self.handoff
            && let Some(to) = handoff.one_of(handoff.others_on(local))
        {
            // Its last process has gone meanwhile.
            waiting.hops += 1;
            let connection = &waiting.connection;
            handoff.give_flow(&flow(connection.local, connection.remote), to);
            self.pass_on(to, waiting);
        } else {
            self.put_in(&waiting);
        }
        // Whatever has become of it, who waits here for connections has not said so since.
        if let Some(number) = self.listeners.on(local).map(|l| l.number) {
            self.hand_over(number);
        }
    }

    /// Puts a connection into this worker's stack and its listener's queue. Where nobody listens it ends by
    /// RST, as what waits in a listener does that ends.
    fn put_in(&mut self, waiting: &Waiting) {
        let connection = &waiting.connection;
        let Ok(id) = self.stack.import(self.now, connection) else {
            self.counters.drop(Drop::MoveFailed);
            self.forget_flow(connection.local, connection.remote);
            return;
        };
        let uid = self.listeners.on(waiting.listener).map(|it| it.uid);
        let pool = uid.map_or(PoolId::ENGINE, |uid| self.memory.pool_for(uid));
        let whole = self.place_received(id, pool, &waiting.received);
        if let Some(conn) = self.connections.get_mut(id) {
            // This turn may have begun before that of the worker that it comes from.
            conn.set_waits(Some(waiting.since.min(self.now)));
        }
        let listener = self
            .listeners
            .on(waiting.listener)
            .map(|l| (l.id, l.number));
        match listener {
            Some((listener, _)) if whole => {
                self.stack.give_back(self.now, listener, id);
            }
            _ => {
                self.counters.drop(Drop::MoveFailed);
                self.finish(id, Request::Abort);
            }
        }
    }

    /// Whether all that a connection has received found memory here.
    fn place_received(&mut self, id: ConnId, pool: PoolId, bytes: &[u8]) -> bool {
        let (conn, new) = self.connections.enter(id);
        if new {
            conn.pool = pool;
            self.memory.expect_stream(conn.pool);
        }
        let Some(pool) = self.memory.pool(conn.pool) else {
            return false;
        };
        conn.stream.place(pool, 0, bytes) == bytes.len()
    }

    /// A handshake comes that was begun elsewhere.
    fn take_begun(&mut self, mut begun: Box<Begun>) {
        let listener = begun.listener;
        let here = self.listeners.on(listener).is_some();
        if !here
            && begun.hops < HOPS
            && let Some(handoff) = &mut self.handoff
            && let Some(to) = handoff.one_of(handoff.others_on(listener))
        {
            // Its last process has gone meanwhile.
            begun.hops += 1;
            let half_open = &begun.half_open;
            handoff.give_flow(&flow(half_open.local, half_open.remote), to);
            self.pass_on_begun(to, begun);
            return;
        }
        let half_open = &begun.half_open;
        if self.stack.import_half_open(self.now, half_open).is_err() {
            self.counters.drop(Drop::MoveFailed);
            self.forget_flow(half_open.local, half_open.remote);
        }
    }

    /// Hands a handshake over that is in no stack, and another worker's by the directory; where there is no room
    /// for it it is forgotten, and its client begins anew, or finds out by RST.
    fn pass_on_begun(&mut self, to: WorkerId, begun: Box<Begun>) {
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        match handoff.hand(to, Handed::Begun(begun)) {
            Ok(()) => self.counters.connections_moved += 1,
            Err(NoRoom(Handed::Begun(begun))) => {
                let lost = flow(begun.half_open.local, begun.half_open.remote);
                handoff.keep_flow(&lost, to);
                handoff.note_flow(&lost, false);
                self.counters.drop(Drop::HandoffFull);
            }
            Err(_) => {}
        }
    }

    /// A pair in TIME-WAIT comes, in front of the SYN that takes it over.
    fn take_ended(&mut self, pair: &TimeWait) {
        if self.stack.import_time_wait(self.now, pair).is_err() {
            // The SYN then finds nothing that it would take over.
            self.counters.drop(Drop::MoveFailed);
            self.forget_flow(pair.local, pair.remote);
        }
    }

    /// A flow that has just been taken out of this worker's stack is another's.
    fn give_flow(&mut self, local: SocketAddr, remote: SocketAddr, to: WorkerId) {
        if let Some(handoff) = &self.handoff {
            handoff.give_exported(&mut self.stack, &flow(local, remote), to);
        }
    }

    fn forget_flow(&self, local: SocketAddr, remote: SocketAddr) {
        if let Some(handoff) = &self.handoff {
            handoff.note_flow(&flow(local, remote), false);
        }
    }
}

fn flow(local: SocketAddr, remote: SocketAddr) -> FlowKey {
    FlowKey {
        local: local.ip(),
        remote: remote.ip(),
        local_port: local.port(),
        remote_port: remote.port(),
    }
}
