//! Connections whose large sends the device has no room for. What is small leaves by another way, so nobody else
//! waits for that; and they send nothing of their streams until one of them has found room, which the first
//! tries in each turn.

use std::collections::{BTreeSet, VecDeque};

use tcp::ConnId;

/// Connections that go on in a turn, once there is room.
const AT_ONCE: usize = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// In the order in which they have been refused.
    waiting: VecDeque<ConnId>,
    /// The same: each stands there once.
    known: BTreeSet<ConnId>,
    /// There was no room when somebody last tried.
    full: bool,
}

impl Blocked {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether this is one.
    pub fn has(&self, id: ConnId) -> bool {
        self.known.contains(&id)
    }

    /// Whether there is no room, and nobody need try.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// There is no room for a large send of this connection.
    pub fn refuses(&mut self, conn: Option<ConnId>) {
        self.full = true;
        if let Some(conn) = conn
            && self.known.insert(conn)
        {
            self.waiting.push_back(conn);
        }
    }

    /// Whether some go on in the next turn, without anything having happened.
    pub fn goes_on(&self) -> bool {
        !(self.full || self.waiting.is_empty())
    }

    /// How many try again in a turn: one, if there was no room.
    pub fn again(&mut self) -> usize {
        let full = core::mem::take(&mut self.full);
        let most = if full { 1 } else { AT_ONCE };
        most.min(self.waiting.len())
    }

    /// The next that tries again.
    pub fn take_next(&mut self) -> Option<ConnId> {
        let next = self.waiting.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}
