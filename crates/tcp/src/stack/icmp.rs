//! ICMP errors: which connection they are about.

use wire::icmp::{Reason, TcpError};

use super::{Flow, Stack};
use crate::connection::Context;
use crate::counters::DropReason;
use crate::{ConnId, Instant};

impl Stack {
    /// An ICMP error about a segment that was sent from here has arrived.
    ///
    /// # Errors
    /// Why it was not acted upon; it has been counted.
    //= RFC 9293 MUST-54
    pub fn on_icmp(&mut self, now: Instant, error: &TcpError) -> Result<(), DropReason> {
        self.common.counters.icmp_errors_in += 1;
        let result = match self.flows.get(&error.flow).map(Flow::unpack) {
            Some(Flow::Connection(index)) => self.pass_error(now, index, error),
            Some(Flow::HalfOpen(index)) => self.pass_error_to_half_open(index, error),
            Some(Flow::TimeWait(_)) | None => Err(DropReason::IcmpNoConnection),
        };
        if let Err(reason) = result {
            self.common.counters.drop_segment(reason);
        }
        result
    }

    fn pass_error(&mut self, now: Instant, index: u32, error: &TcpError) -> Result<(), DropReason> {
        let Some((generation, c)) = self.connections.at_mut(index) else {
            return Err(DropReason::IcmpNoConnection);
        };
        let id = ConnId { index, generation };
        let common = &mut self.common;
        let result = c.on_icmp(error, &mut Context { now, id, common });
        if !self.lists.settle(id, c, &mut self.common) {
            self.settle_over(now, id);
        }
        result
    }

    /// A peer that cannot be reached will not complete its handshake: most likely it never began
    /// it. What quotes our number has seen our SYN-ACK.
    fn pass_error_to_half_open(&mut self, index: u32, error: &TcpError) -> Result<(), DropReason> {
        let unreachable = matches!(
            error.reason,
            Reason::NetUnreachable
                | Reason::HostUnreachable
                | Reason::ProtocolUnreachable
                | Reason::PortUnreachable
        );
        let half = self.half_opens.get_mut(index);
        if half.is_none_or(|half| half.handshake.iss != error.seq) {
            return Err(DropReason::IcmpOutOfWindow);
        }
        if !unreachable {
            return Err(DropReason::IcmpIgnored);
        }
        self.forget_half_open(index);
        Ok(())
    }
}
