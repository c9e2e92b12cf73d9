//! Neighbours that do not answer: connections that are being opened through one fail, as in the kernel, and
//! established ones go on trying. However many are being opened, some are looked at in a turn.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netdev::Device;
use tcp::{ConnId, Failure, Instant};

use super::Worker;
use crate::network::{Network, OnLink};

/// Connections that are looked at in a turn.
const LOOKS: usize = 128;

/// Who does not answer, for as long as some of what is being opened has not been looked at since.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// Whose connections are looked for in this round, and when each was told of.
    now: BTreeMap<OnLink<IpAddr>, Instant>,
    /// In the next.
    next: BTreeMap<OnLink<IpAddr>, Instant>,
    /// The last that was looked at in this round.
    last: Option<ConnId>,
}

impl Failing {
    /// A neighbour does not answer.
    pub fn fails(&mut self, neighbour: OnLink<IpAddr>, now: Instant) {
        self.next.insert(neighbour, now);
    }

    /// It does: what has not failed yet need not.
    pub fn answers(&mut self, neighbour: OnLink<IpAddr>) {
        self.now.remove(&neighbour);
        self.next.remove(&neighbour);
    }

    /// Whether all was looked at.
    pub fn is_over(&self) -> bool {
        self.now.is_empty() && self.next.is_empty()
    }

    /// A round begins if none goes on.
    fn begin(&mut self) {
        if self.now.is_empty() {
            (self.now, self.last) = (core::mem::take(&mut self.next), None);
        }
    }

    /// Whether a connection that was begun then, through this neighbour, fails. One that is begun later has the
    /// neighbour asked for once more.
    fn has(&self, neighbour: OnLink<IpAddr>, since: Instant) -> bool {
        self.now.get(&neighbour).is_some_and(|told| since <= *told)
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Looks at some of the connections that are being opened, if there are neighbours that do not answer; true if
    /// there are.
    pub(super) fn go_on_failing(&mut self) -> bool {
        if self.failing.is_over() {
            return false;
        }
        self.failing.begin();
        for _ in 0..LOOKS {
            let Some(id) = self.connections.opening_after(self.failing.last) else {
                self.failing.now.clear();
                break;
            };
            self.failing.last = Some(id);
            let Some(conn) = self.connections.get(id) else {
                continue;
            };
            let through = conn.path.and_then(|path| self.paths.next_hop(path));
            if through.is_some_and(|neighbour| self.failing.has(neighbour, conn.since)) {
                let failure = Failure::HostUnreachable;
                self.stack.on_unreachable(self.now, id, failure);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NicId;

    #[test]
    fn who_fails_while_a_round_goes_on_has_the_next() {
        let neighbour = |last| OnLink {
            nic: NicId::default(),
            address: IpAddr::from([192, 0, 2, last]),
        };
        let at = Instant::from_nanos;
        let mut failing = Failing::default();
        failing.fails(neighbour(1), at(10));
        failing.begin();
        failing.fails(neighbour(2), at(20));
        failing.begin();
        assert!(failing.has(neighbour(1), at(10)) && !failing.has(neighbour(1), at(11)));
        assert!(!failing.has(neighbour(2), at(1)));
        failing.answers(neighbour(1));
        failing.begin();
        assert!(failing.has(neighbour(2), at(20)));
        failing.answers(neighbour(2));
        assert!(failing.is_over());
    }
}
