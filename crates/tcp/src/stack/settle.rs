//! What follows when a connection has changed. Everything that touches a connection ends here.

use super::control::Control;
use super::lists::Note;
use super::{Flow, Stack};
use crate::fast_open::FastOpen;
use crate::info::State;
use crate::time_wait::Pair;
use crate::{ConnId, Instant};

impl Stack {
    /// Puts a connection on the lists that it belongs to.
    pub(super) fn settle(&mut self, id: ConnId) {
        let Some(c) = self.connections.get_mut(id.index, id.generation) else {
            return;
        };
        self.lists.put(id, c, &mut self.common);
        if c.state == State::Closed {
            self.settle_closed(id);
        }
    }

    /// The same for a connection that is over.
    #[cold]
    pub(super) fn settle_over(&mut self, now: Instant, id: ConnId) {
        if let Some(c) = self.connections.get_mut(id.index, id.generation)
            && c.state == State::TimeWait
        {
            self.enter_time_wait(now, id.index);
        }
        self.settle(id);
    }

    /// A closed connection frees its addresses and ports once the RST that is due has left, and its slot
    /// once the owner has closed it, too.
    fn settle_closed(&mut self, id: ConnId) {
        let Some(c) = self.connections.get_mut(id.index, id.generation) else {
            return;
        };
        if c.fast_open.is_pending() {
            c.fast_open = FastOpen::No;
            self.common.fast_opens.pending -= 1;
        }
        if c.in_flows && !c.reset_due {
            c.in_flows = false;
            self.flows.remove(&c.key);
        }
        if c.admission != 0 {
            let (number, from) = (core::mem::take(&mut c.admission), c.key.remote);
            self.listeners.ended(number, from);
        }
        if c.orphan && !c.reset_due {
            self.release(id);
        }
    }

    fn release(&mut self, id: ConnId) {
        // The slot is filled again when the owner has heard of its release: an owner that keeps memory
        // by slot has then let go of this connection's.
        if self.connections.vacate(id.index) {
            self.orphans -= 1;
            self.lists.wheel.cancel(id.index);
            self.lists.events.push_back(Note::Released(id));
        }
    }

    /// Both sides have closed: the pair waits in its own table. An owner that has not closed the
    /// connection keeps it, to read what is left.
    //= RFC 9293 MUST-13
    fn enter_time_wait(&mut self, now: Instant, index: u32) {
        let Some((_, c)) = self.connections.at_mut(index) else {
            return;
        };
        let pair = Pair::of(c, now);
        let key = pair.key;
        // The peer's FIN wants its acknowledgement, if it has not had it in CLOSING, and the
        // connection will not send it any more.
        let owes_ack = c.rcv.acked != c.rcv.nxt;
        let (src, dst, tcp) = (key.local, key.remote, pair.acknowledgement(now));
        c.in_flows = false;
        c.state = State::Closed;
        c.wants_transmit = false;
        if let Some(oldest) = self.time_wait.overflowing() {
            self.forget_time_wait(oldest);
            self.common.counters.time_wait_recycled += 1;
        }
        let slot = self.time_wait.insert(now, pair);
        let hash = if self.recent.index == index {
            self.recent.hash
        } else {
            self.flows.hash(&key)
        };
        self.flows
            .insert_hashed(key, hash, Flow::TimeWait(slot).pack());
        self.common.counters.time_waits += 1;
        if owes_ack {
            let link = None;
            self.push_control(Control::Segment {
                link,
                src,
                dst,
                tcp,
            });
        }
    }

    pub(super) fn forget_time_wait(&mut self, slot: u32) {
        if let Some(pair) = self.time_wait.remove(slot) {
            self.flows.remove(&pair.key);
        }
    }
}
