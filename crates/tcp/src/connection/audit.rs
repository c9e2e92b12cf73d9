//! What always holds of a connection between two calls.

use super::{Connection, Timer};
use crate::fast_open::FastOpen;
use crate::info::State;

impl Connection {
    /// Says what is wrong with this connection, if anything is: above all, that it waits for
    /// something and nothing would ever wake it. See [`Stack::audit`](crate::Stack::audit).
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        let rule = |holds: bool, broken: &'static str| if holds { Ok(()) } else { Err(broken) };
        let is_set = |timer| self.timers.is_set(timer);
        let ready = self.in_ready;
        rule(
            ready || !self.wants_transmit,
            "wants to transmit and is not on the ready list",
        )?;
        rule(
            self.in_events || !self.changed,
            "has changed and is not on the event list",
        )?;
        rule(
            self.state != State::TimeWait,
            "in TIME-WAIT, and not in the table for that",
        )?;
        if self.state == State::Closed {
            rule(ready || !self.reset_due, "owes a RST and is not ready")?;
            return rule(
                !self.orphan || self.reset_due,
                "closed by both sides and still there",
            );
        }
        rule(
            ready
                || self.state.is_synchronized()
                || is_set(Timer::Transmit)
                || (self.state == State::SynSent && self.fast_open == FastOpen::Held),
            "in a handshake without a timer",
        )?;
        rule(
            ready || self.in_flight() == 0 || is_set(Timer::Transmit),
            "data in flight without a timer",
        )?;
        rule(
            ready
                || !self.has_pending()
                || is_set(Timer::Transmit)
                || is_set(Timer::CorkOrFinWait2),
            "something to send without a timer",
        )?;
        rule(
            ready || !self.orphan || self.timers.earliest().is_some(),
            "an orphan without a timer",
        )?;
        rule(
            ready
                || !self.state.is_synchronized()
                || self.rcv.acked == self.rcv.nxt
                || is_set(Timer::DelayedAck),
            "an acknowledgement owed without a timer",
        )?;
        rule(
            !self.keep_alive.enabled || !self.state.is_synchronized() || is_set(Timer::KeepAlive),
            "keepalive without a timer",
        )?;
        self.audit_bounds()
    }

    /// The numbers fit one another.
    pub(super) fn audit_bounds(&self) -> Result<(), &'static str> {
        let rule = |holds: bool, broken: &'static str| if holds { Ok(()) } else { Err(broken) };
        rule(
            self.rcv.consumed <= self.rcv.received && self.rcv.received <= self.rcv.fin_at,
            "the received stream is out of order",
        )?;
        let held = self.reassembly.end().unwrap_or(0);
        rule(
            held <= self.rcv.received + u64::from(self.receive_window()),
            "data held beyond the window",
        )?;
        rule(
            u64::from(self.syn_data) <= self.queue.len(),
            "more sent with the SYN than there was to send",
        )?;
        if !self.state.is_synchronized() && !self.fast_open.is_pending() {
            return Ok(());
        }
        rule(
            self.unsent() <= self.queue.end(),
            "more sent than there was to send",
        )?;
        self.recovery.audit(self.snd.una, self.snd.nxt)
    }

    /// Bytes that the peer may make its owner hold: what is unread, and the window.
    pub(crate) fn exposure(&self) -> u64 {
        self.unread() + u64::from(self.receive_window())
    }
}
