//! What the engine tells people, as the fast half knows it: it fills room that others made.

use std::sync::Arc;

use netdev::Device;
use queue_pair::Profile;

use super::{SessionId, Worker};
use crate::exchange::{LISTENERS, Listening, Page, Row, RowKind, SESSIONS, Snapshot};
use crate::fast::connections::Conn;
use crate::fast::listeners::{Listener, Member};
use crate::fast::session::Session;
use crate::network::{Network, scoped};

/// Slots of connections that are looked at for one answer.
const LOOKS: u32 = 256;

/// Where connections begin among what an answer ends at; listeners are below.
const FIRST_CONNECTION: u64 = 1 << 32;

impl<D: Device, N: Network> Worker<D, N> {
    /// All counts at this time.
    pub(super) fn fill(&mut self, snapshot: &mut Snapshot) {
        snapshot.worker.clone_from(&self.counters);
        snapshot.tcp.clone_from(self.stack.counters());
        snapshot.device = self.device.counters();
        snapshot.queues = self.device.queues();
        snapshot.steering = self.network.steering_counts();
        snapshot.connections = self.stack.connection_count().into();
        snapshot.half_open = self.stack.half_open_count().into();
        snapshot.time_wait = self.stack.time_wait_count().into();
        snapshot.core = rustix::thread::sched_getcpu() as u64;
        snapshot.serving = self.serving;
        snapshot.mtu = self.stack.config().mtu.into();
        snapshot.listeners = self.listeners.len() as u64;
        snapshot.paths = self.paths.len() as u64;
        snapshot.held_frames = self.held.len() as u64;
        let live = self.sessions.iter().map(|(_, session)| session);
        let mut shares = Shares::of(SESSIONS);
        for session in live.filter(|session| session.ended.is_none()) {
            snapshot.attached += 1;
            if shares.take(session.process.uid) {
                let core = session.region.core.get();
                let pid = session.process.pid;
                let wanted = session.region.core.wanted();
                let facts = (session.number, pid, session.counters, core, wanted);
                snapshot.sessions.push(facts);
            }
        }
        let mut shares = Shares::of(LISTENERS);
        for listener in self.listeners.iter() {
            let session = self.listener_process(listener);
            // One that waits for the child of a fork has nobody for a moment.
            let user = session.map_or(u32::MAX, |session| session.process.uid);
            if let Some(counts) = self.stack.listener_counts(listener.id)
                && shares.take(user)
            {
                let row = (listener.local, listener.backlog, counts);
                snapshot.listening.push(row);
            }
        }
    }

    /// Some sockets, from where the last answer ended: listeners first, then connections by slot. An
    /// answer looks at a bounded number of slots, so it can be empty and yet not the last.
    pub(super) fn socket_rows(&self, after: Option<u64>, page: &mut Page) {
        let start = after.unwrap_or(0);
        if start < FIRST_CONNECTION {
            let skip = usize::try_from(start).unwrap_or(usize::MAX);
            let some = self.listeners.iter().skip(skip).take(page.room);
            page.rows
                .extend(some.map(|listener| self.listener_row(listener)));
            if page.rows.len() == page.room {
                page.next = Some(start + page.room as u64);
                return;
            }
        }
        let first = start.saturating_sub(FIRST_CONNECTION);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let end = self.connections.slots().min(first.saturating_add(LOOKS));
        for slot in first..end {
            if page.rows.len() == page.room {
                page.next = Some(FIRST_CONNECTION + u64::from(slot));
                return;
            }
            page.rows.extend(
                self.connections
                    .at(slot)
                    .and_then(|c| self.connection_row(c)),
            );
        }
        let more = end < self.connections.slots();
        page.next = more.then(|| FIRST_CONNECTION + u64::from(end));
    }

    fn listener_row(&self, listener: &Listener) -> Row {
        let session = self.listener_process(listener);
        Row {
            owner: session.map(owner),
            cores: session.and_then(cores),
            wanted: session.and_then(wanted),
            kind: RowKind::Listener {
                local: listener.local,
                waiting: self.stack.waiting(listener.id) as u64,
                backlog: listener.backlog,
            },
        }
    }

    fn connection_row(&self, conn: &Conn) -> Option<Row> {
        let mut info = self.stack.info(self.now, conn.id)?;
        let within = self.is_here(info.remote.ip());
        info.local = scoped(info.local, self.network.index());
        info.remote = scoped(info.remote, self.network.index());
        let session = conn.owner.and_then(|owner| self.sessions.get(owner));
        Some(Row {
            owner: session.map(owner),
            cores: session.and_then(cores),
            wanted: session.and_then(wanted),
            kind: RowKind::Connection {
                conn: conn.id,
                within,
                info,
                age: self.age(conn.id),
            },
        })
    }

    /// What the engine has of a process: listeners, as many as there is room for, and the number of
    /// connections with other machines and within this one.
    pub(super) fn explain(&self, pid: u32, listeners: &mut Vec<Listening>) -> [usize; 2] {
        let theirs = |session: SessionId| {
            self.sessions
                .get(session)
                .is_some_and(|s| s.process.pid == pid)
        };
        let room = listeners.capacity();
        let own = self.listeners.iter().filter_map(|listener| {
            let members = listener.members.iter();
            let own = members.filter(|member| theirs(member.session));
            let credit = own.map(Member::willing).reduce(u32::saturating_add)?;
            Some(Listening {
                local: listener.local,
                waiting: self.stack.waiting(listener.id) as u32,
                backlog: listener.backlog,
                credit,
            })
        });
        listeners.extend(own.take(room));
        let sessions = || {
            let all = self.sessions.iter().map(|(_, session)| session);
            all.filter(|s| s.process.pid == pid && s.ended.is_none())
        };
        let all: usize = sessions().map(|session| session.connections.len()).sum();
        let is_within = |id: &&tcp::ConnId| {
            let info = self.stack.info(self.now, **id);
            info.is_some_and(|info| self.is_here(info.remote.ip()))
        };
        let within = match self.local {
            Some(_) => sessions()
                .flat_map(|session| &session.connections)
                .filter(is_within)
                .count(),
            None => 0,
        };
        [all - within, within]
    }

    /// How long ago the engine first had to do with a connection.
    pub(super) fn age(&self, id: tcp::ConnId) -> core::time::Duration {
        let conn = self.connections.get(id);
        conn.map_or(core::time::Duration::ZERO, |conn| {
            self.now.saturating_duration_since(conn.since)
        })
    }

    fn listener_process(&self, listener: &Listener) -> Option<&Session> {
        // Of several processes (a master and its workers) the one that joined last: it accepts.
        self.sessions.get(listener.members.last()?.session)
    }
}

/// Places in an answer, of which one user can have two thirds: whoever makes many listeners does not take
/// those of others' from where the operator looks.
struct Shares {
    left: usize,
    each: u16,
    taken: [(u32, u16); Self::USERS],
}

impl Shares {
    /// Users that are told apart; all further ones are one.
    const USERS: usize = 16;

    fn of(places: usize) -> Self {
        Self {
            left: places,
            each: (places * 2 / 3) as u16,
            taken: [(0, 0); Self::USERS],
        }
    }

    /// One more place for a user, if there is one.
    fn take(&mut self, user: u32) -> bool {
        let known = self
            .taken
            .iter()
            .position(|(who, n)| *n == 0 || *who == user);
        let (who, taken) = &mut self.taken[known.unwrap_or(Self::USERS - 1)];
        if self.left == 0 || *taken == self.each {
            return false;
        }
        *who = user;
        *taken += 1;
        self.left -= 1;
        true
    }
}

fn owner(session: &Session) -> (u32, u32, Arc<str>) {
    let process = &session.process;
    (session.number, process.pid, Arc::clone(&process.program))
}

/// How a program wants to be waited for.
fn wanted(session: &Session) -> Option<Profile> {
    session.region.core.wanted()
}

/// The core that a program named, and that of this worker.
fn cores(session: &Session) -> Option<(u32, u32)> {
    let core = u32::try_from(session.region.core.get()?).ok()?;
    let here = u32::try_from(rustix::thread::sched_getcpu()).ok()?;
    Some((core, here))
}

#[cfg(test)]
mod tests {
    use super::Shares;

    #[test]
    fn one_user_leaves_places_to_others() {
        let mut shares = Shares::of(6);
        let took = |shares: &mut Shares, user| (0..9).filter(|_| shares.take(user)).count();
        assert_eq!(took(&mut shares, 7), 4);
        assert_eq!(took(&mut shares, 0), 2);
        assert_eq!(took(&mut shares, 8), 0);
    }

    #[test]
    fn more_users_than_are_told_apart_share_what_is_there() {
        let mut shares = Shares::of(48);
        let took = (0..100).filter(|user| shares.take(*user)).count();
        assert_eq!(took, 15 + 32);
    }
}
