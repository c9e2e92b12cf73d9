//! The states, and what each permits.

use crate::info::State;

impl State {
    /// Both SYNs have been acknowledged (RFC 9293 3.3.2: "synchronized").
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// The peer may still send data.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// We may still have data to send, or FIN.
    pub(crate) const fn may_transmit(self) -> bool {
        matches!(
            self,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }

    /// Where sending FIN leads (CLOSE call, RFC 9293 3.10.4).
    pub(crate) const fn after_shutdown(self) -> State {
        match self {
            State::Established | State::SynReceived => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => other,
        }
    }

    /// Where the acknowledgement of our FIN leads.
    pub(crate) const fn after_fin_acked(self) -> State {
        match self {
            State::FinWait1 => State::FinWait2,
            State::Closing => State::TimeWait,
            State::LastAck => State::Closed,
            other => other,
        }
    }

    /// Where the peer's FIN leads (RFC 9293 3.10.7.4, eighth).
    pub(crate) const fn after_peer_fin(self) -> State {
        match self {
            State::SynReceived | State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            other => other,
        }
    }

    /// The name that RFC 9293 and `ss` give it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "CLOSED",
        }
    }
}
