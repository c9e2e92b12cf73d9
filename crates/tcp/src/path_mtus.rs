//! Path MTUs that connections have found, remembered for later connections to the same peer.

use std::collections::HashMap;

use core::net::IpAddr;
use core::time::Duration;

use crate::Instant;
use crate::aging::Aging;

/// How long an estimate is believed before a larger one is tried, in seconds (RFC 1191 §6.3,
/// RFC 8201 §5.3: 10 minutes).
pub(crate) const LIFETIME_SECONDS: u32 = 600;

/// The path MTUs that were found recently, by the peer's address.
pub(crate) struct PathMtus {
    learned: Aging<(IpAddr, u16)>,
    by_remote: HashMap<IpAddr, u32>,
    limit: u32,
}

impl PathMtus {
    pub(crate) fn new(limit: u32) -> Self {
        let lifetime = Duration::from_secs(LIFETIME_SECONDS.into());
        Self {
            learned: Aging::new([lifetime]),
            by_remote: HashMap::new(),
            limit,
        }
    }

    /// Remembers a path MTU. If there are too many, the oldest is forgotten.
    pub(crate) fn learn(&mut self, now: Instant, remote: IpAddr, mtu: u16) {
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

    /// Whether it keeps to its limit, and each will be forgotten.
    pub(crate) fn is_bounded(&self) -> bool {
        self.learned.len() <= self.limit
            && self.by_remote.len() == self.learned.len() as usize
            && self.learned.is_in_order()
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
