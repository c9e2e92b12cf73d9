//! ICMP errors: which connection they are about, and what is remembered of the path for the next.

use std::collections::HashMap;

use core::net::IpAddr;
use core::time::Duration;

use wire::icmp::{Reason, TcpError};

use super::{Flow, Stack};
use crate::aging::Aging;
use crate::connection::{Context, PATH_MTU_LIFETIME_SECONDS};
use crate::counters::DropReason;
use crate::{ConnId, Instant};

/// What routers have said of paths of late, by the peer's address.
pub(crate) struct PathMtus {
    learned: Aging<(IpAddr, u16)>,
    by_remote: HashMap<IpAddr, u32>,
    limit: u32,
}

impl PathMtus {
    pub(crate) fn new(limit: u32) -> Self {
        let lifetime = Duration::from_secs(PATH_MTU_LIFETIME_SECONDS.into());
        Self {
            learned: Aging::new([lifetime]),
            by_remote: HashMap::new(),
            limit,
        }
    }

    /// The oldest makes room.
    fn learn(&mut self, now: Instant, remote: IpAddr, mtu: u16) {
        self.forget_old(now);
        if let Some(index) = self.by_remote.remove(&remote) {
            self.learned.remove(index);
        }
        if self.learned.len() >= self.limit
            && let Some(oldest) = self.learned.oldest(0)
        {
            self.forget(oldest);
        }
        if self.learned.len() < self.limit {
            let index = self.learned.insert(now, 0, (remote, mtu));
            self.by_remote.insert(remote, index);
        }
    }

    pub(crate) fn get(&mut self, now: Instant, remote: IpAddr) -> Option<u16> {
        if self.by_remote.is_empty() {
            return None;
        }
        self.forget_old(now);
        let index = *self.by_remote.get(&remote)?;
        self.learned.get_mut(index).map(|(_, mtu)| *mtu)
    }

    //= RFC 1191 §6.3
    //= RFC 8201 §5.3
    fn forget_old(&mut self, now: Instant) {
        while let Some((index, _)) = self.learned.expired(now) {
            self.forget(index);
        }
    }

    fn forget(&mut self, index: u32) {
        if let Some((remote, _)) = self.learned.remove(index) {
            self.by_remote.remove(&remote);
        }
    }
}

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
        if let Some(mtu) = result? {
            self.path_mtus.learn(now, error.flow.remote, mtu);
        }
        Ok(())
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
