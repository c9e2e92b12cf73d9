//! Users share the table of connections: who has enough leaves new ones to the kernel.

use std::time::Duration;

use netdev::Device;
use queue_pair::Opening;
use tcp::Instant;

use super::Worker;
use crate::config::shares::ROOT;
use crate::fast::connections::SessionId;
use crate::fast::users::Users;
use crate::network::Network;
use crate::stats::Drop;

/// How often connections are counted at most.
const INTERVAL: Duration = Duration::from_millis(1);

/// What is known of the users.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    pub users: Users,
    /// How many connections there were when they were counted, and when that was.
    seen: u32,
    at: Instant,
}

impl Sharing {
    /// Of places for `limit` connections, before anybody was counted.
    pub fn of(limit: u32) -> Self {
        Self {
            users: Users::among(limit as usize),
            ..Self::default()
        }
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Counts the connections of each user if there are more or fewer than a moment ago.
    pub(super) fn look_at_users(&mut self) {
        let soon = self.now < self.sharing.at + INTERVAL;
        if !soon && self.stack.connection_count() != self.sharing.seen {
            self.count_users();
        }
    }

    /// Counts the connections of each user: those that its processes have, and those that wait in its
    /// listeners. Who has enough leaves new ones to the kernel from now on, who has not any more does not.
    pub(super) fn count_users(&mut self) {
        self.sharing.at = self.now;
        self.sharing.seen = self.stack.connection_count();
        let sessions = self.sessions.iter();
        let held = sessions.map(|(_, session)| (session.process.uid, session.held as usize));
        let stack = &self.stack;
        let listeners = self.listeners.iter();
        let waiting = listeners.map(|listener| (listener.uid, stack.waiting(listener.id)));
        let limit = self.config.limits.connections as usize;
        let [more, fewer] = self.sharing.users.count(limit, held.chain(waiting));
        (0..more).for_each(|_| self.counters.drop(Drop::ConnectionsOfUser));
        if more + fewer > 0 {
            for (_, session) in self.sessions.iter() {
                let opening = self.opening_for(session.process.uid);
                session.region.opening.set(opening);
            }
            self.apply_access();
        }
    }

    /// Who opens the connections of a user.
    pub(super) fn opening_for(&self, uid: u32) -> Opening {
        match self.told_opening {
            Opening::Engine if self.sharing.users.is_beyond(uid) => Opening::Enough,
            opening => opening,
        }
    }

    /// Whether there is no room at all for another connection of a session's user. Programs hear before that
    /// who opens connections: this is for those that do not listen.
    pub(super) fn has_too_many(&self, id: SessionId) -> bool {
        let uid = self.sessions.get(id).map_or(ROOT, |s| s.process.uid);
        uid != ROOT && self.sharing.users.left(uid) == 0
    }
}
