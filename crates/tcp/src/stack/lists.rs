//! What is ready: connections that may have something to send, what is to be told, and timers.

use tables::Queue;

use crate::connection::{Common, Connection};
use crate::info::State;
use crate::timer_wheel::TimerWheel;
use crate::{ConnId, Instant, ListenerId};

/// Something on the event list; looked up again when it is told.
#[derive(Clone, Copy)]
pub(super) enum Note {
    Listener(ListenerId),
    Connection(ConnId),
    Released(ConnId),
}

pub(super) struct Lists {
    /// Slots of connections that may have something to send.
    pub(super) ready: Queue<u32>,
    pub(super) events: Queue<Note>,
    pub(super) wheel: TimerWheel,
}

impl Lists {
    pub(super) fn new() -> Self {
        Self {
            ready: Queue::new(),
            events: Queue::new(),
            wheel: TimerWheel::new(Instant::ZERO),
        }
    }

    /// Puts a connection on the lists that it belongs to. Returns `false`, having done nothing, if
    /// the connection is over: then there is more to do.
    #[inline]
    pub(super) fn settle(&mut self, id: ConnId, c: &mut Connection, common: &mut Common) -> bool {
        let lives = !matches!(c.state, State::TimeWait | State::Closed);
        if lives && !Self::is_settled(c) {
            self.put(id, c, common);
        }
        lives
    }

    /// Whether a connection is on all the lists that it belongs to, as far as a look tells.
    #[inline]
    fn is_settled(c: &Connection) -> bool {
        (c.in_ready || !c.wants_transmit)
            && (c.in_events || !c.changed)
            && !c.timers.may_be_earlier()
            && c.out_of_order_ranges() == c.counted_ranges
    }

    /// The same after a segment that was predicted: such a one leaves nothing out of order.
    #[inline]
    pub(super) fn put_predicted(&mut self, id: ConnId, c: &mut Connection) {
        if let Some(deadline) = c.timers.take_earlier() {
            self.wheel.schedule(id.index, deadline);
        }
        if c.wants_transmit && !c.in_ready {
            c.in_ready = true;
            self.ready.push_back(id.index);
        }
        if c.changed && !c.in_events {
            c.in_events = true;
            self.events.push_back(Note::Connection(id));
        }
    }

    /// Puts a connection on the lists that it belongs to, whatever its state.
    pub(super) fn put(&mut self, id: ConnId, c: &mut Connection, common: &mut Common) {
        let ranges = c.out_of_order_ranges();
        if ranges != c.counted_ranges {
            common.out_of_order_ranges += u32::from(ranges);
            common.out_of_order_ranges -= u32::from(c.counted_ranges);
            c.counted_ranges = ranges;
        }
        if c.wants_transmit && !c.in_ready {
            c.in_ready = true;
            self.ready.push_back(id.index);
        }
        if c.changed && !c.in_events {
            c.in_events = true;
            self.events.push_back(Note::Connection(id));
        }
        if let Some(deadline) = c.timers.take_earlier() {
            self.wheel.schedule(id.index, deadline);
        }
    }
}
